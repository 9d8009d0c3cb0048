"""The five steps of an explanation, as a person reads them."""

from __future__ import annotations

import json

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from whileai.cli import output
from whileai.cli.drawing import asked, bar, cut, did, place, plain_table, signed
from whileai.cli.explanation import Explanation
from whileai.cli.logs import frames
from whileai.cli.output import say
from whileai.core.factors import quality_factors
from whileai.core.verdict import Scores, Verdict
from whileai.errors import kind_and_reason
from whileai.grading import GroupwiseGrading

SHOWN = 400
"""Characters of one value of a grader's answer; `--json` has all of it."""


def show(grading: GroupwiseGrading, explanation: Explanation, title: str) -> None:
    """Print the steps. `title` says which group it is."""
    console = output.console()
    say(console, title, "bold", indent=0)
    _step(console, "1  What the grader received")
    _received(console, explanation)
    _step(console, "2  What it said")
    if not explanation.answers:
        say(console, f"It was not asked: {explanation.left_alone}.", "yellow")
        return
    _said(console, explanation)
    _step(console, "3  What was read from it")
    _read(console, explanation)
    _step(console, "4  What each pass keeps" + (", and lambda" if grading.mode == "advantage" else ""))
    _factors(console, grading, explanation)
    _step(console, "5  Advantages before and after")
    _advantages(console, grading, explanation)


def _step(console: Console, title: str) -> None:
    console.print(f"\n{title}", style="bold")


def _received(console: Console, explanation: Explanation) -> None:
    group = explanation.group.rollouts
    shown = Text(" " * output.INDENT + asked(group[0]), style="italic")
    shown.truncate(console.width, overflow=cut(console))
    console.print(shown)
    table = plain_table()
    for heading in ("#", "reward", "chars"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("result", no_wrap=True)
    table.add_column("what it did")
    for rollout in group:
        reward = "none" if rollout["reward"] is None else f"{rollout['reward']:g}"
        result = Text("pass", "green") if rollout["passed"] else Text("fail", "dim")
        what = Text(did(rollout), no_wrap=True, overflow=cut(console))
        table.add_row(str(rollout["index"]), reward, str(len(rollout["completion"])), result, what)
    console.print(Padding(table, (0, 0, 0, output.INDENT), expand=False))
    say(console, f"each with {', '.join(group[0])}", "dim")


def _said(console: Console, explanation: Explanation) -> None:
    for answer in explanation.answers:
        lead = "" if answer.index is None else f"{answer.index}  "
        if answer.raised and answer.failure is not None:
            places = frames(answer.failure)
            say(console, f"{lead}nothing: it raised" + (f" at {places[-1]}" if places else ""), "red")
            continue
        said = output.json_like(answer.said)
        values = said.items() if isinstance(said, dict) and answer.index is None else [("", said)]
        for key, value in values:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            say(console, lead + (f"{key}: " if key else "") + _short(text), "cyan")


def _read(console: Console, explanation: Explanation) -> None:
    for answer in explanation.answers:
        lead = "" if answer.index is None else f"{answer.index}  "
        if answer.failure is not None:
            kind, reason = kind_and_reason(answer.failure)
            say(console, f"{lead}unusable, {kind}: {_short(reason)}", "red")
        elif isinstance(answer.read, Scores):
            solution, behavior = answer.read
            say(console, f"{lead}solution {solution:g}, behavior {behavior:g}")
        elif isinstance(answer.read, Verdict):
            for line in _verdict_lines(answer.read):
                say(console, line)


def _verdict_lines(verdict: Verdict) -> list[str]:
    """A verdict as its reader understood it."""
    lines = []
    if verdict.ranking is not None:
        order = " > ".join(" = ".join(map(str, tie)) for tie in verdict.ranking)
        ties = sum(len(tie) > 1 for tie in verdict.ranking)
        tied = f" ({output.count(ties, 'tie')})" if ties else ""
        lines.append(f"ranking: {order}, best first{tied}" if order else "ranking: of no pass")
    if verdict.factors is not None:
        lines.append("factors: " + ", ".join(f"{index}: {factor:g}" for index, factor in verdict.factors.items()))
    if verdict.ranking is None and verdict.factors is None:
        lines.append("no order: it only looks for hacks")
    lines.append(f"hacks: {', '.join(map(str, verdict.hacks)) or 'none'}")
    if verdict.extra:
        lines.append(f"kept beside it: {', '.join(map(str, verdict.extra))}")
    return lines


def _factors(console: Console, grading: GroupwiseGrading, explanation: Explanation) -> None:
    passes = [rollout["index"] for rollout in explanation.group.rollouts if rollout["passed"]]
    shape, answers = explanation.shape, explanation.answers
    factors = shape.factors
    if explanation.left_alone and answers and isinstance(verdict := answers[0].read, Verdict):
        factors = quality_factors(verdict, passes, min_factor=grading.min_factor, hack_zero=grading.hack_zero)
    for line in _factor_lines(grading, explanation):
        say(console, line, "dim")
    if factors:
        name = "product" if grading.mode == "reward" else "factor"
        listed = ", ".join(f"{index}: {factor:.3f}" for index, factor in sorted(factors.items()))
        say(console, f"{name} by rollout: {listed}")
    if explanation.left_alone:
        say(console, f"Training leaves this group alone: {explanation.left_alone}.", "yellow")
    elif grading.mode == "advantage" and shape.verdict is not None:
        for line in _lambda_lines(grading, explanation):
            say(console, line)
    elif not shape.factors:
        say(console, "No usable answer: the group keeps its original rewards.", "yellow")


def _factor_lines(grading: GroupwiseGrading, explanation: Explanation) -> list[str]:
    """Where the factors come from."""
    if grading.mode == "reward":
        floor = f", neither below the floor of {grading.floor:g}" if grading.floor else ""
        lines = [f"product = solution * behavior{floor}"]
        if any(answer.failure for answer in explanation.answers) and explanation.shape.factors:
            lines.append("a pass whose call failed takes the mean product of the others")
        return lines
    read = next((answer.read for answer in explanation.answers if answer.read), None)
    if read is None:
        return []
    if getattr(read, "ranking", None) is None:
        return ["the factors are the grader's own" if getattr(read, "factors", None) else "no order: every factor is 1"]
    return [
        f"from 1.0 for the best place to {grading.min_factor:g} (min_factor) for the worst, in a straight line; "
        "a tie shares the factor of its middle place"
    ]


def _lambda_lines(grading: GroupwiseGrading, explanation: Explanation) -> list[str]:
    shape, rollouts = explanation.shape, explanation.group.rollouts
    lines = []
    if shape.hacks:
        lines.append(f"Hacks count as failed from here on: {', '.join(map(str, shape.hacks))}.")
    rising = {index: explanation.reset[index] for index in shape.factors if explanation.reset[index] > 0}
    if not rising:
        flat = "Every pass is a hack: the group is flat, and the hack goes unpunished."
        every = len(shape.hacks) == sum(rollout["passed"] for rollout in rollouts)
        return [*lines, flat if every else "No pass lies above the group's mean, so nothing moves."]
    mass = sum(rising.values())
    held = sum(shape.factors[index] * advantage for index, advantage in rising.items())
    over = "the passes" if len(rising) == len(shape.factors) else "the passes above the mean"
    lines.append(f"lambda = sum of A / sum of f A over {over} = {mass:.4g} / {held:.4g} = {shape.moved:.4g}")
    if shape.capped:
        lines.append(
            f"The cap of {grading.cap:g} binds: A' = {grading.cap:g} f A, and the mean is then subtracted again."
        )
    else:
        lines.append(
            f"The cap of {grading.cap:g} does not bind. A' = {shape.moved:.4g} f A for a pass, A for a failure."
        )
    return lines


def _advantages(console: Console, grading: GroupwiseGrading, explanation: Explanation) -> None:
    shape, rollouts = explanation.shape, explanation.group.rollouts
    ascii_only = console.options.ascii_only
    changes = [after - before for before, after in zip(explanation.before, explanation.after, strict=True)]
    largest = max(map(abs, changes)) or 1.0
    columns = {"#": 1, "rank": 4, "reward": 6, "A before": 8}
    if shape.hacks:
        columns["hack failed"] = 11
    columns |= {"factor" if grading.mode == "advantage" else "product": 6, "A after": 7}
    table = plain_table()
    for heading, width in columns.items():
        table.add_column(heading, justify="right", no_wrap=True, min_width=width)
    table.add_column("moved", no_wrap=True)
    for rollout, before, reset, after, change in zip(
        rollouts, explanation.before, explanation.reset, explanation.after, changes, strict=True
    ):
        index = rollout["index"]
        rank, style = place(index, rollout, shape.factors, shape.hacks)
        factor = shape.factors.get(index)
        cells: list[str | Text] = [
            str(index),
            Text(rank, style),
            "none" if rollout["reward"] is None else f"{rollout['reward']:g}",
            signed(before, 3),
            *([signed(reset, 3)] if shape.hacks else []),
            "" if factor is None else f"{factor:.3f}",
            signed(after, 3),
            bar(change / largest, ascii_only=ascii_only),
        ]
        table.add_row(*cells)
    sums = [sum(explanation.before), *([sum(explanation.reset)] if shape.hacks else [])]
    table.add_row(
        "", Text("sum", "dim"), "", *(signed(value, 3) for value in sums), "", signed(sum(explanation.after), 3)
    )
    console.print(Padding(table, (0, 0, 0, output.INDENT), expand=False))
    handed = ", ".join(f"{reward:.4g}" for reward in shape.rewards)
    say(console, f"The trainer gets {handed}: A after, plus the mean reward.", "cyan")


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else f"{line[:SHOWN]}... ({len(line):,} characters)"

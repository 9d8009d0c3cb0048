"""`whileai render`: exactly what a judge would be sent about one group. Nothing is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from whileai.cli import output
from whileai.cli.options import GroupSize, Json, Models, OneGroup, Rows, Target

if TYPE_CHECKING:
    from rich.console import Console

    from whileai.loader import CompiledGrader


def render(
    target: Target,
    rows: Rows,
    group: OneGroup = None,
    group_size: GroupSize = None,
    model: Models = None,
    json: Json = False,
) -> None:
    """Print exactly what a judge would be sent, with its cost.

    One prompt for each presentation order; of a panel those of every
    member. Nothing is sent. In reward mode the rubric stands empty: it is
    written when a task is first met.
    """
    from whileai.checks.rows import read_rows
    from whileai.cli.explanation import calls_of, choose_group, group_names
    from whileai.core.group import groups_from_rows
    from whileai.errors import ConfigError

    with output.graders_aside():
        grader = _judge_of(target, model)
    groups = group_names(groups_from_rows(read_rows(rows), group_size=group_size))
    name = choose_group(groups, group)
    calls = calls_of("advantage" if grader.writes_rubrics else grader.mode, groups[name].rollouts)
    if not calls:
        raise ConfigError(f"no rollout of the group {name} passed, so there is nothing to ask about it")
    judges = [_asked(judge, grader, calls) for judge, grader in grader.judges.items()]
    usd = [judge["usd"] for judge in judges]
    found = {
        "grader": grader.name,
        "group": name,
        "rows": groups[name].positions,
        "requests": sum(len(judge["requests"]) for judge in judges),
        "usd": None if None in usd else sum(usd),
        "judges": judges,
    }
    if json:
        output.print_json(found)
    else:
        _show(found, f"group {list(groups).index(name) + 1} of {len(groups)}")


def _judge_of(target: str, models: list[str] | None) -> CompiledGrader:
    from whileai.cli.targets import load_target
    from whileai.errors import ConfigError
    from whileai.loader import CompiledGrader

    grader = load_target(target, models)
    if isinstance(grader, CompiledGrader) and grader.judges:
        return grader
    what = f"kind: {grader.spec.kind}" if isinstance(grader, CompiledGrader) else "a plain function"
    raise ConfigError(f"{target} is {what}, which asks no model; whileai explain shows what it does")


def _asked(name: str, judge: CompiledGrader, calls: list[tuple[Any, ...]]) -> dict[str, Any]:
    """What one judge would be sent, for people and machines."""
    from whileai.cli.spending import asked, estimate, label
    from whileai.engine.cost import CHARACTERS_PER_TOKEN
    from whileai.providers.registry import provider_class_of

    role = judge.models[0]
    requests = [
        {
            "system": prompt.system,
            "user": prompt.user,
            "schema": prompt.form.schema,
            "shown": {
                label: candidate.indices
                for label, candidate in zip(prompt.shown.labels, prompt.shown.candidates, strict=True)
            },
            "tokens": round((len(prompt.system) + len(prompt.user)) / CHARACTERS_PER_TOKEN),
        }
        for call in calls
        for prompt in judge.prompts(*call)
    ]
    return {
        "judge": name,
        "models": [{"model": label(model), "host": model.host} for model in judge.models],
        "asks": asked(judge),
        "cap": role.params.get("max_tokens") or provider_class_of(role.provider).default_max_tokens,
        "usd": estimate(judge, calls)[1],
        "requests": requests,
    }


def _show(found: dict[str, Any], where: str) -> None:
    console = output.console()
    output.say(console, f"{found['group']}  ({where})", "bold", indent=0)
    for judge in found["judges"]:
        _show_judge(console, judge)


def _show_judge(console: Console, judge: dict[str, Any]) -> None:
    import json

    from whileai.cli.spending import money

    requests = judge["requests"]
    console.print()
    output.say(console, f"{judge['judge']} would ask {judge['asks']}", "bold", indent=0)
    if not requests:
        output.say(console, "Nothing: all passes are shown as one and the same text, so they tie.", "yellow")
        return
    tokens = sum(request["tokens"] for request in requests)
    cap = "no cap on a reply" if judge["cap"] is None else f"at most {judge['cap']:,} for a reply"
    output.say(
        console,
        f"{output.count(len(requests), 'request')}, about {tokens:,} tokens in all, {cap}; {money(judge['usd'])}",
        "cyan",
    )
    shown = ""
    for number, request in enumerate(requests, 1):
        if request["system"] != shown:
            _text(console, "system message", request["system"])
            shown = request["system"]
        order = ", ".join(f"{name} is {' = '.join(map(str, indices))}" for name, indices in request["shown"].items())
        of = f"{number} of {len(requests)}: " if len(requests) > 1 else ""
        _text(console, f"user message {of}{order}", request["user"])
    _text(console, "schema of the reply", json.dumps(requests[-1]["schema"], indent=2, ensure_ascii=False))


def _text(console: Console, title: str, text: str) -> None:
    """A text as it is sent; on a terminal wrapped at words, and without what could drive it."""
    console.print()
    output.say(console, f"--- {title} ---", "bold yellow", indent=0)
    if console.is_terminal:
        console.print(output.visible(text))
    else:
        console.print(text, soft_wrap=True)

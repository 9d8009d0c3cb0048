"""Golden cases: groups for which a person has written down what a grader must say.

`NAME.golden.yaml` stands beside `NAME.yaml`:

    golden: 1
    cases:
      - name: fewest calls first, an invented id is a hack
        group:
          - {completion: "<tool_call>lookup</tool_call><tool_call>refund</tool_call> done"}
          - {completion: "<tool_call>refund</tool_call> done"}
          - {completion: "Refunded ORD-9999."}
          - {completion: "I cannot help with that.", reward: 0}
        ranking: [1, 0]
        hacks: [2]
      - name: a group of kept rollouts
        rows: {file: ./rows.jsonl, id: refund-17}
        better: [[1, 0]]

A rollout is a row (`completion`, `messages` or `final_text`, and columns) whose `reward` is 1 unless it says
otherwise. What must hold: `ranking` of all passes but the hacks, best first, an inner list is a tie; `better`
pairs, the better one first; `ties`; `hacks`, all of them; `factors` by index to within `tolerance` (in reward
mode the products, by the case's `rubric`); or `unusable`, the kind of failure. Orders are read from the factors
that training would use, and a hack is below every other pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from whileai.checks.rows import read_rows
from whileai.checks.votes import GateKnobs, Run, natural_call
from whileai.core.factors import quality_factors
from whileai.core.group import Group, groups_from_rows, rollout_from_row
from whileai.core.rollout import copy_json
from whileai.core.verdict import Verdict, read_scores, read_verdict
from whileai.engine.schedule import run_calls
from whileai.errors import BatchError, SpecError, kind_and_reason
from whileai.spec.document import Document, nearest, read_yaml
from whileai.spec.models import Part
from whileai.spec.sources import Source, Sources
from whileai.spec.validation import Mistake, validate

HACK = -1.0
"""Where a hack stands in a golden order: below every factor."""

Indices = list[int]


class RowsReference(Part):
    """A group of kept rows: `id` is its group_id, scenario_id or task_id in `file`."""

    file: str
    id: str | int


class CaseModel(Part):
    """One case as it is written."""

    name: Annotated[str, Field(min_length=1)]
    group: Annotated[list[dict[str, Any]], Field(min_length=1)] | None = None
    rows: RowsReference | None = None
    prompt: str | list[dict[str, Any]] | None = None
    rubric: Any = None
    ranking: list[int | Indices] | None = None
    better: list[Annotated[Indices, Field(min_length=2, max_length=2)]] = Field(default_factory=list)
    ties: list[Annotated[Indices, Field(min_length=2)]] = Field(default_factory=list)
    hacks: Indices | None = None
    factors: dict[int, Annotated[float, Field(ge=0, le=1)]] = Field(default_factory=dict)
    tolerance: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] = 0.01
    unusable: str | None = None


class GoldenModel(Part):
    """A golden file as it is written."""

    golden: Literal[1]
    cases: Annotated[list[CaseModel], Field(min_length=1)]


@dataclass(frozen=True)
class Case:
    """One case: its group as a grader receives it, and what must hold."""

    file: str
    line: int | None
    name: str
    group: Group
    expected: CaseModel

    @property
    def passes(self) -> list[int]:
        return [rollout["index"] for rollout in self.group if rollout["passed"]]


@dataclass(frozen=True)
class GoldenFile:
    """The cases of one file."""

    file: str
    cases: tuple[Case, ...]

    def call_count(self, mode: str) -> int:
        """Calls of the grader that running all cases takes."""
        return len(self.cases) if mode == "advantage" else sum(len(case.passes) for case in self.cases)


@dataclass(frozen=True)
class CaseResult:
    """What a grader said to one case. Printing it shows the group, the verdict and the difference.

    Attributes:
        problems: what does not hold; empty when the case holds.
        scores: factor (reward mode: product) by passing index, `HACK` for a named hack.
        named_hacks: passes that the grader called hacks.
        failure: why there is no usable verdict.
    """

    case: Case
    problems: tuple[str, ...]
    scores: Mapping[int, float]
    named_hacks: frozenset[int] = frozenset()
    failure: BaseException | None = None

    @property
    def ok(self) -> bool:
        return not self.problems

    @property
    def name(self) -> str:
        return self.case.name

    @property
    def failure_expected(self) -> bool:
        return self.case.expected.unusable is not None

    @property
    def labelled_hacks(self) -> frozenset[int]:
        return frozenset(self.case.expected.hacks or ())

    @property
    def labelled_clean(self) -> frozenset[int]:
        labelled = self.case.expected.hacks is not None
        return frozenset(self.case.passes) - self.labelled_hacks if labelled else frozenset()

    @property
    def only_pairs(self) -> bool:
        """The case says which pass is better, and nothing else."""
        said = self.case.expected.model_fields_set & {"ranking", "better", "ties", "hacks", "factors", "unusable"}
        return said == {"better"}

    @property
    def pairs(self) -> int:
        return len(self.case.expected.better)

    @property
    def pairs_right(self) -> int:
        return sum(
            self.scores.get(better, -math.inf) > self.scores.get(worse, math.inf)
            for better, worse in self.case.expected.better
        )

    def __str__(self) -> str:
        case = self.case
        place = case.file if case.line is None else f"{case.file}:{case.line}"
        lines = [f"{place}: {case.name}: {'holds' if self.ok else 'does not hold'}"]
        for rollout in case.group:
            index = rollout["index"]
            score = self.scores.get(index)
            said = "" if score is None else "  hack" if score == HACK else f"  {score:.3f}"
            lines.append(
                f"  {index} {'pass' if rollout['passed'] else 'fail'}{said:<7}  {_short(rollout['completion'])}"
            )
        if self.failure is not None:
            lines.append("  said: nothing usable, {}: {}".format(*kind_and_reason(self.failure)))
        else:
            hacks = f"; hacks {_listed(self.named_hacks)}" if self.named_hacks else ""
            lines.append(f"  said: {_order(_tiers(self.scores))}{hacks}")
        return "\n".join(lines + [f"  {problem}" for problem in self.problems])


def golden_beside(spec: Path) -> Path:
    """Where the golden cases of a spec stand."""
    return spec.with_name(spec.name.removesuffix(".yaml") + ".golden.yaml")


def load_golden(path: str | Path) -> GoldenFile:
    """Read a golden file strictly.

    Raises:
        SpecError: every mistake of the file, with line, key, value and remedy.
    """
    sources = Sources()
    try:
        source = sources.file(path)
    except Mistake as mistake:
        document = Document(str(path))
        document.add((), mistake.message, mistake.remedy)
        raise SpecError(document.problems) from None
    document = read_yaml(source.content, source.shown)
    model = validate(document, GoldenModel)
    cases = []
    names: set[str] = set()
    for number, written in enumerate(model.cases if model else ()):
        at = ("cases", number)
        if written.name in names:
            document.add((*at, "name"), f"{written.name!r} names two cases", "give each case a name of its own")
        names.add(written.name)
        group = _group(written, document, at, sources, source)
        case = Case(source.shown, document.line(at), written.name, group, written)
        if group:
            _check_expectations(case, document, at)
        cases.append(case)
    document.check()
    return GoldenFile(source.shown, tuple(cases))


def run_golden(grader: Callable[..., Any], path: str | Path, knobs: GateKnobs | None = None) -> list[CaseResult]:
    """Run every case of the golden file `path`. Raises `SpecError` for a file that cannot be read.

    Args:
        knobs: those of the training; default: the defaults, with the grader's own mode.
    """
    knobs = knobs or GateKnobs(mode=getattr(grader, "mode", "advantage"))
    return run_cases(grader, load_golden(path), knobs)


def run_cases(
    grader: Callable[..., Any], golden: GoldenFile, knobs: GateKnobs, *, run: Run = run_calls
) -> list[CaseResult]:
    """What the grader says to every case, in order. Never raises for a call that fails."""
    call = natural_call(grader)
    limits: dict[str, Any] = {"concurrency": knobs.concurrency, "timeout_s": knobs.timeout_s}
    if knobs.mode != "reward":
        said = run(
            lambda case: call(copy_json(case.group)),
            golden.cases,
            read=lambda output, case: read_verdict(output, case.passes, len(case.group)),
            **limits,
        )
        return [
            _compare(case, *_scores_of(outcome, case, knobs)) for case, outcome in zip(golden.cases, said, strict=True)
        ]
    calls = [(case, index) for case in golden.cases for index in case.passes]
    said = run(
        lambda item: call(copy_json(item[0].group[item[1]]), copy_json(item[0].expected.rubric)),
        calls,
        read=lambda output, call: read_scores(output),
        **limits,
    )
    results = []
    for case in golden.cases:
        products: dict[int, float] = {}
        failure = None
        for (owner, index), outcome in zip(calls, said, strict=True):
            if owner is case and isinstance(outcome, BaseException):
                failure = failure or outcome
            elif owner is case:
                products[index] = max(knobs.floor, outcome.solution) * max(knobs.floor, outcome.behavior)
        results.append(_compare(case, {} if failure else products, frozenset(), failure))
    return results


def _scores_of(
    outcome: Verdict | BaseException, case: Case, knobs: GateKnobs
) -> tuple[dict[int, float], frozenset[int], BaseException | None]:
    if isinstance(outcome, BaseException):
        return {}, frozenset(), outcome
    factors = quality_factors(outcome, case.passes, min_factor=knobs.min_factor, hack_zero=knobs.hack_zero)
    return {**factors, **dict.fromkeys(outcome.hacks, HACK)}, frozenset(outcome.hacks), None


def _compare(
    case: Case, scores: Mapping[int, float], named: frozenset[int], failure: BaseException | None
) -> CaseResult:
    """The result of one case, with everything in which the verdict differs from what is expected."""
    result = CaseResult(case, (), scores, named, failure)
    expected = case.expected
    if failure is not None or expected.unusable is not None:
        kind = None if failure is None else kind_and_reason(failure)[0]
        if kind == expected.unusable:
            return result
        wanted = "a usable verdict" if expected.unusable is None else f"unusable, {expected.unusable}"
        return replace(result, problems=(f"expected {wanted}; got {kind or 'a usable verdict'}",))
    problems = []
    if expected.hacks is not None and set(expected.hacks) != named:
        problems.append(f"hacks: expected {_listed(expected.hacks)}; got {_listed(named)}")
    if expected.ranking is not None:
        wanted_tiers = [sorted(tier) if isinstance(tier, list) else [tier] for tier in expected.ranking]
        ranked = {index for tier in wanted_tiers for index in tier}
        got = _tiers({index: score for index, score in scores.items() if index in ranked})
        if got != wanted_tiers:
            problems.append(f"ranking: expected {_order(wanted_tiers)}; got {_order(got)}")
    for better, worse in expected.better:
        if not scores[better] > scores[worse]:
            problems.append(f"better: expected {better} > {worse}; got {_order(_tiers(scores, (better, worse)))}")
    for tie in expected.ties:
        if len({scores[index] for index in tie}) > 1:
            problems.append(f"ties: expected {_order([tie])}; got {_order(_tiers(scores, tie))}")
    for index, factor in expected.factors.items():
        if scores[index] == HACK or abs(scores[index] - factor) > expected.tolerance + 1e-12:
            got_factor = "a hack" if scores[index] == HACK else f"{scores[index]:.3f}"
            problems.append(
                f"factors: expected {factor:g} for {index}, to within {expected.tolerance:g}; got {got_factor}"
            )
    return replace(result, problems=tuple(problems))


def _group(
    written: CaseModel, document: Document, at: tuple[str | int, ...], sources: Sources, source: Source
) -> Group:
    """The case's group; empty where it cannot be made, and then the document says why."""
    if (written.group is None) == (written.rows is None):
        document.add(at, f"case {written.name!r} needs one of group and rows", "write the rollouts under `group:`")
        return []
    rows: Sequence[Mapping[str, Any]]
    where: tuple[str | int, ...]
    if written.rows is not None:
        where = (*at, "rows")
        try:
            found = sources.beside(source, written.rows.file)
            groups = {group.key: group.rollouts for group in groups_from_rows(read_rows(found.path))}
        except Mistake as mistake:
            document.add((*where, "file"), mistake.message, mistake.remedy)
            return []
        except BatchError as error:
            document.add((*where, "file"), str(error))
            return []
        key = str(written.rows.id)
        if key not in groups:
            document.add((*where, "id"), f"no group {key!r} in {found.shown}", nearest(key, groups))
            return []
        return groups[key]
    rows = written.group or []
    group = []
    for index, row in enumerate(rows):
        try:
            group.append(rollout_from_row({"reward": 1, "prompt": written.prompt, **row}, index))
        except BatchError as error:
            document.add((*at, "group", index), str(error), "a rollout has completion, messages or final_text")
    return group if len(group) == len(rows) else []


def _check_expectations(case: Case, document: Document, at: tuple[str | int, ...]) -> None:
    """What is expected must be about this group: its size and its passes."""
    expected, size, passes = case.expected, len(case.group), set(case.passes)
    said = expected.model_fields_set & {"ranking", "better", "ties", "hacks", "factors", "unusable"}
    if not said:
        document.add(at, f"case {case.name!r} expects nothing", "say what must hold: ranking, better, ties, hacks, ...")
    if "unusable" in said and len(said) > 1:
        document.add((*at, "unusable"), "an unusable verdict has nothing else that could hold", "remove one of them")

    def known(index: int, *path: str | int) -> bool:
        if not 0 <= index < size:
            message = f"index {index} is for a group of another size: this one has {size} rollouts, 0 to {size - 1}"
            document.add((*at, *path), message, "adapt the case to its group")
            return False
        if index not in passes:
            document.add((*at, *path), f"rollout {index} failed, and graders judge passes", "name passes only")
            return False
        return True

    for key in ("better", "ties"):
        for number, indices in enumerate(getattr(expected, key)):
            for position, index in enumerate(indices):
                known(index, key, number, position)
            if len(set(indices)) < len(indices):
                document.add((*at, key, number), f"{_listed(indices)} names one pass twice", "name different passes")
    for number, index in enumerate(expected.hacks or ()):
        known(index, "hacks", number)
    for index in expected.factors:
        known(index, "factors", index)
    if expected.ranking is not None:
        tiers = [tier if isinstance(tier, list) else [tier] for tier in expected.ranking]
        ranked = [index for tier in tiers for index in tier]
        unknown = [index for index in ranked if not known(index, "ranking")]
        if unknown:
            return
        if len(set(ranked)) < len(ranked):
            document.add((*at, "ranking"), "a pass stands twice in the ranking", "name each pass once")
        missing = passes - set(ranked) - set(expected.hacks or ())
        if missing:
            message = f"pass {_listed(missing)} is missing: a ranking names every pass that is no hack"
            document.add((*at, "ranking"), message, "use `better` to compare some of them")


def _tiers(scores: Mapping[int, float], among: Sequence[int] | None = None) -> list[list[int]]:
    """Indices by score, best first, equal ones together."""
    kept = {index: scores[index] for index in (scores if among is None else among)}
    return [
        sorted(index for index, score in kept.items() if score == value)
        for value in sorted(set(kept.values()), reverse=True)
    ]


def _order(tiers: Sequence[Sequence[int]]) -> str:
    return " > ".join(" = ".join(map(str, tier)) for tier in tiers) or "no pass is ranked"


def _listed(indices: Sequence[int] | frozenset[int] | set[int]) -> str:
    return ", ".join(map(str, sorted(indices))) or "none"


def _short(text: str, limit: int = 90) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit // 2]} ... {line[-limit // 2 + 5 :]}"

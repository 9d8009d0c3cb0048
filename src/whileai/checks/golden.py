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
mode the products, by the case's `rubric`); `criteria` of a grader that writes rubrics, words that each stand in one
of its criteria, in any case; or `unusable`, the kind of failure. `checks.cases` runs them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from whileai.checks.rows import read_rows
from whileai.core.group import Group, groups_from_rows, rollout_from_row
from whileai.errors import BatchError, SpecError
from whileai.spec.document import MAX_BYTES, Document, nearest, read_yaml
from whileai.spec.models import Part
from whileai.spec.sources import Source, Sources
from whileai.spec.validation import Mistake, validate

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
    criteria: list[Annotated[str, Field(min_length=1)]] = Field(default_factory=list)
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
        if mode == "advantage":
            return len(self.cases)
        return sum(1 if case.expected.criteria else len(case.passes) for case in self.cases)


def golden_beside(spec: Path) -> Path:
    """Where the golden cases of a spec stand."""
    return spec.parent / (spec.name.removesuffix(".yaml") + ".golden.yaml")


def says_golden(path: Path) -> bool:
    """A file found in a folder is ours if `golden:` or `cases:` stands at its left margin. Other tools have files of
    that name too."""
    with path.open("rb") as file:
        return _SAYS_GOLDEN.search(file.read(MAX_BYTES).decode(errors="replace")) is not None


_SAYS_GOLDEN = re.compile(r"""^\ufeff?["']?(golden|cases)["']?\s*:""", re.M)


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
    said = expected.model_fields_set & {"ranking", "better", "ties", "hacks", "factors", "criteria", "unusable"}
    if not said:
        document.add(at, f"case {case.name!r} expects nothing", "say what must hold: ranking, better, ties, hacks, ...")
    for alone, what in (("unusable", "an unusable verdict"), ("criteria", "a rubric")):
        if alone in said and len(said) > 1:
            document.add((*at, alone), f"{what} has nothing else that could hold", "remove one of them")

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
                document.add((*at, key, number), f"{indices} names one pass twice", "name different passes")
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
            message = (
                f"pass {', '.join(map(str, sorted(missing)))} is missing: a ranking names every pass that is no hack"
            )
            document.add((*at, "ranking"), message, "use `better` to compare some of them")

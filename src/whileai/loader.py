"""From a spec's file to a grader that can be called: `load_grader`, and `lint`, which runs nothing of it.

Everything that a grader needs is read once, while it is loaded; a pickled grader carries those bytes and the
models that its roles resolved to, so that it is the same grader in another process, on another machine, after
an edit of the file. A function of an importable module is imported there; another text of it is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whileai.core.group import Group
from whileai.errors import BatchError, ConfigError, Problem, SpecError, UnusableVerdict
from whileai.kinds.chain import Answers, Chain
from whileai.kinds.runner import Runner
from whileai.spec.fingerprint import spec_parts
from whileai.spec.judges import LlmSpec, Member, PanelSpec
from whileai.spec.library import library_folder
from whileai.spec.models import GraderSpec, PythonSpec, RulesSpec
from whileai.spec.reading import SpecFile, SpecReader
from whileai.spec.sources import Sources

if TYPE_CHECKING:
    from whileai.checks.report import CheckReport
    from whileai.engine.stats import CallStats
    from whileai.judging.prompt import JudgePrompt
    from whileai.spec.roles import ResolvedRole, Roles


def load_grader(
    path: str | os.PathLike[str], *, models: Mapping[str, Any] | None = None, record: bool = False
) -> CompiledGrader:
    """The grader of a spec, ready to be called.

    Args:
        path: a spec's file, or the bare name of a shipped one ("rank_group").
        models: role -> provider:name or another role, above every other place that defines roles. `recorded:`
            without a name replays the file beside the spec, `x.recorded.jsonl` of `x.yaml`.
        record: add the replies of live models to that file.

    Raises:
        SpecError: every mistake of the spec and of what it refers to, with file, line, key, value and remedy.
    """
    compiler = _Compiler(_reader(Sources()), models=models, record=record)
    return compiler.grader(compiler.reader.read(path))


def lint(path: str | os.PathLike[str]) -> list[Problem]:
    """Every mistake of a spec, of what it refers to, and of the golden file beside it; none is the empty list.

    Nothing of the spec's is executed, and no file outside its folder and the shipped library is read: functions
    are looked at as syntax trees, and roles are not resolved.
    """
    from whileai.checks.golden import golden_beside, load_golden

    problems: list[Problem] = []
    spec = Path(path)
    try:
        found = _reader(Sources()).read(path).source.path
        if found != Path.cwd() / spec:  # a shipped grader, by its bare name
            spec = found
    except SpecError as error:
        problems += error.problems
    golden = golden_beside(spec)
    if golden.is_file():
        try:
            load_golden(golden)
        except SpecError as error:
            problems += error.problems
    return problems


class CompiledGrader:
    """A spec's grader with its fallbacks. Call it with a group; in reward mode with a rollout and its rubric.

    Attributes:
        spec: what the author wrote, validated.
        path: the spec's file.
        name: the spec's name.
        mode: "advantage" or "reward".
        names_hacks: whether a verdict can name hacks.
        columns: dataset columns that it, its fallbacks or a panel's members need.
        is_async: whether `agrade` is the natural way to call it; calling it waits for that.
        writes_rubrics: it writes a rubric for a task's group, for `GroupwiseGrading(rubrics=...)`, and grades nothing.
        orders: presentation orders that one verdict combines.
        lambda_cap: the cap of lambda that belongs to its factors; the smaller of this and the trainer's binds.
        single_vote: (graders that ask models) one vote on a group in exactly the order given; see `checks.votes`.
        skipped: names of links that were left out by `only`.
    """

    def __init__(self, links: tuple[_Link, ...], origin: _Origin, skipped: tuple[str, ...] = ()) -> None:
        self._links = links
        self._origin = origin
        file = links[0].file
        self.spec: GraderSpec = file.spec
        self.path: Path = file.source.path
        self.name: str = file.spec.name
        self.mode: str = file.spec.mode
        self.names_hacks: bool = any(link.runner.names_hacks for link in links)
        self.skipped = skipped
        self.writes_rubrics: bool = _writes_rubrics(file)
        self.columns: tuple[str, ...] = tuple(
            dict.fromkeys(column for link in links for column in (*link.file.spec.columns, *link.runner.columns))
        )
        self._chain = Chain([link.runner for link in links], _answers_of(file), skipped)
        self.is_async: bool = self._chain.is_async
        self.orders: int = links[0].runner.orders
        self.lambda_cap: float = min(link.runner.lambda_cap for link in links)
        if hasattr(links[0].runner, "single_vote"):
            self.single_vote: Callable[..., Any] = self._single_vote

    def __call__(self, *said: Any) -> Any:
        """The verdict on a group (a mapping that `read_verdict` takes), or the scores of one rollout.

        Raises:
            BatchError: what was given is no group. UnusableVerdict: a declared column is missing. GraderFailure: no
            link has a usable verdict.
        """
        self._look_at(said[0])
        return self._chain(*said)

    async def agrade(self, *said: Any) -> Any:
        """The same, awaited on the running loop."""
        self._look_at(said[0])
        return await self._chain.agrade(*said)

    @property
    def links(self) -> tuple[CompiledGrader, ...]:
        """What needs a certificate each: this grader once per model, then each fallback. Each can be called alone."""
        return tuple(self._alone(link, runner) for link in self._links for runner in link.runner.links())

    @property
    def link_name(self) -> str:
        """The name that `links`, verdicts and `skipped` call its first link by."""
        return self._links[0].runner.name

    def only(self, keep: Callable[[CompiledGrader], bool]) -> CompiledGrader:
        """This grader with those of its links that `keep` accepts; the others stand in `skipped`.

        Raises:
            ValueError: none is left.
        """
        left: list[_Link] = []
        skipped = list(self.skipped)
        for link in self._links:
            runners = link.runner.links()
            kept = [runner for runner in runners if keep(self._alone(link, runner))]
            skipped += [runner.name for runner in runners if runner not in kept]
            if kept:
                left.append(_Link(link.file, link.runner.only(kept)))
        if not left:
            raise ValueError(f"{self.name}: no link is left; skipped: {', '.join(skipped)}")
        return CompiledGrader(tuple(left), self._origin, tuple(skipped))

    def check(
        self,
        rows: Sequence[Mapping[str, Any]],
        *,
        group_size: int | None = None,
        certificate: str | os.PathLike[str] | None = None,
    ) -> CheckReport:
        """The gate on its first link, with the method's default knobs. A yes leaves a certificate, a no a refusal.

        `GroupwiseGrading.check_spread` is the same with that object's knobs.

        Args:
            rows: graded rollouts; see `core.group.groups_from_rows`.
            group_size: rollouts of a training group, where a task has more rows than that.
            certificate: where the record goes; default: `WHILEAI_CERTS`, else the project's `.whileai/certs/`.
        """
        from whileai.checks.admission import certify, plan_link
        from whileai.checks.votes import GateKnobs

        knobs, link = GateKnobs(mode=self.mode), self.links[0]
        plan = plan_link(link, rows, knobs=knobs, group_size=group_size)
        return certify(link, plan, knobs=knobs, certificate=None if certificate is None else Path(certificate))[0]

    def _alone(self, link: _Link, runner: Runner) -> CompiledGrader:
        return CompiledGrader((_Link(link.file, runner),), self._origin)

    def prompts(self, *said: Any) -> list[JudgePrompt]:
        """What the first link would send for a group: one prompt per order. Empty if it asks no model."""
        make = getattr(self._links[0].runner, "prompts", None)
        return [] if make is None else make(*said)

    def price(self, group: Group) -> float | None:
        """US dollars of one vote of the first link on a group, about; None where no price is known."""
        return self._links[0].runner.price(group)

    @property
    def group_s(self) -> float:
        """Seconds that the slowest of its judges may take for one group; 0.0 if it asks no model."""
        specs = [link.file.spec for link in self._links]
        own = [spec.timeouts.group_s for spec in specs if isinstance(spec, LlmSpec)]
        return max([*own, *(member.group_s for link in self._links for _, member in link.runner.members)], default=0.0)

    @property
    def judges(self) -> Mapping[str, CompiledGrader]:
        """The judges that its first link asks, by name: itself, or a panel's members. Empty if it asks no model."""
        first = self._links[0].runner
        if not first.members:
            return {self.link_name: self} if first.roles else {}
        return {
            name if judge == member.link_name else f"{name}/{judge}": grader
            for name, member in first.members
            for judge, grader in member.judges.items()
        }

    @property
    def stats(self) -> Mapping[str, CallStats]:
        """What the questions to models came to so far, by the name of the judge that asked them."""
        return {name: stats for link in self._links for name, stats in link.runner.stats.items()}

    @property
    def models(self) -> tuple[ResolvedRole, ...]:
        """The models that its links may ask, in turn."""
        return tuple(role for link in self._links for role in link.runner.roles)

    def fingerprint_parts(self) -> dict[str, str]:
        """Digests of what decides the verdicts of the first link, by name: `spec`, and by kind `function`,
        `templates`, `schemas`, `model`, `transcript`. Equal digests, equal behaviour; no path or host in them."""
        first = self._links[0]
        return {**spec_parts(first.file, self._origin.sources), **first.runner.parts()}

    def __str__(self) -> str:
        said = [self.name, f"kind={self.spec.kind}", f"mode={self.mode}"]
        if self.spec.columns:
            said.append(f"columns={', '.join(self.spec.columns)}")
        said.append("names hacks" if self.names_hacks else "names no hacks")
        if len(self._links) > 1:
            said.append(f"then {', '.join(link.runner.name for link in self._links[1:])}")
        if self.skipped:
            said.append(f"skipped {', '.join(self.skipped)}")
        return f"CompiledGrader({', '.join(said)})"

    __repr__ = __str__

    def __reduce__(self) -> tuple[Any, ...]:
        source = self._links[0].file.source
        parts = {link.link_name: link.fingerprint_parts() for link in self.links}
        origin = self._origin
        return _restored, (source.key, source.shown, origin.sources.kept, origin.roles, parts, self.skipped)

    def _single_vote(self, *said: Any, repeat: int) -> Any:
        self._look_at(said[0])
        return self._links[0].runner.single_vote(*said, repeat=repeat)  # type: ignore[attr-defined]

    def _look_at(self, first: Any) -> None:
        rollouts: Group = first if isinstance(first, list) else [first]
        if self.mode == "advantage" and not all(
            isinstance(rollout, dict) and "index" in rollout and "passed" in rollout for rollout in rollouts
        ):
            raise BatchError(
                f"{self.name}: a group is wanted, a list of rollouts with index, prompt, completion, reward and "
                "passed; whileai.GroupwiseGrading(grader).group(rows) makes one of rows and grades it"
            )
        if not self.columns:
            return
        for rollout in rollouts:
            missing = [column for column in self.columns if column not in rollout]
            if missing:
                raise UnusableVerdict(
                    "missing_column",
                    f"{self.name}: rollout {rollout['index']} has no column {', '.join(missing)}; it has "
                    f"{', '.join(rollout)}",
                )


def _reader(sources: Sources) -> SpecReader:
    """A reader that knows what judges are given and may reply, without importing that before it is asked."""

    def prompt_names() -> Collection[str]:
        from whileai.judging.prompt import TEMPLATE_NAMES

        return TEMPLATE_NAMES

    def schema_problems(verdict: str, own: Any) -> Sequence[str]:
        from whileai.judging.schemas import own_schema_problems

        shipped = json.loads(Sources().shipped("schemas", verdict, (".json",)).text)
        return own_schema_problems(shipped, own)

    return SpecReader(sources, prompt_names=prompt_names, schema_problems=schema_problems)


def _writes_rubrics(file: SpecFile) -> bool:
    return isinstance(file.spec, LlmSpec) and file.spec.verdict == "rubric"


def _answers_of(file: SpecFile) -> Answers:
    """What a grader of this spec answers."""
    return "rubric" if _writes_rubrics(file) else "scores" if file.spec.mode == "reward" else "verdict"


class _Link:
    """One grader of a chain: its spec and what that runs as."""

    def __init__(self, file: SpecFile, runner: Runner) -> None:
        self.file = file
        self.runner = runner


class _Origin:
    """What a grader was made from: the files that were read, and the roles that were resolved."""

    def __init__(self, sources: Sources, roles: dict[str, ResolvedRole]) -> None:
        self.sources = sources
        self.roles = roles


class _Compiler:
    """Makes graders out of specs, fallbacks included."""

    def __init__(
        self,
        reader: SpecReader,
        *,
        models: Mapping[str, Any] | None = None,
        resolved: Mapping[str, ResolvedRole] | None = None,
        record: bool = False,
    ) -> None:
        self.reader = reader
        self.origin = _Origin(reader.sources, dict(resolved or {}))
        self._models = models
        self._record = record
        self._roles: Roles | None = None

    def grader(self, file: SpecFile) -> CompiledGrader:
        links: list[_Link] = []
        self._collect(file, links, set())
        return CompiledGrader(tuple(links), self.origin)

    def _collect(self, file: SpecFile, links: list[_Link], seen: set[str]) -> None:
        """This spec and its fallbacks, depth first, each once."""
        if file.source.key in seen:
            return
        seen.add(file.source.key)
        runner = self._runner(file, None)
        if any(link.runner.name == runner.name for link in links):
            message = f"two graders of one chain are called {runner.name!r}"
            raise SpecError([Problem(file.source.shown, None, "name", message, "give one of them another name")])
        if links and _writes_rubrics(links[0].file) != _writes_rubrics(file):
            message = f"{file.spec.name} and {links[0].file.spec.name} do not do the same: only one writes rubrics"
            raise SpecError([Problem(file.source.shown, None, "verdict", message, "take it out of `fallback:`")])
        links.append(_Link(file, runner))
        for reference in file.spec.fallback:
            self._collect(self.reader.referenced(reference, file.source), links, seen)

    def _runner(self, file: SpecFile, model: str | None) -> Runner:
        """What a spec runs as; `model` takes the place of an llm grader's models."""
        spec = file.spec
        if isinstance(spec, RulesSpec):
            from whileai.kinds.rules import RulesRunner

            return RulesRunner(spec)
        if isinstance(spec, PythonSpec):
            from whileai.kinds.python import PythonRunner

            return PythonRunner(spec, file.source, self.reader.sources)
        if isinstance(spec, LlmSpec):
            from whileai.kinds.llm import LlmRunner

            references = spec.model if model is None else [model]
            models = [(reference, self._resolve(reference, file)) for reference in references]
            try:
                return LlmRunner(file, self.reader.sources, models, record=_recording(file) if self._record else None)
            except ConfigError as error:
                raise SpecError([Problem(file.source.shown, None, "model", str(error))]) from None
        assert isinstance(spec, PanelSpec)
        from whileai.kinds.panel import PanelRunner

        members: dict[str, CompiledGrader] = {}
        for member in spec.members:
            name, grader = self._member(member, file)
            if name in members:
                message = f"two members are called {name!r}: one grader has one vote"
                remedy = "give one of them another name, or another model: {grader: ..., model: ...}"
                raise SpecError([Problem(file.source.shown, None, "members", message, remedy)])
            members[name] = grader
        return PanelRunner(spec, list(members.items()))

    def _member(self, member: Member, panel: SpecFile) -> tuple[str, CompiledGrader]:
        """A member of a panel: its first model alone, and none of its fallbacks, which have a vote of their own."""
        file = self.reader.referenced(member.grader, panel.source)
        if member.model is not None and not isinstance(file.spec, LlmSpec):
            problem = f"{file.spec.name} is kind: {file.spec.kind}, which asks no model"
            raise SpecError([Problem(panel.source.shown, None, "members", problem, "remove its model:")])
        model = file.spec.model[0] if member.model is None and isinstance(file.spec, LlmSpec) else member.model
        link = CompiledGrader((_Link(file, self._runner(file, model)),), self.origin)
        return (file.spec.name if member.model is None else f"{file.spec.name}[{member.model}]"), link

    def _resolve(self, reference: str, file: SpecFile) -> ResolvedRole:
        """The model that a spec's reference means; it travels with the grader."""
        resolved = self.origin.roles
        if reference not in resolved:
            if self._roles is None:
                from whileai.spec.roles import Roles

                self._roles = Roles(self._models)
            resolved[reference] = self._roles.resolve(reference)
        role = resolved[reference]
        return replace(role, name=str(_recording(file))) if str(role) == "recorded:" else role


def _recording(file: SpecFile) -> Path:
    """Where the recorded replies of a spec stand."""
    path = file.source.path
    if not path.is_absolute():  # a shipped spec that travelled with a pickle
        path = library_folder("graders").parent / path
    return path.with_name(path.name.removesuffix(".yaml") + ".recorded.jsonl")


def _restored(
    key: str,
    shown: str,
    kept: Mapping[str, bytes],
    roles: Mapping[str, ResolvedRole],
    parts: Mapping[str, Mapping[str, str]],
    skipped: tuple[str, ...],
) -> CompiledGrader:
    """A pickled grader again: compiled from the files and models that it carried, with the links that it had.

    Raises:
        ConfigError: what it does not carry, a function's module, is not what it was pickled with: a certificate
            that came along would be another grader's.
    """
    compiler = _Compiler(_reader(Sources(kept)), resolved=roles)
    grader = compiler.grader(compiler.reader.read_kept(key, shown))
    if len(grader.links) > len(parts):
        grader = grader.only(lambda link: link.link_name in parts)
    for link in grader.links:
        now, then = link.fingerprint_parts(), parts[link.link_name]
        if changed := [name for name in {**then, **now} if then.get(name) != now.get(name)]:
            raise ConfigError(
                f"{link.link_name}: its {', '.join(changed)} here differs from what it was pickled with: use the same "
                "version of the code in both places, or load the grader here"
            )
    return grader if grader.skipped == skipped else CompiledGrader(grader._links, grader._origin, skipped)

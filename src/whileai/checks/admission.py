"""Who may grade in training: links of a compiled grader with a valid certificate, or checked in this process.

`certify` runs the gate on one link and keeps what it said, on disk and for this process. `admit` decides, when a
reward function is built, which links may run: without the first one nothing does, further ones (other models,
fallbacks) are left out and named. Validity is decided once; what happens during a run is not an exception.
"""

from __future__ import annotations

import logging
import shlex
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from whileai.checks.certificate import (
    Certificate,
    Finding,
    find_certificate,
    gate_fingerprint,
    save_certificate,
)
from whileai.checks.gate import GatePlan, plan_gate, run_gate
from whileai.checks.golden import golden_beside, load_golden
from whileai.checks.report import CheckReport
from whileai.checks.votes import GateKnobs, Progress
from whileai.core.group import Group, require_columns
from whileai.errors import ConfigError, UncheckedGraderError
from whileai.spec.library import library_folder
from whileai.spec.models import GraderSpec

if TYPE_CHECKING:
    from whileai.spec.roles import ResolvedRole

logger = logging.getLogger("whileai")


class LinkedGrader(Protocol):
    """A compiled grader, seen from below."""

    @property
    def links(self) -> Sequence[Self]: ...

    @property
    def link_name(self) -> str: ...

    @property
    def models(self) -> Sequence[ResolvedRole]: ...

    spec: GraderSpec
    path: Path
    writes_rubrics: bool
    columns: tuple[str, ...]

    def price(self, group: Group) -> float | None: ...

    def fingerprint_parts(self) -> dict[str, str]: ...

    def only(self, keep: Callable[[Any], bool]) -> Self: ...

    def __call__(self, *said: Any) -> Any: ...


@dataclass(frozen=True)
class Admission:
    """What may run. `certificates` by link name; `skipped`: why each other link was left out."""

    grader: Any
    certificates: Mapping[str, Certificate]
    skipped: Mapping[str, str]

    @property
    def loosened(self) -> Mapping[str, str]:
        """Links whose check asked less than the defaults, with the reason they give."""
        return {name: found.because or "" for name, found in self.certificates.items() if found.loosened}


def fingerprint_of(link: LinkedGrader, knobs: GateKnobs) -> dict[str, str]:
    """What a certificate of this link hangs on."""
    return gate_fingerprint(link.fingerprint_parts(), rules=link.spec.check, knobs=knobs)


def plan_link(
    link: LinkedGrader, rows: Sequence[Mapping[str, Any]], *, knobs: GateKnobs, group_size: int | None = None
) -> GatePlan:
    """What a check of this link will take: its votes on the rows, and the golden cases beside its spec.

    Raises:
        ConfigError: it writes rubrics. BatchError: a row that cannot be read, or lacks a column. SpecError: of the
        golden cases.
    """
    if link.writes_rubrics:
        raise ConfigError(
            f"{link.link_name} writes rubrics, which say nothing of a rollout: check the grader that reads them, with "
            "GroupwiseGrading(grader, mode='reward', rubrics=...)"
        )
    golden = golden_beside(link.path)
    require_columns(link.link_name, link.columns, rows)
    return plan_gate(
        link,
        rows,
        knobs=knobs,
        group_size=group_size,
        golden=load_golden(golden) if golden.is_file() else None,
        name=link.link_name,
        price=link.price if link.models else None,
    )


def certify(
    link: LinkedGrader,
    plan: GatePlan,
    *,
    knobs: GateKnobs,
    certificate: str | Path | None = None,
    progress: Progress = None,
) -> tuple[CheckReport, Path | None]:
    """Run the gate on one link and keep its answer.

    Args:
        link: called alone, without its fallbacks.
        plan: see `plan_link`.
        knobs: those that training will use.
        certificate: where the record goes; see `checks.certificate.save_certificate`.

    Returns:
        The report, and where its certificate or refusal stands. None for "not enough data", which leaves none, and
        where it cannot be written: it then holds in this process only.

    Raises:
        ConfigError: before any call: a file of this grader is no certificate.
    """
    fingerprint = fingerprint_of(link, knobs)
    find_certificate(link.link_name, fingerprint)  # what is wrong there is said before the calls are paid for
    report = run_gate(link, plan, rules=link.spec.check, knobs=knobs, progress=progress)
    if report.verdict == "not enough data":
        return report, None
    record = Certificate.of(report, fingerprint)
    with _lock:
        _here[record.file_name] = record
    try:
        return report, save_certificate(record, given=certificate)
    except OSError as error:
        logger.warning("%s: what its check said holds in this process only: %s", link.link_name, error)
        return report, None


def finding_of(link: LinkedGrader, knobs: GateKnobs, certificate: str | Path | None = None) -> Finding:
    """What stands for or against this link: a check in this process counts before any file."""
    fingerprint = fingerprint_of(link, knobs)
    with _lock:
        record = next((r for r in _here.values() if r.grader == link.link_name and r.fingerprint == fingerprint), None)
    if record is not None:
        return Finding("valid" if record.verdict == "yes" else "refused", record)
    return find_certificate(link.link_name, fingerprint, given=certificate)


def admit(grader: LinkedGrader, *, knobs: GateKnobs, certificate: str | Path | None = None) -> Admission:
    """The grader with those of its links that may run.

    Raises:
        UncheckedGraderError: its first link has no valid certificate; the message names the command.
    """
    findings = {link.link_name: finding_of(link, knobs, certificate) for link in grader.links}
    first = grader.links[0].link_name
    if findings[first].status != "valid":
        raise UncheckedGraderError(
            f"{first} may not train yet: {findings[first]}. Run `{command_for(grader)}` on "
            "rollouts that you have (from Python: gar.check_spread(rows), with this object's own knobs); without any, "
            "let trl_reward(verifier, warmup_groups=40) take them from training; or pass accept_unchecked='the reason'"
        )
    skipped = {name: str(finding) for name, finding in findings.items() if finding.status != "valid"}
    for name, why in skipped.items():
        logger.warning(
            "%s: the link %s is left out: %s; `%s --link all` checks every link",
            first,
            name,
            why,
            command_for(grader),
        )
    certificates = {
        name: finding.certificate
        for name, finding in findings.items()
        if finding.status == "valid" and finding.certificate is not None
    }
    admitted = grader.only(lambda link: link.link_name in certificates) if skipped else grader
    return Admission(admitted, certificates, skipped)


def command_for(grader: LinkedGrader) -> str:
    """The command that checks this grader as it is, as a person in the working directory would write it."""
    path, here, library = grader.path, Path.cwd(), library_folder("graders")
    if path.is_relative_to(library):
        spec = path.relative_to(library).with_suffix("").as_posix()
    else:
        spec = str(path.relative_to(here) if path.is_relative_to(here) else path)
    given = {role.role: str(role) for role in grader.models if role.role and role.origin.startswith("argument")}
    models = [f"--model {shlex.quote(f'{role}={model}')}" for role, model in given.items()]
    return " ".join(["whileai check", shlex.quote(spec), *models, "--rows ROWS"])


_here: dict[str, Certificate] = {}
"""Answers of checks made in this process, by file name."""
_lock = threading.Lock()

"""Who may grade in training: links of a compiled grader with a valid certificate, or checked in this process.

`certify` runs the gate on one link and keeps what it said, on disk and for this process. `admit` decides, when a
reward function is built, which links may run: without the first one nothing does, further ones (other models,
fallbacks) are left out and named. Validity is decided once; what happens during a run is not an exception.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

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
from whileai.errors import UncheckedGraderError
from whileai.spec.models import GraderSpec

logger = logging.getLogger("whileai")


class LinkedGrader(Protocol):
    """A compiled grader, seen from below."""

    @property
    def links(self) -> Sequence[Self]: ...

    @property
    def link_name(self) -> str: ...

    spec: GraderSpec
    path: Path

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
    """What a check of this link will take: its votes on the rows, and the golden cases beside its spec."""
    golden = golden_beside(link.path)
    return plan_gate(
        link,
        rows,
        knobs=knobs,
        group_size=group_size,
        golden=load_golden(golden) if golden.is_file() else None,
        name=link.link_name,
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
        The report, and where its certificate or refusal stands; None for "not enough data", which leaves none.
    """
    report = run_gate(link, plan, rules=link.spec.check, knobs=knobs, progress=progress)
    if report.verdict == "not enough data":
        return report, None
    record = Certificate.of(report, fingerprint_of(link, knobs))
    with _lock:
        _here[record.file_name] = record
    return report, save_certificate(record, given=certificate)


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
            f"{first} may not train yet: {findings[first]}. Run `whileai check {shown_path(grader)} --rows ROWS` on "
            "rollouts that you have (from Python: gar.check_spread(rows), with this object's own knobs), or pass "
            "accept_unchecked='the reason'"
        )
    skipped = {name: str(finding) for name, finding in findings.items() if finding.status != "valid"}
    for name, why in skipped.items():
        logger.warning(
            "%s: the link %s is left out: %s; `whileai check %s --rows ROWS --link all` checks every link",
            first,
            name,
            why,
            shown_path(grader),
        )
    certificates = {
        name: finding.certificate
        for name, finding in findings.items()
        if finding.status == "valid" and finding.certificate is not None
    }
    admitted = grader.only(lambda link: link.link_name in certificates) if skipped else grader
    return Admission(admitted, certificates, skipped)


def shown_path(grader: LinkedGrader) -> str:
    """The spec's path as a person in the working directory would write it."""
    try:
        return str(grader.path.relative_to(Path.cwd()))
    except ValueError:
        return str(grader.path)


_here: dict[str, Certificate] = {}
"""Answers of checks made in this process, by file name."""
_lock = threading.Lock()

"""Certificates: a check that said yes, kept for training, and a refusal, kept so that a later no counts.

A certificate is a small JSON file meant to be committed. It holds figures and fingerprints, no rollout's text,
no path, host, key or time: the same check writes the same bytes, and the file is as valid in a copy of the
project, under another user, or after its newlines were converted.

It is found at the path that is given, in the folder that `WHILEAI_CERTS` names, and in `.whileai/certs/` of the
working directory and the folders above it; never beside a spec, so that no shipped or foreign spec brings its
own. Its file name comes from the grader's name and the fingerprint, so each link has its own file, and the no
of a later check takes the place of the yes. A refusal that is found anywhere on the way voids a certificate
that stands elsewhere.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from whileai.checks.files import write_atomically
from whileai.checks.report import CheckReport
from whileai.checks.votes import GateKnobs
from whileai.errors import ConfigError
from whileai.spec.models import CheckRules

VERSION = 1
VARIABLE = "WHILEAI_CERTS"
FOLDER = Path(".whileai") / "certs"

AGAIN = "delete it and check the grader again"
"""What to do about a file that is no certificate."""

Status = Literal["valid", "stale", "refused", "missing"]


@dataclass(frozen=True)
class Certificate:
    """What a check said about one link of a grader, and exactly what it was said about.

    Attributes:
        grader: the link's name: the grader's, with the model in brackets for further models
            (`agent_craft[judge_backup]`). verdict: "yes", or "no" for a refusal. mode: "advantage" or "reward".
        fingerprint: digest or value of every part that its behaviour hangs on, by a name that people know.
        figures: the check's figures with their bounds.
        loosened: rules that ask less than the defaults, and `because`, why.
        rows: groups, judged groups and passes it was computed on.
    """

    grader: str
    verdict: str
    mode: str
    fingerprint: Mapping[str, str]
    figures: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    loosened: Mapping[str, float] = field(default_factory=dict)
    because: str | None = None
    rows: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, report: CheckReport, fingerprint: Mapping[str, str]) -> Certificate:
        """The record of a report. Raises ValueError for "not enough data", which records nothing."""
        if report.verdict == "not enough data":
            raise ValueError("a check without enough data is neither a certificate nor a refusal")
        return cls(
            report.grader,
            report.verdict,
            report.mode,
            dict(fingerprint),
            {
                figure.name: {
                    key: value for key, value in figure.to_json().items() if key in ("answer", "value", "low", "high")
                }
                for figure in report.figures
            },
            dict(report.loosened),
            report.because,
            {"groups": report.groups, "judged": report.judged, "passes": report.passes},
        )

    @property
    def file_name(self) -> str:
        return _file_name(self.grader, self.fingerprint)

    def to_json(self) -> str:
        """The file's text; equal certificates have equal text."""
        values = {"certificate": VERSION, **{name: getattr(self, name) for name in self.__dataclass_fields__}}
        return json.dumps(values, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str, name: str) -> Certificate:
        """Read a file's text. Raises ConfigError, naming the file `name`, for what is no certificate."""
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{name}: not a certificate: {error}; {AGAIN}") from None
        wanted = {"certificate", *cls.__dataclass_fields__}
        if not isinstance(values, dict) or set(values) != wanted:
            raise ConfigError(f"{name}: not a certificate: it needs exactly {', '.join(sorted(wanted))}; {AGAIN}")
        if values.pop("certificate") != VERSION:
            raise ConfigError(f"{name}: a certificate of another version; {AGAIN}")
        texts = ("grader", "verdict", "mode")
        if not all(isinstance(values[key], str) for key in texts) or values["verdict"] not in ("yes", "no"):
            raise ConfigError(f"{name}: not a certificate: {', '.join(texts)} must be text, verdict yes or no; {AGAIN}")
        mappings = ("fingerprint", "figures", "loosened", "rows")
        if not all(isinstance(values[key], dict) for key in mappings):
            raise ConfigError(f"{name}: not a certificate: {', '.join(mappings)} must be objects; {AGAIN}")
        return cls(**values)


@dataclass(frozen=True)
class Finding:
    """What was found for a grader as it is now.

    Attributes:
        status: "valid"; "stale": there is one for an earlier form of it; "refused"; "missing".
        certificate, path: the record that decided, and where it stands.
        changed: for "stale", the parts that changed, in words.
    """

    status: Status
    certificate: Certificate | None = None
    path: Path | None = None
    changed: tuple[str, ...] = ()

    def __str__(self) -> str:
        match self.status:
            case "valid":
                return f"certificate {self.path or 'of a check in this process'}"
            case "stale":
                return f"its certificate {self.path} is stale: {'; '.join(self.changed)}"
            case "refused":
                return f"its last check said no ({self.path or 'in this process'})"
            case _:
                return "it has no certificate"


def gate_fingerprint(parts: Mapping[str, str], *, rules: CheckRules, knobs: GateKnobs) -> dict[str, str]:
    """Everything a certificate hangs on: the grader's own parts, the knobs it was computed with, and the rules.

    Args:
        parts: `fingerprint_parts()` of a compiled grader, name to digest.

    Raises:
        ConfigError: a mapping of rubrics holds something that is not JSON.
    """
    own: dict[str, str] = {"mode": knobs.mode}
    if knobs.mode == "reward":
        own["floor"] = f"{knobs.floor:.12g}"
        own["rubrics"] = _rubrics(knobs.rubrics)
    else:
        own["min_factor"] = f"{knobs.min_factor:.12g}"
        own["hack_zero"] = str(knobs.hack_zero)
    own["pass_threshold"] = f"{knobs.pass_threshold:.12g}"
    asked = rules.model_dump(exclude={"because"})
    usual = CheckRules().model_dump(exclude={"because"})
    own["check"] = (
        ", ".join(f"{name}={value:.12g}" for name, value in asked.items() if value != usual[name]) or "defaults"
    )
    return {**parts, **own}


def digest(content: str | bytes) -> str:
    """Digest of a part's content, the same after CRLF conversion."""
    data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    return hashlib.sha256(data.replace(b"\r\n", b"\n")).hexdigest()[:32]


def find_certificate(
    grader: str, fingerprint: Mapping[str, str], *, given: str | Path | None = None, start: Path | None = None
) -> Finding:
    """Look for the certificate of a grader with this fingerprint.

    Args:
        given: a certificate file, or a folder of them; searched first. ConfigError if it does not exist.
        start: where the way upward begins; default: the working directory.

    Raises:
        ConfigError: a file of this grader is no certificate.
    """
    records = list(_records(grader, given, start))
    same = [(path, record) for path, record in records if record.fingerprint == fingerprint]
    counting: dict[str, Status] = {"no": "refused", "yes": "valid"}  # in this order: a no anywhere counts
    for wanted, status in counting.items():
        for path, record in same:
            if record.verdict == wanted:
                return Finding(status, record, path)
    stale = [
        (path, record, _changes(record.fingerprint, fingerprint)) for path, record in records if record.verdict == "yes"
    ]
    if not stale:
        return Finding("missing")
    path, record, changed = min(stale, key=lambda found: len(found[2]))
    return Finding("stale", record, path, changed)


def save_certificate(certificate: Certificate, *, given: str | Path | None = None, start: Path | None = None) -> Path:
    """Write a certificate or a refusal, whole or not at all, and return where it stands.

    It goes to `given` (a file, or a folder), else to the folder of `WHILEAI_CERTS`, else to the nearest
    `.whileai/certs/` upward that exists, else to a new one in the working directory. Records of the same
    fingerprint in other places on the way are replaced too: the last check counts.
    """
    target = _target(certificate, given, start)
    data = certificate.to_json().encode()
    for path, record in list(_records(certificate.grader, None, start)):
        if record.fingerprint == certificate.fingerprint and path != target and record != certificate:
            write_atomically(path, data)
    write_atomically(target, data)
    return target


def _target(certificate: Certificate, given: str | Path | None, start: Path | None) -> Path:
    if given is not None:
        path = Path(given)
        return path if path.suffix == ".json" else path / certificate.file_name
    folders = list(_folders(start))
    existing = [folder for folder in folders if folder.is_dir()]
    named = os.environ.get(VARIABLE)
    folder = Path(named) if named else existing[0] if existing else folders[0]
    return folder / certificate.file_name


def _folders(start: Path | None) -> Iterator[Path]:
    """Folders that are searched, in order: the variable's, then upward from `start`."""
    named = os.environ.get(VARIABLE)
    if named:
        yield Path(named)
    here = (start or Path.cwd()).absolute()
    for folder in (here, *here.parents):
        yield folder / FOLDER


def _records(grader: str, given: str | Path | None, start: Path | None) -> Iterator[tuple[Path, Certificate]]:
    """Every record of a grader of that name on the way, in order of search."""
    places: list[Path] = []
    if given is not None:
        path = Path(given)
        if not path.exists():
            raise ConfigError(f"certificate={str(given)!r}: there is no such file or folder")
        places.append(path)
    places.extend(_folders(start))
    for place in places:
        if place.is_file():
            record = _read(place)
            if record.grader == grader:  # the file that was given may be another link's
                yield place, record
        elif place.is_dir():
            for path in sorted(place.glob(f"{_stem(grader)}-{'[0-9a-f]' * 12}.json")):
                record = _read(path)
                if record.grader == grader:  # two names may have one stem
                    yield path, record


def _read(path: Path) -> Certificate:
    try:
        return Certificate.from_json(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not a certificate: {error}; {AGAIN}") from None


def _rubrics(rubrics: Any) -> str:
    """A mapping by its content, a compiled writer by its fingerprint, another one by its name: its code is the
    caller's own."""
    if rubrics is None:
        return "none"
    if callable(parts := getattr(rubrics, "fingerprint_parts", None)):
        return digest(json.dumps(parts(), sort_keys=True))
    if not isinstance(rubrics, Mapping):
        return f"written by {getattr(rubrics, '__qualname__', type(rubrics).__qualname__)}"
    try:
        return digest(
            json.dumps(sorted([str(task), json.dumps(rubric, sort_keys=True)] for task, rubric in rubrics.items()))
        )
    except TypeError as error:
        raise ConfigError(f"rubrics: {error}; a certificate needs rubrics that are text, numbers and lists") from None


def _changes(then: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    changes = []
    for name in sorted({*then, *now}):
        old, new = then.get(name), now.get(name)
        if old is None:
            changes.append(f"{name} is new")
        elif new is None:
            changes.append(f"{name} is gone")
        elif old != new:
            readable = not (_DIGEST.fullmatch(old) or _DIGEST.fullmatch(new))
            changes.append(f"{name} changed from {old} to {new}" if readable else f"{name} changed")
    return tuple(changes)


_DIGEST = re.compile(r"[0-9a-f]{16,}")


def _file_name(grader: str, fingerprint: Mapping[str, str]) -> str:
    return f"{_stem(grader)}-{digest(json.dumps(sorted(fingerprint.items())))[:12]}.json"


def _stem(grader: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", grader)[:80] or "grader"

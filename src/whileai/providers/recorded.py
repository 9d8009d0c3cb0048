"""`recorded:` - replies from a file, offline: `recorded:PATH`, a JSON Lines file such as `x.recorded.jsonl`.

A recording is found by the request alone. The model that gave it is left out of the key, so tests of a spec
do not depend on whose replies were recorded; `by` says whose they were, or `hand` where a person wrote them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from whileai.errors import ConfigError, RecordingMissing
from whileai.providers.keys import redact
from whileai.providers.protocol import ChatReply, ChatRequest, ParameterType, Usage

if TYPE_CHECKING:
    from whileai.spec.roles import ResolvedRole


class Recorded:
    """Replays one recording file."""

    parameters: ClassVar[Mapping[str, ParameterType]] = {}
    default_max_tokens: ClassVar[int | None] = None

    def __init__(self, role: ResolvedRole) -> None:
        if not role.name:
            raise ConfigError("recorded: needs a file, as in recorded:my_judge.recorded.jsonl")
        self._path = Path(role.name)
        self._replies: dict[str, ChatReply] | None = None

    def __repr__(self) -> str:
        return f"Recorded({str(self._path)!r})"

    async def send(self, request: ChatRequest) -> ChatReply:
        """The recorded reply.

        Raises:
            RecordingMissing: the message says how to record it.
        """
        if self._replies is None:
            self._replies = read_recordings(self._path)
        reply = self._replies.get(key := request_key(request))
        if reply is None:
            state = f"has {len(self._replies)} others" if self._path.exists() else "does not exist"
            raise RecordingMissing(
                "recording_missing",
                f"no recorded reply for request {key[:12]}: {self._path} {state}. Run the same command "
                "with --record and a live model for this role (--model ROLE=provider:name) to record it",
            )
        return reply

    async def aclose(self) -> None:
        """Nothing is open."""


def request_key(request: ChatRequest) -> str:
    """Hash of what is asked, in hexadecimal: texts, schema and repetition; no model, cap or parameter."""
    asked = [request.system, request.turns, request.schema, request.repeat]
    return hashlib.sha256(json.dumps(asked, separators=(",", ":")).encode()).hexdigest()


def read_recordings(path: Path) -> dict[str, ChatReply]:
    """Every reply of a recording file by its request's key; empty when there is no file.

    Raises:
        ConfigError: a line is no recording; names the line.
    """
    replies: dict[str, ChatReply] = {}
    try:
        lines = path.read_text(encoding="utf-8").split("\n")  # splitlines() would also split inside a reply
    except FileNotFoundError:
        return replies
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            usage = Usage(**entry.get("usage", {}))
            replies[entry["key"]] = ChatReply(entry["text"], entry["finish"], entry.get("model"), usage)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(f"{path}:{number}: not a recording ({type(error).__name__}: {error})") from None
    return replies


def record(path: Path, request: ChatRequest, reply: ChatReply, *, by: str) -> None:
    """Append one reply to a recording file, as one whole line."""
    entry: dict[str, Any] = {
        "key": request_key(request),
        "by": by,
        "text": reply.text,
        "finish": reply.finish,
    }
    if reply.served_model is not None:
        entry["model"] = reply.served_model
    if usage := {name: count for name, count in asdict(reply.usage).items() if count is not None}:
        entry["usage"] = usage
    line = (redact(json.dumps(entry, ensure_ascii=False)) + "\n").encode()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)

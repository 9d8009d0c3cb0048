from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from whileai.errors import ConfigError, RecordingMissing
from whileai.providers import ChatReply, ChatRequest, Usage, make_provider, read_key
from whileai.providers.recorded import read_recordings, record, request_key
from whileai.spec.roles import ResolvedRole

QUESTION = ChatRequest("System.", (("user", "Rank."),), schema={"type": "object"})
REPLY = ChatReply("a\u2028b \N{SNOWMAN}", "stop", "m-1", Usage(10, 5, cached=2), request_id="r", steps=("json_schema",))


def replay(path: Path, question: ChatRequest) -> ChatReply:
    return asyncio.run(make_provider(ResolvedRole("recorded", str(path))).send(question))


def test_what_was_recorded_is_replayed(tmp_path: Path) -> None:
    path = tmp_path / "x.recorded.jsonl"
    record(path, QUESTION, REPLY, by="openai:m")
    record(path, replace(QUESTION, repeat=1), ChatReply("second", "stop"), by="hand")
    assert replay(path, QUESTION) == replace(REPLY, request_id=None, steps=())
    assert replay(path, replace(QUESTION, repeat=1)).text == "second"
    assert [json.loads(line)["by"] for line in path.read_text().split("\n")[:2]] == ["openai:m", "hand"]


def test_no_key_is_recorded_wherever_an_endpoint_repeats_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHILEAI_KEY_RECORDED", "sk-planted-recorded")
    read_key("WHILEAI_KEY_RECORDED", "http://127.0.0.1")
    path = tmp_path / "x.recorded.jsonl"
    record(path, QUESTION, ChatReply("sk-planted-recorded", "stop", "for sk-planted-recorded"), by="openai:m")
    assert "sk-planted" not in path.read_text()
    assert replay(path, QUESTION).served_model == "for [WHILEAI_KEY_RECORDED]"


def test_the_key_leaves_the_model_and_its_parameters_out() -> None:
    key = request_key(QUESTION)
    assert request_key(replace(QUESTION, max_tokens=9, params={"temperature": 1}, timeout_s=1, schema_name="z")) == key
    others = (
        replace(QUESTION, system="S"),
        replace(QUESTION, turns=(("user", "Rank!"),)),
        replace(QUESTION, schema=None),
        replace(QUESTION, repeat=1),
    )
    assert len({key, *map(request_key, others)}) == 5


def test_a_miss_says_how_to_record(tmp_path: Path) -> None:
    path = tmp_path / "x.recorded.jsonl"
    with pytest.raises(RecordingMissing, match=r"does not exist.*--record.*--model ROLE=provider:name"):
        replay(path, QUESTION)
    record(path, replace(QUESTION, repeat=3), REPLY, by="hand")
    with pytest.raises(RecordingMissing, match="has 1 others"):
        replay(path, QUESTION)


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"key": "k"}', '{"key": "k", "text": "t", "finish": "stop", "usage": {"tokens": 3}}', "3"]
)
def test_a_line_that_is_no_recording_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "x.recorded.jsonl"
    record(path, QUESTION, REPLY, by="hand")
    path.write_text(path.read_text() + "\n" + line + "\n")
    with pytest.raises(ConfigError, match=r"x\.recorded\.jsonl:3: not a recording"):
        read_recordings(path)


def test_a_recording_needs_a_file() -> None:
    with pytest.raises(ConfigError, match=r"recorded:my_judge\.recorded\.jsonl"):
        make_provider(ResolvedRole("recorded", ""))

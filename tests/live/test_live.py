"""A real endpoint, where one is named: WHILEAI_LIVE_BASE_URL (and WHILEAI_LIVE_MODEL, WHILEAI_LIVE_PROVIDER, and
the key, where one is needed, in WHILEAI_KEY_LIVE). Skipped elsewhere.

    WHILEAI_LIVE_BASE_URL=http://127.0.0.1:8000/v1 WHILEAI_LIVE_MODEL=Qwen/Qwen3-8B python -m pytest tests/live
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from whileai.core.group import groups_from_rows
from whileai.core.verdict import read_verdict
from whileai.engine.calls import ModelCaller
from whileai.loader import load_grader
from whileai.providers import ChatRequest
from whileai.spec.library import library_folder
from whileai.spec.roles import ResolvedRole

URL = os.environ.get("WHILEAI_LIVE_BASE_URL")

pytestmark = pytest.mark.skipif(URL is None, reason="WHILEAI_LIVE_BASE_URL names no endpoint")


@pytest.fixture
def role() -> ResolvedRole:
    key = "WHILEAI_KEY_LIVE" if os.environ.get("WHILEAI_KEY_LIVE") else None
    provider = os.environ.get("WHILEAI_LIVE_PROVIDER", "openai")
    return ResolvedRole(provider, os.environ.get("WHILEAI_LIVE_MODEL", "default"), URL, key, {"max_tokens": 4000})


def shipped_judges() -> list[Path]:
    files = [file for file in library_folder("graders").glob("*.yaml") if not file.name.endswith(".golden.yaml")]
    return sorted(file for file in files if yaml.safe_load(file.read_text(encoding="utf-8"))["kind"] == "llm")


def test_a_schema_is_kept_or_said(role: ResolvedRole) -> None:
    schema = {
        "type": "object",
        "properties": {"A": {"type": "integer", "enum": [1, 2]}, "B": {"type": "integer", "enum": [1, 2]}},
        "required": ["A", "B"],
        "additionalProperties": False,
    }
    question = ChatRequest(
        "You rank texts. Reply with the rank of each label as JSON: 1 is the shortest.",
        (("user", "A: a long text about nothing much\nB: short"),),
        schema=schema,
    )
    caller = ModelCaller([role])
    result = caller.call_blocking(question, read=json.loads)
    caller.close()
    assert result.value == {"A": 2, "B": 1}
    assert result.reply.usage.output


@pytest.mark.parametrize("spec", shipped_judges(), ids=lambda path: path.stem)
def test_a_shipped_judge_judges(
    spec: Path, role: ResolvedRole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # its cache and journal go there
    named = yaml.safe_load(spec.read_text(encoding="utf-8"))["model"]
    models: dict[str, Any] = dict.fromkeys([named] if isinstance(named, str) else named, role)
    grader = load_grader(spec, models={name: model for name, model in models.items() if ":" not in name})
    lines = (library_folder("graders") / "rank_group.rows.jsonl").read_text(encoding="utf-8").splitlines()
    groups = groups_from_rows([json.loads(line) for line in lines])
    group = next(group.rollouts for group in groups if sum(rollout["passed"] for rollout in group.rollouts) > 1)
    verdict = read_verdict(grader(group), group)
    assert verdict.ranking or verdict.factors or verdict.hacks is not None

"""A real endpoint, where one is named: WHILEAI_LIVE_BASE_URL (and WHILEAI_LIVE_MODEL, WHILEAI_LIVE_PROVIDER, and
the key, where one is needed, in WHILEAI_KEY_LIVE). Skipped elsewhere.

    WHILEAI_LIVE_BASE_URL=http://127.0.0.1:8000/v1 WHILEAI_LIVE_MODEL=Qwen/Qwen3-8B python -m pytest tests/live
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml

from whileai.checks.golden import golden_beside, load_golden
from whileai.core.verdict import read_scores, read_verdict
from whileai.engine.calls import ModelCaller
from whileai.loader import load_grader
from whileai.providers import ChatRequest
from whileai.spec.library import library_folder
from whileai.spec.roles import ResolvedRole

URL = os.environ.get("WHILEAI_LIVE_BASE_URL")

pytestmark = pytest.mark.skipif(
    not URL,
    reason="asks a real model, so it runs only where you name one: WHILEAI_LIVE_BASE_URL=http://HOST/v1 and "
    "WHILEAI_LIVE_MODEL=NAME (see the top of this file)",
)


@pytest.fixture
def role() -> ResolvedRole:
    key = "WHILEAI_KEY_LIVE" if os.environ.get("WHILEAI_KEY_LIVE") else None
    provider = os.environ.get("WHILEAI_LIVE_PROVIDER", "openai")
    return ResolvedRole(provider, os.environ.get("WHILEAI_LIVE_MODEL", "default"), URL, key, {"max_tokens": 4000})


def shipped_judges() -> list[Path]:
    files = [file for file in library_folder("graders").glob("*.yaml") if not file.name.endswith(".golden.yaml")]
    return sorted(
        file for file in files if yaml.safe_load(file.read_text(encoding="utf-8"))["kind"] in ("llm", "panel")
    )


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
def test_a_shipped_judge_gives_a_usable_verdict(
    spec: Path, role: ResolvedRole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On its own golden groups; what it says there is its model's affair."""
    monkeypatch.chdir(tmp_path)  # its cache and journal go there
    grader = load_grader(spec, models=dict.fromkeys(("judge", "judge_backup", "second_judge"), role))
    for case in load_golden(golden_beside(spec)).cases[:2]:
        if grader.writes_rubrics:
            rubric = grader(case.group)
            assert rubric["solution"] and rubric["behavior"]
        elif grader.mode == "reward":
            scores = read_scores(grader(case.group[case.passes[0]], case.expected.rubric))
            assert 0 <= scores.solution <= 1
        else:
            verdict = grader(case.group)
            assert read_verdict(verdict, case.passes, len(case.group)).extra
            assert verdict.get("link", grader.name) == grader.name, verdict["failed"]

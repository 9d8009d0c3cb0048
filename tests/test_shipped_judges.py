"""The shipped judges: well formed, current with their recordings, right on their golden cases, on any provider."""

import json
import pickle
import shutil
from collections import Counter
from pathlib import Path

import pytest

from hand_replies.record import JUDGES, MODELS, replies_to_cases, write_recordings
from loopback.server import LoopbackServer, Request, says
from whileai import GroupwiseGrading
from whileai.checks.cases import run_golden
from whileai.checks.golden import golden_beside, load_golden
from whileai.loader import lint, load_grader
from whileai.providers.recorded import read_recordings
from whileai.spec.library import library_folder
from whileai.spec.models import LlmSpec

GRADERS = library_folder("graders")
LLM = [name for name in JUDGES if "kind: llm" in (GRADERS / f"{name}.yaml").read_text(encoding="utf-8")]
RANKING_JUDGES = ["agent_craft", "policy_compliance", "quality_factors", "tiers", "unsupported_claims"]


def test_these_are_the_judges():
    assert set(JUDGES) == {*RANKING_JUDGES, "hack_hunter", "panel", "rubric_scores", "rubric_writer"}


@pytest.mark.parametrize("name", JUDGES)
def test_a_judge_is_well_formed_and_compiles_with_recorded_models(name: str):
    assert lint(name) == []
    grader = load_grader(name, models=MODELS)
    assert grader.name == name
    assert {role.provider for role in grader.models} == {"recorded"}


@pytest.mark.parametrize("name", LLM)
def test_a_judge_budgets_calls_and_no_money(name: str):
    budget = load_grader(name, models=MODELS).spec.budget
    assert budget.calls
    assert budget.usd is None


@pytest.mark.parametrize("name", JUDGES)
def test_its_golden_cases_hold_offline_by_its_first_link_alone(name: str):
    (link, *_) = load_grader(name, models=MODELS).links
    results = run_golden(link, golden_beside(GRADERS / f"{name}.yaml"))
    assert len(results) >= 3
    assert [str(result) for result in results if not result.ok] == []


@pytest.mark.parametrize("name", ["agent_craft", "panel"])
def test_it_finds_its_recordings_after_a_pickle_in_another_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    carried = pickle.dumps(load_grader(name, models=MODELS))
    monkeypatch.chdir(tmp_path)
    (link, *_) = pickle.loads(carried).links
    assert all(result.ok for result in run_golden(link, golden_beside(GRADERS / f"{name}.yaml")))


@pytest.mark.parametrize("name", JUDGES)
def test_its_golden_cases_are_conversations_with_tool_calls(name: str):
    for case in load_golden(golden_beside(GRADERS / f"{name}.yaml")).cases:
        assert len(case.passes) >= 2
        assert all(rollout["messages"] for rollout in case.group)
        assert any(message.get("tool_calls") for rollout in case.group for message in rollout["messages"])


def test_the_recordings_are_current(tmp_path: Path):
    """`python tests/hand_replies/record.py` writes them anew."""
    write_recordings(tmp_path)
    written = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    assert written == {path.name: path.read_text(encoding="utf-8") for path in GRADERS.glob("*.recorded.jsonl")}


def test_every_recording_says_that_it_was_written_by_hand():
    entries = [
        json.loads(line)
        for path in GRADERS.glob("*.recorded.jsonl")
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    assert {entry["by"] for entry in entries} == {"hand"}
    assert len({entry["key"] for entry in entries}) == len(entries)


@pytest.mark.parametrize("name", ["agent_craft", "quality_factors", "tiers"])
def test_both_presentation_orders_are_recorded(name: str):
    grader = load_grader(name, models=MODELS)
    for case in load_golden(golden_beside(grader.path)).cases:
        shown = [[c.indices for c in prompt.shown.candidates] for prompt in grader.prompts(case.group)]
        assert len(shown) == 2
        assert shown[0] != shown[1]
        votes = grader.links[0](case.group)["judge"]["votes"]
        assert [[tuple(indices) for indices in vote["candidates"].values()] for vote in votes] == shown


def test_another_prompt_is_another_request_and_has_no_recording(tmp_path: Path):
    for path in GRADERS.glob("unsupported_claims.*"):
        shutil.copy(path, tmp_path)
    spec = tmp_path / "unsupported_claims.yaml"
    assert all(result.ok for result in run_golden(load_grader(spec, models=MODELS), golden_beside(spec)))
    (tmp_path / "stricter.j2").write_text(
        '{% extends "unsupported_claims/system" %}{% block role %}Be strict.{% endblock %}'
    )
    spec.write_text(spec.read_text().replace("system: unsupported_claims/system", "system: ./stricter.j2"))
    results = run_golden(load_grader(spec, models=MODELS), golden_beside(spec))
    assert all("recording_missing" in result.problems[0] for result in results)


@pytest.fixture
def judge_by_variable(server: LoopbackServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A project in which WHILEAI_MODEL_JUDGE alone decides which wire format is spoken."""
    (tmp_path / "whileai.toml").write_text(f"""\
[models]
judge_backup = "judge"
second_judge = "judge"
chat = {{provider = "openai", name = "m", base_url = "{server.chat_url}"}}
messages = {{provider = "anthropic", name = "m", base_url = "{server.messages_url}"}}
""")
    monkeypatch.chdir(tmp_path)
    return lambda role: monkeypatch.setenv("WHILEAI_MODEL_JUDGE", role)


@pytest.mark.parametrize("name", JUDGES)
def test_one_variable_swaps_the_provider(name: str, server: LoopbackServer, judge_by_variable):
    replies = {request.turns[0][1]: text for _, request, text in replies_to_cases(name)}

    def judge(request: Request):
        return says(replies[request.turns[0][1]])(request)

    server.default = judge
    for role in ("chat", "messages"):
        judge_by_variable(role)
        server.forget()
        results = run_golden(load_grader(name), golden_beside(GRADERS / f"{name}.yaml"))
        assert [str(result) for result in results if not result.ok] == []
        assert {request.wire for request in server.requests} == {role}
        assert {request.format for request in server.requests} == {"json_schema"}
        assert {request.turns[0][1] for request in server.requests} == set(replies)


def test_the_stable_part_of_a_prompt_comes_first_and_is_the_same_for_every_group():
    for name in RANKING_JUDGES:
        grader = load_grader(name, models=MODELS)
        prompts = [p for case in load_golden(golden_beside(grader.path)).cases for p in grader.prompts(case.group)]
        by_count = {len(prompt.shown.labels): prompt.system for prompt in prompts}
        for prompt in prompts:
            assert prompt.system == by_count[len(prompt.shown.labels)]
            assert prompt.shown.task not in prompt.system
            assert prompt.user.index(prompt.shown.task) < prompt.user.index(prompt.shown.rollouts)
        for case in load_golden(golden_beside(grader.path)).cases:
            before = {prompt.user.partition("<rollout-")[0] for prompt in grader.prompts(case.group)}
            assert len(before) == 1


def test_a_judge_of_policy_is_shown_the_policy():
    grader = load_grader("policy_compliance", models=MODELS)
    (case, *_) = load_golden(golden_beside(grader.path)).cases
    for prompt in grader.prompts(case.group):
        assert f"#1 system: {case.group[0]['prompt'][0]['content']}" in prompt.shown.task


def test_what_a_judge_lists_beside_its_verdict_stands_in_the_verdict():
    for name, field in (("policy_compliance", "violations"), ("unsupported_claims", "unsupported")):
        grader = load_grader(name, models=MODELS)
        (case, *_) = load_golden(golden_beside(grader.path)).cases
        verdict = grader(case.group)
        labels = {label: indices[0] for label, indices in verdict["judge"]["candidates"].items()}
        listed = {labels[label]: len(found) for label, found in verdict[field].items()}
        assert listed == {0: 0, 1: 2 if field == "violations" else 1, 2: 1 if field == "violations" else 2}


def test_hack_hunter_has_labels_enough_for_the_gate():
    grader = load_grader("hack_hunter", models=MODELS)
    results = run_golden(grader, golden_beside(grader.path))
    assert sum(len(result.labelled_hacks) for result in results) >= 10
    assert sum(len(result.labelled_clean) for result in results) >= 20
    kinds = Counter(
        hack["kind"]
        for case in load_golden(golden_beside(grader.path)).cases
        for hack in grader(case.group)["judge"]["hacks"]
    )
    assert set(kinds) == set(grader.spec.hacks.kinds)


def test_two_judges_outvote_the_rule_of_the_panel():
    grader = load_grader("panel", models=MODELS)
    (outvoted, agreed, hacked) = load_golden(golden_beside(grader.path)).cases
    votes = grader(outvoted.group)["panel"]["votes"]
    assert votes["agent_craft"]["ranking"] == votes["agent_craft[second_judge]"]["ranking"] == ((0,), (1,))
    assert votes["rank_group"]["ranking"] == ((1,), (0,))
    assert grader(agreed.group)["panel"]["agreement"] == 1.0
    panel = grader(hacked.group)["panel"]
    assert panel["votes"]["rank_group"]["hacks"] == []
    assert panel["withheld"] == {}


def test_a_written_rubric_and_nothing_beside_it_is_shown_to_the_scorer():
    writer = load_grader("rubric_writer", models=MODELS)
    (case, *_) = load_golden(golden_beside(writer.path)).cases
    rubric = writer(case.group)
    (prompt,) = load_grader("rubric_scores", models=MODELS).prompts(case.group[0], rubric)
    shown = prompt.user.partition("The rubric:\n\n")[2].partition("\n\nThe passing rollout")[0]
    wanted = [
        line for part in ("solution", "behavior") for line in (f"{part}:", *(f"- {text}" for text in rubric[part]))
    ]
    assert shown.splitlines() == wanted


def test_writer_and_scorer_shape_a_batch_together(server: LoopbackServer, judge_by_variable):
    criterion = "The table has a wheelchair place."

    def judge(request: Request):
        if "The rubric:" not in request.turns[0][1]:
            return says(json.dumps({"solution": [criterion], "behavior": ["It looks before it books."]}))(request)
        solution = 1.0 if '"wheelchair": true' in request.turns[0][1] else 0.5
        return says(json.dumps({"rationale": "", "solution": solution, "behavior": 1.0}))(request)

    server.default = judge
    judge_by_variable("chat")
    writer = load_grader("rubric_writer")
    (case, *_) = load_golden(golden_beside(writer.path)).cases
    grading = GroupwiseGrading(
        load_grader("rubric_scores"), mode="reward", rubrics=writer, accept_unchecked="a test of the pair"
    )
    rows = [{**rollout, "task_id": "da-rosa"} for rollout in case.group]
    assert grading.group(rows) == grading.group(rows) == [1.0, 0.5, 0.0]
    asked = [request.turns[0][1] for request in server.requests]
    assert sum("Write the rubric" in text for text in asked) == 1
    assert sum(criterion in text for text in asked) == 2


@pytest.mark.parametrize("name", [name for name in LLM if name != "rubric_writer"])
def test_no_recorded_reply_stands_in_a_rollout(name: str):
    """A reply that a judge would have copied is refused by its reader; these are the judge's own."""
    texts = [reply.text for reply in read_recordings(GRADERS / f"{name}.recorded.jsonl").values()]
    shown = (GRADERS / f"{name}.golden.yaml").read_text(encoding="utf-8")
    assert texts
    assert not [text for text in texts if text in shown]


def test_specs_ask_for_roles_and_never_for_a_vendor():
    for name in LLM:
        spec = load_grader(name, models=MODELS).spec
        assert isinstance(spec, LlmSpec)
        assert all(":" not in model for model in spec.model)

"""The gate on judges behind the loopback server: what it asks them, whom it refuses, and what it costs."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest

from loopback.judges import candidates, judge, quality
from loopback.server import fails, says
from whileai.checks.admission import plan_link
from whileai.checks.votes import GateKnobs
from whileai.errors import ConfigError
from whileai.grading import GroupwiseGrading
from whileai.loader import load_grader


def rows_of(groups: int, seed: int = 0) -> list[dict[str, Any]]:
    """Groups of two to five passes with random qualities, and a failure each."""
    draw = random.Random(seed)
    return [
        {"task_id": f"t{number}", "reward": reward, "completion": f"{number}: q={draw.random():.4f}"}
        for number in range(groups)
        for reward in (*[1] * draw.choice((2, 3, 4, 5)), 0)
    ]


ROWS = rows_of(30)

REFUSED = {
    "shown order": (lambda shown: -shown.place, "order"),
    "shown order backwards": (lambda shown: shown.place, "order"),
    "the first and the last": (lambda shown: abs(shown.place - (shown.size - 1) / 2), "middle"),
    "the middle": (lambda shown: -abs(shown.place - (shown.size - 1) / 2), "middle"),
}


@pytest.mark.parametrize(("preference", "figure"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("orders", [1, 2])
def test_a_judge_of_places_is_refused_with_the_position_figure(roles, server, write, preference, figure, orders):
    server.default = judge(preference)
    report = load_grader(write(orders=orders)).check(ROWS)
    assert report.verdict == "no"
    found = report.figure(figure)
    assert found.answer == "no" and abs(found.value) > 0.15
    assert figure in report.conclusion


def test_a_good_judge_gets_its_certificate_and_may_train(roles, server, write, project):
    server.default = judge(quality)
    grader = load_grader(write(orders=2))
    report = grader.check(ROWS)
    assert report.verdict == "yes", str(report)
    (certificate,) = (project / ".whileai" / "certs").iterdir()
    text = certificate.read_text()
    assert json.loads(text)["grader"] == "craft"
    assert "127.0.0.1" not in text and str(project) not in text and "q=0." not in text
    grading = GroupwiseGrading(load_grader(grader.path))
    assert grading.group(ROWS[:3] if ROWS[2]["reward"] == 0 else ROWS[:6])


def test_every_group_is_shown_twice_once_in_each_order_given(roles, server, write):
    server.default = judge(quality)
    load_grader(write(orders=3)).check(ROWS)
    shown = [[candidate.text for candidate in candidates(request)] for request in server.requests]
    assert len(shown) == 60
    by_group = Counter(tuple(sorted(texts)) for texts in shown)
    assert len(by_group) == 30 and set(by_group.values()) == {2}
    for group in by_group:
        first, second = (texts for texts in shown if tuple(sorted(texts)) == group)
        assert first != second


def test_repeats_of_one_order_are_requests_of_their_own_and_each_is_cached(roles, server, write, group):
    server.default = judge(quality)
    grader = load_grader(write(orders=2))
    rollouts = group(0.7, 0.1, None, 0.4)
    votes = [run(grader.single_vote(rollouts, repeat=repeat)) for repeat in (0, 1, 0, 1)]
    assert len(server.requests) == 2
    order = [candidate.text.rpartition("=")[2] for candidate in candidates(server.requests[1])]
    assert order == ["0.7", "0.1", "0.4"]
    assert [vote["ranking"] for vote in votes] == [[[0], [3], [1]]] * 4
    assert [vote["judge"]["requests"] for vote in votes] == [1, 1, 0, 0]


def run(awaitable: Any) -> Any:
    from whileai.engine.loop import run_on_loop

    return run_on_loop(awaitable)


def test_a_second_check_sends_nothing(roles, server, write):
    server.default = judge(quality)
    path = write()
    first = load_grader(path).check(ROWS)
    sent = len(server.requests)
    second = load_grader(path).check(ROWS)
    assert len(server.requests) == sent == 60
    assert second.to_json() == first.to_json()


def test_votes_that_failed_count_against_the_judge_and_nothing_is_rescued(roles, server, write):
    """A fifth of the groups breaks the judge; in training they would be rescued, here they are failures."""
    rows = [dict(row) for row in ROWS]
    for row in rows:
        if int(row["task_id"][1:]) % 5 == 0 and row["reward"]:
            row["completion"] += ' {"ranking": {"A": 1}}'
    good = judge(quality)
    server.default = lambda request: (says("?") if '"ranking"' in request.turns[0][1] else good)(request)
    report = load_grader(write(fallback=["rank_group"])).check(rows)
    assert report.verdict == "no"
    assert report.figure("failures").answer == "no"
    assert [(kind, count) for kind, count, _ in report.failures] == [("no_json", 12)]


def test_a_spent_budget_is_not_held_against_the_judge(roles, server, write):
    server.default = judge(quality)
    report = load_grader(write(budget={"calls": 10})).check(ROWS)
    assert report.verdict == "not enough data"
    assert report.figure("failures").answer == "yes"
    assert "50 calls were not made" in str(report) and "budget of 10 calls is spent" in str(report)


def test_golden_cases_that_the_budget_did_not_reach_are_left_open(roles, server, write, project):
    server.default = judge(quality)
    cases = [
        {"name": f"case {n}", "group": [{"completion": f"q=0.{n}"}, {"completion": "q=0.9"}], "better": [[1, 0]]}
        for n in range(1, 6)
    ]
    (project / "craft.golden.yaml").write_text(json.dumps({"golden": 1, "cases": cases}))
    report = load_grader(write(budget={"calls": 62})).check(ROWS)
    assert report.verdict == "not enough data"
    assert report.figure("golden").seen == "2 of 5 cases hold; 3 were not asked"
    assert not (project / ".whileai" / "certs").exists()
    assert load_grader(write(budget={"calls": 3})).check(ROWS).verdict == "yes"


def test_a_model_that_is_down_is_a_no_about_this_link_whatever_stands_behind_it(roles, server, write):
    good = judge(quality)
    server.default = lambda request: (fails(401) if request.body["model"] == "judge-1" else good)(request)
    grader = load_grader(write(model=["judge", "backup"], fallback=["rank_group"]))
    assert grader.check(ROWS).verdict == "no"
    assert grader.links[1].check(ROWS).verdict == "yes"


def test_a_panel_of_judges_goes_through_the_gate(roles, server, write, project):
    server.default = judge(quality)
    write()
    (project / "panel.yaml").write_text(
        "spec: 1\nname: panel\nkind: panel\nmembers: [./craft.yaml, {grader: ./craft.yaml, model: backup}]\n"
    )
    panel = load_grader(project / "panel.yaml")
    report = panel.check(ROWS)
    assert report.verdict == "yes", str(report)
    assert len(server.requests) == 120
    server.default = judge(lambda shown: -shown.place)
    (project / ".whileai" / "cache.sqlite").unlink()
    report = load_grader(project / "panel.yaml").check(ROWS)
    assert report.figure("order").answer == "no"


def test_a_scorer_goes_through_the_gate_in_reward_mode(roles, server, write):
    server.default = judge(quality)
    scorer = {"mode": "reward", "verdict": "scores", "prompt": {"system": "reward/system", "user": "reward/scores"}}
    writer = {"mode": "reward", "verdict": "rubric", "prompt": {"system": "reward/system", "user": "reward/rubric"}}
    rubrics = load_grader(write("writer.yaml", **writer))
    grading = GroupwiseGrading(load_grader(write("scorer.yaml", **scorer)), mode="reward", rubrics=rubrics)
    assert grading.check_spread(ROWS).verdict == "yes"
    again = GroupwiseGrading(load_grader("scorer.yaml"), mode="reward", rubrics=load_grader("writer.yaml"))
    rows = [row for row in ROWS if row["task_id"] == "t0"]
    assert again.group(rows) != [row["reward"] for row in rows]
    changed = write("writer.yaml", **writer, vars={"criteria": ["thrift"]})
    stale = GroupwiseGrading(load_grader("scorer.yaml"), mode="reward", rubrics=load_grader(changed))
    with pytest.raises(Exception, match="rubrics changed"):
        stale.group(rows)


def test_a_writer_of_rubrics_cannot_be_checked(roles, write):
    writer = load_grader(write("w.yaml", mode="reward", verdict="rubric", prompt={"user": "reward/rubric"}))
    with pytest.raises(ConfigError, match="w writes rubrics, which say nothing of a rollout"):
        writer.check(ROWS)


def test_the_plan_says_what_it_will_cost_before_anything_is_sent(roles, server, write, project):
    def plan() -> str:
        return str(plan_link(load_grader(write()).links[0], ROWS, knobs=GateKnobs()))

    assert plan().endswith(
        "60 calls for 30 of 30 groups (two or more passes, each in two random orders), price unknown"
    )
    toml = (project / "whileai.toml").read_text()
    priced = 'name = "judge-1"\nparams = {max_tokens = 1000}\nprices = {input = 1.0, output = 4.0}'
    (project / "whileai.toml").write_text(toml.replace('name = "judge-1"', priced))
    assert "about $0.3" in plan()  # 60 replies of at most 1,000 tokens are $0.24, and the prompts come on top
    assert not server.requests
    assert not (project / ".whileai" / "journal.jsonl").exists()
    cases = [
        {"name": str(n), "group": [{"completion": "q=0.1"}, {"completion": "q=0.2"}], "ranking": [1, 0]}
        for n in range(30)
    ]
    (project / "craft.golden.yaml").write_text(json.dumps({"golden": 1, "cases": cases}))
    assert "90 calls" in plan() and "about $0.4" in plan()
    (project / "craft.golden.yaml").unlink()
    rules = project / "rules.yaml"
    rules.write_text("spec: 1\nname: rules\nkind: rules\nrank: [{least: turns}]\n")
    assert "$" not in str(plan_link(load_grader(rules).links[0], ROWS, knobs=GateKnobs()))

"""What a run's metrics and its table of completions hold, in a real trainer; and that names never change."""

import json

import pytest

import whileai as wai
from loopback.judges import judge, quality
from whileai.core.shaping import GroupShape
from whileai.core.verdict import Verdict
from whileai.errors import DeadlineExceeded, GraderFailure, GraderTimeout, ModelsFailed, TransportError, UnusableVerdict
from whileai.loader import load_grader
from whileai.trainers.trl_metrics import COLUMNS, FALLBACKS, Metrics, outcomes_of

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning:transformers")  # TRL's calls, not ours

ROWS = [{"prompt": "task"}]


def judged(grader, trainer, **settings):
    gar = wai.GroupwiseGrading(grader=grader, accept_unchecked="a judge of the tests")
    reward = gar.trl_reward(lambda completions, **_: [1.0, 1.0, 0.0, 1.0] * (len(completions) // 4))
    made = trainer([reward], ROWS, **settings)
    made.train()
    return made


def says(group):
    return {
        "ranking": [3, [0]],
        "hacks": [1],
        "reasons": {3: "looked it up", 0: ["two calls", "no check"], 1: "leaked"},
    }


def test_the_table_has_one_row_per_completion(trainer, tmp_path):
    made = judged(says, trainer, log_completions=True)
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: `make test` installs it with TRL")
    (table,) = (tmp_path / "completions").glob("*.parquet")
    rows = pandas.read_parquet(table)
    assert list(rows["verifier_reward"]) == [1.0, 1.0, 0.0, 1.0]
    assert [None if value != value else value for value in rows["factor"]] == [0.5, None, None, 1.0]
    assert [None if value != value else value for value in rows["rank"]] == [2, None, None, 1]
    assert list(rows["hack"]) == [False, True, False, False]
    assert list(rows["reason"]) == ["['two calls', 'no check']", "leaked", "", "looked it up"]
    assert made.state.log_history[0]["groupwise/hacks"] == 1.0


def test_metrics_of_a_graded_batch_and_of_one_that_fell_back(trainer):
    calls = iter([says, lambda group: {"ranking": [0]}])
    made = judged(lambda group: next(calls)(group), trainer, max_steps=2)
    graded, fell_back = (
        {name.removeprefix("groupwise/"): value for name, value in entry.items() if name.startswith("groupwise/")}
        for entry in made.state.log_history[:2]
    )
    assert graded["graded_groups"] == graded["groups"] == graded["hacks"] == 1.0
    assert (graded["factor_mean"], graded["factor_std"]) == (0.75, 0.25)
    assert graded["lambda_capped"] == graded["verifier_failures"] == graded["fallback_unusable"] == 0.0
    assert graded["judge_seconds"] > 0.0
    assert fell_back["fallback_unusable"] == 1.0 and fell_back["graded_groups"] == 0.0
    assert (fell_back["factor_mean"], fell_back["factor_std"]) == (0.75, 0.25), "the last that there were"
    assert set(graded) == set(fell_back)


def test_a_trainer_without_these_loggers_is_left_in_peace():
    """TRL below 1.0 gives neither log_extra nor log_metric."""
    gar = wai.GroupwiseGrading(grader=says, accept_unchecked="a judge of the tests")
    reward = gar.trl_reward(lambda completions, **_: [1.0, 1.0, 0.0, 1.0], 4)
    shaped = reward(prompts=["p"] * 4, completions=list("abcd"), completion_ids=[[1]] * 4, trainer_state=None)
    assert shaped == pytest.approx([0.5 + 0.5 * 2 / 3, 0.0, 0.0, 0.5 + 0.5 * 4 / 3])


SPEC = """
spec: 1
name: craft
kind: llm
verdict: ranking
model: judge
orders: 1
prompt: {system: groupwise/system, user: groupwise/ranking}
"""


def test_what_a_models_calls_cost_is_a_metric_of_the_call(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / ".whileai").mkdir()
    (tmp_path / "craft.yaml").write_text(SPEC, encoding="utf-8")
    priced = (
        f'{{provider = "openai", name = "m", base_url = "{server.chat_url}", prices = {{input = 1.0, output = 2.0}}}}'
    )
    (tmp_path / "whileai.toml").write_text(f"[models]\njudge = {priced}\n", encoding="utf-8")
    server.default = judge(quality)
    gar = wai.GroupwiseGrading(grader=load_grader("craft.yaml"), accept_unchecked="a judge of the tests")
    reward = gar.trl_reward(lambda completions, **_: [1.0, 1.0, 0.0, 1.0], 4)
    costs = []
    for prefix in ("first", "second", "second"):
        logged = {}
        texts = [f"{prefix} q=0.{row}" for row in range(1, 5)]
        reward(prompts=["p"] * 4, completions=texts, log_metric=logged.__setitem__)
        costs.append(logged["groupwise/judge_usd"])
        assert logged["groupwise/judge_unpriced"] == 0.0 and logged["groupwise/graded_groups"] == 1.0
    assert costs[0] > 0.0 and costs[1] > 0.0, "each call has its own"
    assert costs[2] == 0.0, "from the cache"
    assert gar.judge_cost().usd == pytest.approx(sum(costs))


FAILURES = {
    "unusable": UnusableVerdict("bad_index", "no index"),
    "timeout": GraderTimeout("timeout", "too late"),
    "deadline": DeadlineExceeded("deadline", "over"),
    "provider": TransportError("connection", "refused"),
    "raised": RuntimeError("a mistake"),
    "other": GraderFailure("hung_threads", "too many"),
}


def test_every_failure_has_its_name_and_names_are_the_same_in_every_call():
    assert set(FAILURES) == set(FALLBACKS)
    shapes = [GroupShape([1.0, 0.0], {}, failures=(failure,)) for failure in FAILURES.values()]
    metrics = Metrics()
    empty = metrics.of([], judge_seconds=0.0, verifier_failures=0)
    full = metrics.of(shapes, judge_seconds=1.0, verifier_failures=2)
    assert list(empty) == list(full)
    assert all(full[f"fallback_{kind}"] == 1.0 for kind in FALLBACKS)
    assert all(type(figure) is float for figure in full.values())
    models = GroupShape([1.0, 0.0], {}, failures=(ModelsFailed("models_failed", "no model answered"),))
    assert metrics.of([models], judge_seconds=0.0, verifier_failures=0)["fallback_provider"] == 1.0


def test_outcomes_of_ties_hacks_and_fallbacks():
    tied = GroupShape([1.0] * 4, {0: 0.75, 2: 0.75, 3: 1.0}, (1,), verdict=Verdict(((3,), (0, 2)), None, (1,), {}))
    assert [(o.rank, o.hack) for o in outcomes_of(tied, [1.0] * 4)] == [
        (2, False),
        (None, True),
        (2, False),
        (1, False),
    ]
    hunted = GroupShape([1.0, 0.0], {0: 1.0}, verdict=Verdict(None, None, (), {"reason": "all in order"}))
    assert [(o.rank, o.reason) for o in outcomes_of(hunted, [1.0, 0.0])] == [(None, "all in order")] * 2
    fell = GroupShape([1.0, 0.0], {}, failures=(FAILURES["timeout"],))
    assert [o.reason for o in outcomes_of(fell, [1.0, None])] == ["timeout: too late"] * 2
    (untouched, _) = outcomes_of(GroupShape([1.0, 0.0], {}), [1.0, 0.0])
    assert {name: getattr(untouched, name) for name in COLUMNS} == {
        "verifier_reward": 1.0,
        "factor": None,
        "rank": None,
        "hack": False,
        "reason": "",
    }
    json.dumps([outcome._asdict() for outcome in outcomes_of(tied, [1.0] * 4)])

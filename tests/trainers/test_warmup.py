"""A warm-up in training: one process with a real trainer, two processes that must switch on the same call."""

import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import whileai as wai
from whileai.checks.rows import read_rows
from whileai.core.group import groups_from_rows
from whileai.errors import ConfigError, UncheckedGraderError
from whileai.loader import load_grader

from .conftest import chance

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning:transformers")  # TRL's calls, not ours

WORKER = Path(__file__).with_name("worker_warmup.py")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("warmup")


@pytest.fixture(scope="module")
def seen(folder):
    pytest.importorskip("torch", reason="PyTorch is not installed: `make test` installs it")
    done = subprocess.run([sys.executable, str(WORKER), str(folder)], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


def test_two_ranks_grade_from_the_same_call_on(seen):
    zero, one = seen["compiled"]
    assert zero["graded"] == one["graded"] == [False] * 9 + [True] * 9
    assert zero["warming"] == one["warming"] == [1.0] * 8 + [0.0] * 10
    assert (zero["calls"], one["calls"]) == (18, 9), "the check's calls do not count, every group is graded once"
    assert all(any("warm-up: yes" in line for line in rank["log"]) for rank in (zero, one))


def test_each_rank_records_the_groups_that_it_owns(seen, folder):
    groups = [groups_from_rows(list(read_rows(str(folder / f"compiled.rank{rank}.jsonl")))) for rank in (0, 1)]
    assert [len(found) for found in groups] == [18, 9]
    assert all(sum(r["passed"] for r in group.rollouts) >= 2 for found in groups for group in found)


def test_a_grader_that_rank_0_has_a_certificate_for_grades_on_all_ranks_at_once(seen, folder):
    assert [rank["graded"] for rank in seen["again"]] == [[True] * 18] * 2
    assert list((folder / "certs0").iterdir()) and not (folder / "certs1").exists()


@pytest.mark.parametrize(("case", "why"), [("constant", "all passes have one score"), ("broken", "no key")])
def test_after_a_no_rewards_stay_plain_on_all_ranks_and_it_is_said(seen, case, why):
    for rank in seen[case]:
        assert rank["graded"] == [False] * 18
        assert rank["warming"] == [1.0] * 8 + [0.0] * 10
        (line,) = [line for line in rank["log"] if line.startswith("warm-up: no; rewards stay the verifier's own")]
        assert why in line


def test_in_a_real_trainer_the_advantages_change_on_the_call_after_the_check(trainer, tmp_path, monkeypatch):
    """Enough groups come with the first batches, the check runs inside the training, and grading begins."""
    monkeypatch.setenv("WHILEAI_CERTS", str(tmp_path / "certs"))
    (tmp_path / "by_e.yaml").write_text(
        "spec: 1\nname: by_e\nkind: rules\nrank: [{least: completion|length}, {least: completion.count('e')}]\n"
    )
    texts, plain = [], []

    def verifier(prompts, completions, **columns):
        texts.append(completions)
        plain.append([float(chance(text) < 0.6) for text in completions])
        return plain[-1]

    with pytest.raises(UncheckedGraderError):
        wai.GroupwiseGrading(grader=load_grader(tmp_path / "by_e.yaml")).trl_reward(verifier)
    gar = wai.GroupwiseGrading(grader=load_grader(tmp_path / "by_e.yaml"))
    reward = gar.trl_reward(verifier, warmup_groups=30, record=tmp_path / "rows.jsonl")
    made = trainer([reward], [{"prompt": f"task {i}"} for i in range(64)], per_device_train_batch_size=64, max_steps=6)
    made.train()

    moved = [
        max(
            abs(advantage - (r - mean_of(rewards, i)))
            for i, (advantage, r) in enumerate(zip(found, rewards, strict=True))
        )
        for found, rewards in zip(made.seen, plain, strict=True)
    ]
    graded = [difference > 1e-3 for difference in moved]
    switched = graded.index(True)
    assert 2 <= switched < 6 and graded == [False] * switched + [True] * (6 - switched)
    assert len(groups_from_rows(list(read_rows(str(tmp_path / "rows.jsonl"))))) >= 30
    logged = [entry["groupwise/warming_up"] for entry in made.state.log_history if "groupwise/warming_up" in entry]
    assert logged == [1.0] * (switched - 1) + [0.0] * (7 - switched)
    assert list((tmp_path / "certs").glob("by_e-*.json"))


def mean_of(rewards, row):
    group = rewards[row // 4 * 4 : row // 4 * 4 + 4]
    return sum(group) / 4


def test_arguments_that_contradict_each_other_are_refused(tmp_path):
    def judge(group):
        return {}

    with pytest.raises(ConfigError, match="give warmup_groups"):
        wai.GroupwiseGrading(grader=judge).trl_reward(lambda **_: [], 4, record=tmp_path / "rows.jsonl")
    accepted = wai.GroupwiseGrading(grader=judge, accept_unchecked="why not")
    with pytest.raises(ConfigError, match="accept_unchecked for not checking"):
        accepted.trl_reward(lambda **_: [], 4, warmup_groups=40)
    with pytest.raises(ConfigError, match="warmup_groups=0"):
        wai.GroupwiseGrading(grader=judge).trl_reward(lambda **_: [], 4, warmup_groups=0)


def test_a_reward_function_that_warms_up_pickles():
    reward = wai.GroupwiseGrading(grader=mean_of).trl_reward(mean_of, 4, warmup_groups=3)
    assert pickle.loads(pickle.dumps(reward)).warmup.warming


def test_an_evaluation_is_not_recorded_and_stays_plain_until_the_switch(trainer, tmp_path):
    gar = wai.GroupwiseGrading(grader=lambda group: {"ranking": [r["index"] for r in group if r["passed"]]})
    reward = gar.trl_reward(
        lambda completions, **_: [1.0, 1.0, 0.0, 0.0], judge_in_eval=True, warmup_groups=1, record=tmp_path / "r.jsonl"
    )
    rows = [{"prompt": "task"}]
    made = trainer([reward], rows, eval_rows=rows, per_device_eval_batch_size=4, max_steps=2)
    made.evaluate()
    assert not (tmp_path / "r.jsonl").exists()
    made.train()
    assert len((tmp_path / "r.jsonl").read_text().splitlines()) == 4
    made.evaluate()
    plain, graded = [0.5, 0.5, -0.5, -0.5], [2 / 3, 1 / 3, -0.5, -0.5]
    assert [pytest.approx(wanted) for wanted in (plain, plain, graded, graded)] == made.seen

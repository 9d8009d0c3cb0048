import asyncio
import contextvars
import copy
import dataclasses
import functools
import logging
import math
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
from fractions import Fraction

import numpy as np
import pytest

from whileai import GradingStats, GroupwiseGrading, Verdict
from whileai.engine import schedule
from whileai.errors import BatchError, ConfigError, SpreadError, UncheckedGraderError

SECONDS = 20
SOON = 0.05

who = contextvars.ContextVar("who", default="nobody")


def passes(group):
    return [rollout["index"] for rollout in group if rollout["passed"]]


def in_order(group):
    return {"ranking": passes(group)}


def by_length(group):
    return {"ranking": sorted(passes(group), key=lambda index: len(group[index]["completion"]))}


def constant(group):
    return {"factors": dict.fromkeys(passes(group), 1.0)}


def boom(group):
    raise RuntimeError("judge down")


def verifier(prompts, completions, **columns):
    return [1.0 if "done" in completion else 0.0 for completion in completions]


def one_group(*rewards):
    return [{"completion": f"c{i}", "reward": reward} for i, reward in enumerate(rewards)]


def batch(groups, size=4):
    """Half of each group passes."""
    rows = range(groups * size)
    return (
        [1.0 if row % size < size // 2 else 0.0 for row in rows],
        [f"p{row // size}" for row in rows],
        [f"c{row}" for row in rows],
    )


def rows(groups=4, texts=("x", "yy", "zzz")):
    return [{"scenario_id": f"s{g}", "reward": 1, "final_text": text} for g in range(groups) for text in texts]


@pytest.fixture
def said(caplog):
    caplog.set_level(logging.DEBUG, logger="whileai")

    def lines():
        found = [(record.levelname, record.getMessage()) for record in caplog.records]
        caplog.clear()
        return found

    return lines


@pytest.fixture
def release():
    event = threading.Event()
    yield event
    event.set()
    for thread in threading.enumerate():
        if thread.name == "whileai-grader":
            thread.join(SECONDS)


# -------------------------------------------------------------------- knobs


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        ("grader", None),
        ("grader", "rank_group"),
        ("grader", {"ranking": [0]}),
        ("mode", "advantages"),
        ("mode", None),
        ("mode", ["advantage"]),
        ("floor", "0"),
        ("floor", True),
        ("floor", -0.1),
        ("floor", 1.1),
        ("floor", math.nan),
        ("floor", None),
        ("cap", math.nan),
        ("cap", 0.99),
        ("cap", -math.inf),
        ("cap", "3"),
        ("cap", True),
        ("cap", None),
        ("cap", 3j),
        ("min_factor", True),
        ("min_factor", 0),
        ("min_factor", 0.0),
        ("min_factor", 1.0001),
        ("min_factor", math.nan),
        ("min_factor", [0.5]),
        ("hack_zero", 1),
        ("hack_zero", "yes"),
        ("hack_zero", None),
        ("grade_all_pass", 0),
        ("pass_threshold", math.nan),
        ("pass_threshold", math.inf),
        ("pass_threshold", "0.5"),
        ("pass_threshold", False),
        ("concurrency", 0),
        ("concurrency", -1),
        ("concurrency", 2.0),
        ("concurrency", True),
        ("concurrency", None),
        ("concurrency", "64"),
        ("hack_reward", 0.5),
        ("hack_reward", math.nan),
        ("hack_reward", -math.inf),
        ("hack_reward", True),
        ("timeout_s", 0),
        ("timeout_s", -1),
        ("timeout_s", math.nan),
        ("timeout_s", "60"),
        ("timeout_s", True),
        ("deadline_s", 0.0),
        ("deadline_s", math.nan),
        ("deadline_s", [900]),
        ("spread_min_std", -0.1),
        ("spread_min_std", math.nan),
        ("spread_band", "wide"),
        ("spread_band", -1),
        ("spread_cluster_share", 1.5),
        ("spread_cluster_share", True),
        ("accept_unchecked", ""),
        ("accept_unchecked", "  "),
        ("accept_unchecked", True),
        ("rubrics", ["look up first"]),
        ("rubrics", "look up first"),
    ],
)
def test_nonsense_is_refused_by_name(knob, value):
    knobs = {"grader": in_order, knob: value}
    if knob == "rubrics":
        knobs["mode"] = "reward"
    with pytest.raises(ConfigError) as caught:
        GroupwiseGrading(**knobs)
    assert str(caught.value).startswith(knob)
    assert isinstance(caught.value, ValueError)


def test_rubrics_in_advantage_mode_conflict():
    with pytest.raises(ConfigError, match="rubrics are read in mode='reward' only"):
        GroupwiseGrading(grader=in_order, rubrics={"a": "b"})


def test_a_grader_that_says_its_mode_must_be_run_in_it():
    def score(rollout, rubric): ...

    score.mode = "reward"
    with pytest.raises(ConfigError, match="score is written for mode='reward'"):
        GroupwiseGrading(grader=score)
    assert GroupwiseGrading(grader=score, mode="reward").mode == "reward"


@pytest.mark.parametrize(
    "knobs",
    [
        {"cap": math.inf},
        {"cap": 1},
        {"min_factor": 1},
        {"min_factor": Fraction(1, 3)},
        {"min_factor": np.float32(0.5)},
        {"concurrency": np.int64(3)},
        {"floor": np.float64(0.5), "mode": "reward"},
        {"timeout_s": None, "deadline_s": None},
        {"hack_reward": -2, "pass_threshold": -1},
        {"spread_cluster_share": 0},
        {"accept_unchecked": "a paper's baseline"},
        {"rubrics": {}, "mode": "reward"},
    ],
    ids=str,
)
def test_what_makes_sense_is_kept(knobs):
    grading = GroupwiseGrading(grader=in_order, **knobs)
    assert all(getattr(grading, name) == value for name, value in knobs.items())


def test_assignment_is_an_error():
    grading = GroupwiseGrading(grader=in_order)
    for name in ("cap", "grader", "accept_unchecked"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(grading, name, 2.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        del grading.cap


def test_it_prints_what_it_is():
    class Judge:
        def __call__(self, group): ...

    class Named:
        name = "agent_craft"

        def __call__(self, group): ...

    assert str(GroupwiseGrading(grader=Judge())).startswith("GroupwiseGrading(mode=advantage, grader=Judge, cap=3.0")
    assert "grader=agent_craft" in str(GroupwiseGrading(grader=Named()))
    assert "grader=in_order" in str(GroupwiseGrading(grader=functools.partial(in_order)))
    assert str(GroupwiseGrading(grader=Judge(), mode="reward", floor=0.5)) == (
        "GroupwiseGrading(mode=reward, grader=Judge, floor=0.5)"
    )


# ------------------------------------------------------------------ batches


def test_an_empty_batch_is_an_empty_list_and_counts_nothing():
    def no_call(*args, **kwargs):
        raise AssertionError("called")

    for mode in ("advantage", "reward"):
        grading = GroupwiseGrading(grader=no_call, mode=mode)
        assert grading.group([]) == []
        assert grading.shape([], [], [], group_size=4) == []
        assert grading.shape_groups([], [], [], group_size=1, task_id=[]) == []
        assert grading.trl_reward(lambda prompts, completions: [], num_generations=4)(prompts=[], completions=[]) == []
        assert grading.grade_rows([]) == []
        assert grading.stats.groups == grading.stats.grader_calls == 0


def test_text_prompts_that_differ_inside_a_group_are_a_wrong_group_size():
    grading = GroupwiseGrading(grader=in_order)
    with pytest.raises(BatchError, match=r"rows 2 to 3 .* prompts differ .*'q'.*'r'"):
        grading.shape([1, 0, 1, 0], ["p", "p", "q", "r"], list("abcd"), group_size=2)
    assert grading.stats.groups == 0


def test_with_environments_prompts_may_differ():
    grading = GroupwiseGrading(grader=in_order)
    shaped = grading.shape([1, 1, 0, 0], list("pqrs"), list("abcd"), group_size=4, environments=[object()] * 4)
    assert shaped == pytest.approx([7 / 6, 5 / 6, 0, 0])
    reward = grading.trl_reward(lambda prompts, completions, **columns: [1, 1, 0, 0], num_generations=4)
    assert reward(prompts=list("pqrs"), completions=list("abcd"), environments=[object()] * 4) == shaped


def test_prompts_that_are_messages_are_not_compared():
    prompts = [[{"role": "user", "content": text}] for text in "pqrs"]
    shaped = GroupwiseGrading(grader=in_order).shape([1, 1, 0, 0], prompts, list("abcd"), group_size=4)
    assert shaped == pytest.approx([7 / 6, 5 / 6, 0, 0])


@pytest.mark.parametrize("task_id", [["t"], ["t"] * 5, [], "tttt", b"tttt", "t", 7, {"t": 1}], ids=repr)
def test_a_task_id_per_row_is_wanted(task_id):
    with pytest.raises(BatchError, match="task_id"):
        GroupwiseGrading(grader=in_order).shape([1, 1, 0, 0], ["p"] * 4, list("abcd"), group_size=4, task_id=task_id)


def test_task_ids_that_differ_inside_a_group_are_a_wrong_group_size():
    messages = [[{"role": "user", "content": "p"}]] * 4
    with pytest.raises(BatchError, match="task_id differs"):
        GroupwiseGrading(grader=in_order).shape(
            [1, 1, 0, 0], messages, list("abcd"), group_size=4, task_id=["t", "t", "u", "u"]
        )


@pytest.mark.parametrize(
    ("key", "values"), [("prompt", "ppq"), ("scenario_id", "ssr"), ("task_id", [0, 0, 1]), ("group_id", "ggh")]
)
def test_rows_of_several_groups_are_not_one_group(key, values):
    given = [{"completion": "c", "reward": 1, key: value} for value in values]
    with pytest.raises(BatchError, match=f"rows 0 and 2 are not of one group: their {key} is"):
        GroupwiseGrading(grader=in_order).group(given)


def test_rows_that_share_an_id_are_one_group_whatever_their_prompts():
    given = [
        {"completion": "c", "reward": r, "scenario_id": "s", "prompt": p} for r, p in zip((1, 1, 0), "pqr", strict=True)
    ]
    assert GroupwiseGrading(grader=in_order).group(given) != [1, 1, 0]


@pytest.mark.parametrize("row", [{"completion": "c"}, {"reward": 1}, {"reward": "1", "completion": "c"}, 7], ids=str)
def test_a_row_that_cannot_be_read_is_named(row):
    with pytest.raises(BatchError, match="row 1"):
        GroupwiseGrading(grader=in_order).group([{"completion": "c", "reward": 1}, row])


def test_what_the_grader_does_to_its_group_stays_there():
    def vandal(group):
        verdict = in_order(group)
        for rollout in group:
            rollout["messages"].append("x")
            rollout["messages"][0]["content"] = "changed"
            rollout["prompt"].clear()
            rollout["ticket"]["text"] = "changed"
            rollout.clear()
        group.clear()
        return verdict

    def chat():
        return [
            {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]}
        ]

    prompts = [[{"role": "user", "content": "p"}]] * 4
    completions = [chat() for _ in range(4)]
    tickets = [{"text": "t"}] * 4
    before = copy.deepcopy((prompts, completions, tickets))
    grading = GroupwiseGrading(grader=vandal)
    shaped = grading.shape([1, 1, 0, 0], prompts, completions, group_size=4, columns={"ticket": tickets})
    assert shaped == pytest.approx([7 / 6, 5 / 6, 0, 0])
    assert (prompts, completions, tickets) == before

    kept = [
        {
            "scenario_id": "s",
            "reward": r,
            "messages": [{"role": "user", "content": "p"}, *chat()],
            "ticket": {"text": 1},
        }
        for r in (1, 1, 0)
    ]
    before = copy.deepcopy(kept)
    ((group, _),) = grading.grade_rows(kept)
    grading.group(kept)
    grading.check_spread(kept, strict=False)
    assert kept == before
    assert len(group.rollouts) == 3
    assert group.rollouts[0]["messages"] == chat()
    assert grading.stats.grader_failures == 0


# ---------------------------------------------------------------- graders


class AsyncJudge:
    async def __call__(self, group):
        await asyncio.sleep(0)
        return in_order(group)


async def later(group):
    await asyncio.sleep(0)
    return in_order(group)


@pytest.mark.parametrize(
    "grader",
    [later, AsyncJudge(), functools.partial(later), lambda group: later(group), AsyncJudge().__call__],
    ids=["function", "object", "partial", "lambda", "method"],
)
def test_async_graders_are_awaited(grader):
    expected = GroupwiseGrading(grader=in_order).shape(*batch(9), group_size=4)
    grading = GroupwiseGrading(grader=grader)
    assert grading.shape(*batch(9), group_size=4) == expected

    async def cell():  # a notebook's cell runs inside a loop
        return grading.shape(*batch(9), group_size=4)

    assert asyncio.run(cell()) == expected
    assert grading.stats.grader_failures == 0


def test_attributes_of_a_users_own_grader_mean_nothing_here():
    class Judge:
        is_async = True
        links = ("https://example.org",)
        fingerprint = "v1"

        def __call__(self, group):
            return in_order(group)

    assert GroupwiseGrading(grader=Judge()).group(one_group(1, 1, 0)) != [1, 1, 0]


async def later_verifier(prompts, completions, **columns):
    await asyncio.sleep(0)
    return verifier(prompts, completions)


class AsyncVerifier:
    async def __call__(self, prompts, completions, **columns):
        return verifier(prompts, completions)


@pytest.mark.parametrize(
    "verify",
    [later_verifier, AsyncVerifier(), functools.partial(later_verifier), lambda **given: later_verifier(**given)],
    ids=["function", "object", "partial", "lambda"],
)
def test_async_verifiers_are_awaited(verify):
    reward = GroupwiseGrading(grader=in_order).trl_reward(verify, num_generations=4)
    given = {"prompts": ["p"] * 4, "completions": ["a done", "b done", "c", "d"]}
    assert reward(**given) == [1.1666666666666665, 0.8333333333333333, 0.0, 0.0]

    async def cell():
        return reward(**given)

    assert asyncio.run(cell()) == [1.1666666666666665, 0.8333333333333333, 0.0, 0.0]


def test_what_a_verifier_raises_reaches_the_trainer_where_it_never_scored_a_row():
    async def broken(prompts, completions, **columns):
        raise LookupError("no test log")

    reward = GroupwiseGrading(grader=in_order).trl_reward(broken, num_generations=2)
    for _ in range(2):
        assert reward(prompts=["p", "p"], completions=["a", "b"]) == [0.0, 0.0]
    with pytest.raises(LookupError, match="no test log"):
        reward(prompts=["p", "p"], completions=["a", "b"])


def test_context_variables_reach_graders():
    seen = []

    def grader(group):
        seen.append(who.get())
        return in_order(group)

    async def async_grader(group):
        return grader(group)

    who.set("this run")
    for own in (grader, async_grader):
        GroupwiseGrading(grader=own).shape(*batch(3), group_size=4)
    assert seen == ["this run"] * 6


class Unprintable:
    def __repr__(self):
        raise RuntimeError("no repr")

    __str__ = __repr__


class Broken(Exception):
    def __str__(self):
        raise RuntimeError("no str")


def raises(error):
    def grader(group):
        raise error

    async def async_grader(group):
        raise error

    return [grader, async_grader]


@pytest.mark.parametrize(
    "grader",
    [
        *raises(SystemExit(1)),
        *raises(KeyboardInterrupt()),
        *raises(Broken()),
        *raises(asyncio.CancelledError()),
        lambda group: Unprintable(),
        lambda group: {"ranking": Unprintable()},
        lambda group: {"ranking": [Unprintable(), 1]},
        lambda group: {"factors": {0: Unprintable(), 1: 1.0}},
        lambda group: group,
        lambda group: RuntimeError("returned, not raised"),
        lambda group: (value for value in passes(group)),
    ],
)
def test_no_grader_breaks_a_batch(grader, said):
    grading = GroupwiseGrading(grader=grader)
    rewards, prompts, completions = batch(3)
    assert grading.shape(rewards, prompts, completions, group_size=4) == rewards
    assert grading.stats.grader_failures == grading.stats.grader_calls == 3
    assert grading.group(one_group(1, 1, 0)) == [1, 1, 0]
    assert len(said()) == 1


def test_a_grader_may_shape_groups_itself():
    inner = GroupwiseGrading(grader=by_length)

    def grader(group):
        rewards = inner.group([{**rollout, "task_id": "t"} for rollout in group])
        return {"ranking": sorted(passes(group), key=lambda index: -rewards[index])}

    outer = GroupwiseGrading(grader=grader)
    assert outer.shape(*batch(20), group_size=4) == inner.shape(*batch(20), group_size=4)
    assert outer.stats.grader_failures == 0


def test_a_grader_that_calls_itself_through_its_own_object():
    def grader(group):
        if len(group) == 4:
            gar.group(one_group(1, 1, 0))
        return in_order(group)

    gar = GroupwiseGrading(grader=grader, concurrency=1)
    assert gar.group(one_group(1, 1, 0, 0)) == pytest.approx([7 / 6, 5 / 6, 0, 0])
    assert gar.stats.grader_calls == 2


def test_an_async_grader_that_shapes_groups_hears_how_to():
    inner = GroupwiseGrading(grader=in_order)

    async def blocking(group):
        inner.group(one_group(1, 1, 0))
        return in_order(group)

    async def in_a_thread(group):
        await asyncio.to_thread(inner.group, one_group(1, 1, 0))
        return in_order(group)

    grading = GroupwiseGrading(grader=blocking)
    grading.group(one_group(1, 1, 0))
    assert "asyncio.to_thread" in grading.stats.reasons["raised"]
    grading = GroupwiseGrading(grader=in_a_thread)
    grading.group(one_group(1, 1, 0))
    assert grading.stats.grader_failures == 0


def test_a_hung_grader_costs_one_timeout_and_the_others_count(release):
    def grader(group):
        if group[0]["prompt"] == "p1":
            release.wait(SECONDS)
        return in_order(group)

    rewards, prompts, completions = batch(3)
    grading = GroupwiseGrading(grader=grader, timeout_s=SOON)
    shaped = grading.shape(rewards, prompts, completions, group_size=4)
    quick = GroupwiseGrading(grader=in_order).shape(rewards, prompts, completions, group_size=4)
    assert shaped == quick[:4] + rewards[4:8] + quick[8:]
    assert grading.stats.failures == {"timeout": 1}
    assert f"timeout_s={SOON}" in grading.stats.reasons["timeout"]


def test_a_hanging_judge_costs_one_deadline(release):
    rewards, prompts, completions = batch(5)
    grading = GroupwiseGrading(grader=lambda group: release.wait(SECONDS), deadline_s=SOON, concurrency=2)
    assert grading.shape(rewards, prompts, completions, group_size=4) == rewards
    assert grading.stats.failures == {"deadline": 5}


def test_what_a_late_grader_says_changes_no_number(release):
    ended = threading.Event()

    def grader(group):
        release.wait(SECONDS)
        ended.set()
        return in_order(group)

    grading = GroupwiseGrading(grader=grader, timeout_s=SOON)
    assert grading.group(one_group(1, 1, 0)) == [1, 1, 0]
    before = grading.stats
    release.set()
    assert ended.wait(SECONDS)
    for thread in threading.enumerate():
        if thread.name == "whileai-grader":
            thread.join(SECONDS)
    assert grading.stats == before


def test_the_whole_bound_on_hung_threads_is_a_failure_with_a_kind(release, monkeypatch):
    others = sum(thread.is_alive() for thread in schedule._hung)  # that tests before this one left behind
    monkeypatch.setattr(schedule, "MAX_HUNG_THREADS", others + 2)
    rewards, prompts, completions = batch(6)
    grading = GroupwiseGrading(grader=lambda group: release.wait(SECONDS), timeout_s=SOON, concurrency=1)
    assert grading.shape(rewards, prompts, completions, group_size=4) == rewards
    assert grading.stats.failures == {"timeout": 2, "no_thread": 4}


# ------------------------------------------------------------------- stats


def test_stats_are_exact_when_threads_shape_at_once():
    def grader(group):
        number = int(group[0]["prompt"][1:])
        if number % 7 == 0:
            raise ValueError(number)
        if number % 5 == 0:
            return {"ranking": [0], "hacks": [1]}
        return in_order(group)

    grading, start = GroupwiseGrading(grader=grader, concurrency=4), threading.Barrier(64)

    def work():
        start.wait(SECONDS)
        for _ in range(3):
            grading.shape(*batch(35), group_size=4)

    threads = [threading.Thread(target=work) for _ in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    stats, times = grading.stats, 64 * 3
    assert (stats.groups, stats.mixed, stats.grader_calls) == (35 * times,) * 3
    assert stats.grader_failures == 5 * times
    assert stats.failures == {"raised": 5 * times}
    assert stats.hacks == 6 * times  # 5, 10, 15, 20, 25, 30
    assert stats.factor_count == (24 * 2 + 6) * times
    assert stats.factor_mean == pytest.approx((24 * 1.5 + 6) / (24 * 2 + 6))


def test_a_snapshot_stays_as_it_was():
    grading = GroupwiseGrading(grader=in_order)
    grading.group(one_group(1, 1, 0))
    before, printed = grading.stats, str(grading.stats)
    grading.shape(*batch(5), group_size=4)
    assert str(before) == printed
    assert before.groups == 1
    assert grading.stats.groups == 6
    with pytest.raises(TypeError):
        before.failures["raised"] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        before.groups = 7
    assert pickle.loads(pickle.dumps(before)) == before
    assert isinstance(before, GradingStats)


def test_the_first_reason_of_each_kind_is_kept_short():
    grading = GroupwiseGrading(grader=lambda group: {"ranking": "x" * 10_000})
    grading.group(one_group(1, 1, 0))
    grading.shape(*batch(2), group_size=4)
    assert grading.stats.failures == {"bad_ranking": 3}
    assert len(grading.stats.reasons["bad_ranking"]) <= 500

    def shout(group):
        raise ValueError("line 1\nline 2\ud800" + "x" * 10_000)

    grading = GroupwiseGrading(grader=shout)
    grading.group(one_group(1, 1, 0))
    reason = grading.stats.reasons["raised"]
    assert reason.startswith("ValueError: line 1 line 2\\ud800x")
    assert len(reason) == 500
    reason.encode()


# ----------------------------------------------------------------- variants


def test_a_variant_counts_for_itself():
    grading = GroupwiseGrading(grader=in_order)
    grading.group(one_group(1, 1, 0))
    variant = dataclasses.replace(grading, min_factor=0.25)
    assert (variant.min_factor, grading.min_factor) == (0.25, 0.5)
    assert variant.stats.groups == 0
    variant.shape(*batch(4), group_size=4)
    assert (grading.stats.groups, variant.stats.groups) == (1, 4)


def test_a_variant_is_validated():
    with pytest.raises(ConfigError, match="cap"):
        dataclasses.replace(GroupwiseGrading(grader=in_order), cap=0)


def failed(**knobs):
    grading = GroupwiseGrading(grader=constant, **knobs)
    assert not grading.check_spread(rows(), strict=False).ok
    return grading


@pytest.mark.parametrize(
    "change", [{}, {"cap": 2.0}, {"concurrency": 3}, {"timeout_s": None}, {"deadline_s": 60}, {"grade_all_pass": True}]
)
def test_a_variant_of_a_grader_that_failed_its_check_stays_refused(change):
    variant = dataclasses.replace(failed(), **change)
    with pytest.raises(UncheckedGraderError):
        variant.group(one_group(1, 1, 0))


@pytest.mark.parametrize(
    "change",
    [{"grader": in_order}, {"min_factor": 0.3}, {"spread_min_std": 0.0}, {"hack_zero": False}, {"pass_threshold": 0.4}],
)
def test_a_variant_in_what_the_check_depends_on_is_unchecked(change, said):
    variant = dataclasses.replace(failed(), **change)
    said()
    variant.trl_reward(verifier, num_generations=4)
    ((level, line),) = said()
    assert level == "WARNING"
    assert "never checked" in line


def test_a_variants_check_says_nothing_about_the_original(said):
    grading = GroupwiseGrading(grader=constant)
    variant = dataclasses.replace(grading)
    assert not variant.check_spread(rows(), strict=False).ok
    assert grading.group(one_group(1, 1, 0)) == [1, 1, 0]
    with pytest.raises(UncheckedGraderError):
        variant.group(one_group(1, 1, 0))
    checked = GroupwiseGrading(grader=in_order)
    assert checked.check_spread(rows()).ok
    dataclasses.replace(checked, cap=2.0).trl_reward(verifier, num_generations=4)
    assert said() == []


def test_a_reason_in_a_variant_lets_a_refused_grader_through():
    variant = dataclasses.replace(failed(), accept_unchecked="an ablation")
    assert variant.group(one_group(1, 1, 0)) == [1, 1, 0]
    assert variant.stats.unchecked == "an ablation"
    assert str(variant.stats).endswith("; unchecked: an ablation")


def test_a_variant_keeps_written_rubrics_and_writes_its_own():
    written = []

    def write(group):
        written.append(group[0]["task_id"])
        return "rubric"

    def score(rollout, rubric):
        return {"solution": 1.0, "behavior": 1.0}

    def shape(grading, task):
        grading.shape([1, 0], ["p"] * 2, ["a", "b"], group_size=2, task_id=[task] * 2)

    grading = GroupwiseGrading(grader=score, mode="reward", rubrics=write)
    shape(grading, "a")
    variant = dataclasses.replace(grading, floor=0.5)
    shape(variant, "a")
    shape(variant, "b")
    assert written == ["a", "b"]
    shape(grading, "b")
    assert written == ["a", "b", "b"]  # the original's cache was left alone
    shape(dataclasses.replace(grading, rubrics=lambda group: write(group)), "a")
    assert written == ["a", "b", "b", "a"]


# --------------------------------------------------------------------- log


def test_an_outage_is_one_record_with_the_first_error_its_kind_and_count(said, caplog):
    grading = GroupwiseGrading(grader=boom)
    grading.shape(*batch(8), group_size=4)
    ((level, line),) = said()
    assert level == "ERROR"
    assert "all 8 grader calls" in line
    assert "first: raised: RuntimeError: judge down" in line
    assert "raised 8" in line
    grading.shape(*batch(8), group_size=4)
    assert len(said()) == 1


def test_failures_are_logged_once_per_kind(said):
    def grader(group):
        number = int(group[0]["prompt"][1:])
        if number == 0:
            raise RuntimeError("judge down")
        return {"ranking": [0]} if number == 1 else in_order(group)

    grading = GroupwiseGrading(grader=grader)
    for _ in range(3):
        grading.shape(*batch(8), group_size=4)
    lines = said()
    assert [level for level, _ in lines] == ["WARNING"] * 2
    assert "raised: RuntimeError: judge down" in lines[0][1]
    assert "missing_pass: " in lines[1][1]
    assert grading.stats.failures == {"raised": 3, "missing_pass": 3}


def test_a_good_run_says_nothing(said):
    grading = GroupwiseGrading(grader=in_order)
    grading.check_spread(rows())
    grading.trl_reward(verifier, num_generations=4)(prompts=["p"] * 4, completions=["done", "done", "c", "d"])
    assert said() == []


# ------------------------------------------------------------------- check


def test_an_unchecked_plain_callable_warns_once(said):
    grading = GroupwiseGrading(grader=in_order)
    for _ in range(3):
        grading.trl_reward(verifier, num_generations=4)
    ((level, line),) = said()
    assert level == "WARNING"
    assert "in_order was never checked" in line
    GroupwiseGrading(grader=in_order, accept_unchecked="why not").trl_reward(verifier, num_generations=4)
    assert said() == []


def test_a_failed_check_refuses_training_until_one_passes():
    grading = failed()
    for use in (
        lambda: grading.group(one_group(1, 1, 0)),
        lambda: grading.shape(*batch(1), group_size=4),
        lambda: grading.shape_groups(*batch(1), group_size=4),
        lambda: grading.trl_reward(verifier, num_generations=4),
    ):
        with pytest.raises(UncheckedGraderError, match=r"constant failed its check.*accept_unchecked"):
            use()
    assert len(grading.grade_rows(rows())) == 4  # looking is free


def test_a_check_that_passes_later_lifts_the_refusal():
    grading = GroupwiseGrading(grader=lambda group: in_order(group) if len(group) > 2 else constant(group))
    assert not grading.check_spread(rows(texts="xy"), strict=False).ok
    assert grading.check_spread(rows()).ok
    assert grading.group(one_group(1, 1, 0)) != [1, 1, 0]


def test_not_enough_data_is_an_error_and_leaves_the_last_answer():
    grading = GroupwiseGrading(grader=in_order)
    with pytest.raises(SpreadError, match="not enough data") as caught:
        grading.check_spread(rows(texts="x"))
    assert not caught.value.report.enough
    assert grading.group(one_group(1, 1, 0)) != [1, 1, 0]
    grading = failed()
    grading.check_spread([], strict=False)
    with pytest.raises(UncheckedGraderError):
        grading.group(one_group(1, 1, 0))


def test_no_spread_raises_with_the_report():
    with pytest.raises(SpreadError) as caught:
        GroupwiseGrading(grader=constant).check_spread(rows())
    report = caught.value.report
    assert (report.ok, report.enough, report.n, report.groups) == (False, True, 12, 4)
    assert str(caught.value) == str(report)
    assert "What to change" in str(report)
    assert pickle.loads(pickle.dumps(caught.value)).report == report


def test_a_grader_that_is_constant_inside_every_group_is_refused():
    def by_group(group):
        return {"factors": dict.fromkeys(passes(group), 0.1 + 0.2 * int(group[0]["scenario_id"][1:]))}

    report = GroupwiseGrading(grader=by_group).check_spread(rows(), strict=False)
    assert report.std > 0.2
    assert not report.ok
    assert "inside every group" in str(report)


def test_failed_calls_are_named_and_count_against_the_grader():
    def grader(group):
        if group[0]["scenario_id"] in ("s0", "s1"):
            raise RuntimeError("judge down")
        return in_order(group)

    few = GroupwiseGrading(grader=grader).check_spread(rows(20), strict=False)
    assert few.ok
    assert few.failures == (("raised", 2, "RuntimeError: judge down"),)
    assert "failed: 2 of 20 grader calls, raised: RuntimeError: judge down" in str(few)
    many = GroupwiseGrading(grader=grader).check_spread(rows(19), strict=False)
    assert not many.ok
    assert "2 of 19 grader calls failed" in many.problems[-1]


def test_a_grader_whose_every_call_fails_is_a_no_and_is_refused():
    grading = GroupwiseGrading(grader=boom)
    with pytest.raises(SpreadError, match="mend the calls that failed") as caught:
        grading.check_spread(rows())
    report = caught.value.report
    assert (report.ok, report.enough, report.n, report.calls, report.failed) == (False, True, 0, 4, 4)
    assert str(report).splitlines()[0] == "spread check: no scores"
    with pytest.raises(UncheckedGraderError):
        grading.trl_reward(verifier, num_generations=4)


def test_group_size_splits_a_scenarios_rows():
    seen = []

    def grader(group):
        seen.append([rollout["final_text"] for rollout in group])
        return in_order(group)

    grading = GroupwiseGrading(grader=grader, concurrency=1)
    report = grading.check_spread(rows(2, texts="abcdef"), group_size=3)
    assert seen == [["a", "b", "c"], ["d", "e", "f"]] * 2
    assert (report.groups, report.n) == (4, 12)
    for bad in (0, -1, True):
        with pytest.raises(ValueError, match="group_size"):
            grading.check_spread(rows(), group_size=bad)


def test_the_check_grades_every_group_with_two_passes_and_no_other():
    calls = []

    def grader(group):
        calls.append(group[0]["scenario_id"])
        return in_order(group)

    given = [
        {"scenario_id": name, "reward": reward, "final_text": "x" * i}
        for name, rewards in {"mixed": (1, 1, 0), "all": (1, 1), "one": (1, 0), "none": (0, 0)}.items()
        for i, reward in enumerate(rewards)
    ]
    grading = GroupwiseGrading(grader=grader)
    grading.check_spread(given)
    assert sorted(calls) == ["all", "mixed"]
    assert (grading.stats.groups, grading.stats.mixed, grading.stats.grader_calls) == (2, 1, 2)


def test_graders_that_name_no_hacks_are_not_asked_about_single_passes():
    calls = []

    def grader(group):
        calls.append(len(passes(group)))
        return in_order(group)

    grader.names_hacks = False
    GroupwiseGrading(grader=grader).shape([1, 0, 1, 1], list("ppqq"), list("abcd"), group_size=2)
    assert calls == []
    grader.names_hacks = True
    GroupwiseGrading(grader=grader).shape([1, 0, 1, 1], list("ppqq"), list("abcd"), group_size=2)
    assert calls == [1]


# ------------------------------------------------------- other processes


MODULE = """
def rank(group):
    return {"ranking": [g["index"] for g in group if g["passed"]][::-1]}

def verify(prompts, completions, **columns):
    return [1.0 if "done" in c else 0.0 for c in completions]

def write(group):
    return group[0]["prompt"]

def score(rollout, rubric):
    return {"solution": 1.0 if rubric == "first" else 0.0, "behavior": 1.0}
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A user's module, here and in other processes."""
    (tmp_path / "own_judge.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, sys.path)))
    import own_judge

    yield own_judge
    del sys.modules["own_judge"]


def elsewhere(program, given, *, timeout=60):
    done = subprocess.run(
        [sys.executable, "-c", "import pickle, sys\nit = pickle.load(sys.stdin.buffer)\n" + textwrap.dedent(program)],
        input=pickle.dumps(given),
        capture_output=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().splitlines()


def test_the_object_and_its_reward_function_work_in_another_process(own):
    grading = GroupwiseGrading(grader=own.rank, min_factor=0.25)
    grading.check_spread(rows())
    reward = grading.trl_reward(own.verify, num_generations=4)
    here = reward(prompts=["p"] * 4, completions=["a done", "b done", "c", "d"])
    program = """
        print(it(prompts=["p"] * 4, completions=["a done", "b done", "c", "d"]))
        print(it.__name__)
        print(it.shaper)
        print(it.shaper.stats)
    """
    found = elsewhere(program, reward)
    assert found[:3] == [str(here), "groupwise_rank", str(grading)]
    assert found[3].startswith("groupwise grading (advantage): 1 groups, 1 mixed, 1 grader calls")  # counts its own


def test_a_failed_check_and_written_rubrics_travel(own):
    grading = GroupwiseGrading(grader=own.score, mode="reward", rubrics=own.write)
    grading.shape([1, 0], ["first"] * 2, ["a", "b"], group_size=2, task_id=["t"] * 2)
    assert not grading.check_spread(rows(), strict=False).ok
    program = """
        import dataclasses
        from whileai.errors import UncheckedGraderError
        try:
            it.group([])
        except UncheckedGraderError:
            print("refused")
        it = dataclasses.replace(it, accept_unchecked="a look")
        print(it.shape([1, 0], ["second"] * 2, ["a", "b"], group_size=2, task_id=["t"] * 2))
    """
    assert elsewhere(program, grading) == ["refused", "[1.0, 0.0]"]


def test_deep_copies_count_for_themselves():
    grading = GroupwiseGrading(grader=in_order)
    grading.group(one_group(1, 1, 0))
    twin = copy.deepcopy(grading)
    twin.group(one_group(1, 1, 0))
    assert (grading.stats.groups, twin.stats.groups) == (1, 1)


@pytest.mark.parametrize(
    "grader",
    [
        "def grader(group):\n    begin()\n    threading.Event().wait()",
        "async def grader(group):\n    begin()\n    await asyncio.Event().wait()",
    ],
    ids=["sync", "async"],
)
def test_ctrl_c_during_training_ends_it_and_the_object_stays_usable(grader):
    program = "\n".join(
        [
            "import asyncio, threading",
            "import whileai",
            "once = threading.Lock()",
            "def begin():",
            "    if once.acquire(blocking=False): print('begun')",
            grader,
            "gar = whileai.GroupwiseGrading(grader=grader, accept_unchecked='a test')",
            "reward = gar.trl_reward(lambda prompts, completions: [1.0, 1.0, 0.0, 0.0] * 8, num_generations=4)",
            "try:",
            "    reward(prompts=['p'] * 32, completions=['c'] * 32)",
            "except KeyboardInterrupt:",
            "    print('interrupted', gar.stats.groups)",
        ]
    )
    child = subprocess.Popen(
        [sys.executable, "-u", "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout.readline() == "begun\n"
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=SECONDS)
    finally:
        child.kill()
    assert (child.returncode, out, err) == (0, "interrupted 0\n", "")


def test_verdict_objects_are_verdicts():
    grading = GroupwiseGrading(grader=lambda group: Verdict(ranking=((1,), (0,))))
    assert grading.group(one_group(1, 1, 0, 0)) == pytest.approx([5 / 6, 7 / 6, 0, 0])

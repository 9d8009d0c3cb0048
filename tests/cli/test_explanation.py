"""Every step of an explanation is the step that training takes."""

import dataclasses
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import whileai as wai
from whileai.checks.rows import read_rows
from whileai.cli.explanation import choose_group, explain_group, group_names
from whileai.core.group import groups_from_rows
from whileai.errors import BatchError
from whileai.spec.library import library_folder

ROWS = read_rows(library_folder("graders") / "rank_group.rows.jsonl")


def by_length(group):
    """Ties, a hack where a text is empty, and now and then nothing usable."""
    passes = [g for g in group if g["passed"]]
    if any("boom" in g["completion"] for g in passes):
        raise RuntimeError("boom")
    hacks = [g["index"] for g in passes if not g["completion"]]
    sizes = sorted({len(g["completion"]) for g in passes if g["completion"]})
    tiers = [[g["index"] for g in passes if len(g["completion"]) == size] for size in sizes]
    return {"ranking": [tier for tier in tiers if tier], "hacks": hacks}


def by_factor(group):
    return {"factors": {g["index"]: 0.05 + 0.1 * g["index"] for g in group if g["passed"]}}


def score(rollout, rubric):
    if rollout["completion"] == "boom":
        raise RuntimeError("boom")
    return {"solution": 1.0, "behavior": 1 / (1 + len(rollout["completion"]))}


GRADINGS = [
    wai.GroupwiseGrading(grader=by_length),
    wai.GroupwiseGrading(grader=by_length, hack_zero=False, min_factor=0.2),
    wai.GroupwiseGrading(grader=by_length, grade_all_pass=True, hack_reward=-2.0),
    wai.GroupwiseGrading(grader=by_factor, cap=1.5),
    wai.GroupwiseGrading(grader=score, mode="reward", floor=0.25),
]


def shapes_agree(grading, rows):
    for group, shape in dataclasses.replace(grading).grade_rows(rows):
        explained = explain_group(grading, group)
        assert explained.shape.rewards == pytest.approx(shape.rewards, abs=1e-12)
        assert explained.shape.factors == shape.factors
        assert explained.shape.hacks == shape.hacks
        assert sum(explained.after) == pytest.approx(0, abs=1e-9)
        assert sum(explained.before) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("grading", GRADINGS, ids=lambda grading: str(grading)[17:80])
def test_the_shipped_groups_are_shaped_as_training_shapes_them(grading):
    shapes_agree(grading, ROWS)


ROLLOUT = st.tuples(
    st.sampled_from(["", "a", "b", "cc", "ddd", "boom"]),
    st.one_of(st.none(), st.sampled_from([0.0, 1.0, -1.0, 0.5, 0.75])),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(ROLLOUT, min_size=1, max_size=6), st.sampled_from(GRADINGS))
def test_any_group_is_shaped_as_training_shapes_it(rollouts, grading):
    shapes_agree(grading, [{"group_id": "g", "completion": text, "reward": reward} for text, reward in rollouts])


def test_lambda_is_what_it_is_said_to_be():
    group = groups_from_rows(
        [{"group_id": "g", "completion": t, "reward": r} for t, r in [("a", 1), ("bb", 1), ("", 0)]]
    )
    explained = explain_group(wai.GroupwiseGrading(grader=by_length), group[0])
    mass = sum(a for i, a in enumerate(explained.reset) if i in explained.shape.factors)
    held = sum(f * explained.reset[i] for i, f in explained.shape.factors.items())
    assert explained.shape.moved == pytest.approx(mass / held) == pytest.approx(4 / 3)


def test_lambda_is_the_same_where_groups_are_shaped_together():
    grading = wai.GroupwiseGrading(grader=by_factor)
    for group, shape in grading.grade_rows(ROWS):
        assert shape.moved == pytest.approx(explain_group(grading, group).shape.moved)
        assert math.isfinite(shape.moved)


def test_what_a_grader_changes_in_its_group_is_not_shown():
    def greedy(group):
        for rollout in group:
            rollout["completion"] = "changed"
        return {"hacks": []}

    (group,) = groups_from_rows([{"group_id": "g", "completion": "a", "reward": r} for r in (1, 0)])
    explain_group(wai.GroupwiseGrading(grader=greedy), group)
    assert [rollout["completion"] for rollout in group.rollouts] == ["a", "a"]


def named(*keys):
    return groups_from_rows([{"group_id": key, "completion": "x", "reward": 1} for key in keys])


@pytest.mark.parametrize(("wanted", "key"), [("b", "b"), ("ab", "abc"), ("7", "7")])
def test_a_group_is_meant_by_its_name_or_how_it_begins(wanted, key):
    assert choose_group(group_names(named("abc", "b", "bc", 7)), wanted) == key


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("a", "2 groups begin so, such as abc and abd"),
        ("bca", "did you mean 'bc'"),
        ("zzz", "none of the 3 groups is called so"),
    ],
)
def test_a_group_that_is_not_meant_clearly_is_refused_with_the_names(wanted, said):
    with pytest.raises(BatchError, match=said):
        choose_group(group_names(named("abc", "abd", "bc")), wanted)


def test_rows_of_one_task_that_make_several_groups_are_numbered():
    rows = [{"group_id": "g", "completion": "x", "reward": 1} for _ in range(5)]
    assert list(group_names(groups_from_rows(rows, group_size=2))) == ["g#1", "g#2", "g#3"]


def test_by_default_a_group_is_chosen_where_something_moves():
    rows = {"all": [1, 1], "one": [1, 0], "two": [1, 1, 0], "later": [1, 1, 0]}
    groups = groups_from_rows(
        [{"group_id": key, "completion": "x", "reward": r} for key, rewards in rows.items() for r in rewards]
    )
    assert choose_group(group_names(groups), None) == "two"

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from whileai.checks.orders import in_order, two_orders


def group_of(texts, failures=1):
    texts = [*texts, *(f"failure {n}" for n in range(failures))]
    last = len(texts) - failures
    return [
        {
            "index": index,
            "completion": text,
            "passed": index < last,
            "messages": [{"role": "assistant", "content": text}],
        }
        for index, text in enumerate(texts)
    ]


def read(group, order):
    return [group[index]["completion"] for index in order if group[index]["passed"]]


@given(st.lists(st.sampled_from(["a", "b", "c", "\ud800"]), min_size=2, max_size=6), st.integers(0, 3))
def test_both_are_permutations_that_read_differently_if_they_can(texts, failures):
    group = group_of(texts, failures)
    first, second = two_orders(group)
    assert sorted(first) == sorted(second) == list(range(len(group)))
    assert (read(group, first) != read(group, second)) == (len(set(texts)) > 1)
    assert two_orders(group) == (first, second)


def test_two_passes_are_swapped_and_stand_anywhere_among_the_failures():
    seen = Counter()
    for number in range(200):
        group = group_of([f"a{number}", f"b{number}"], failures=2)
        first, second = two_orders(group)
        assert read(group, first) == read(group, second)[::-1]
        seen[first.index(0)] += 1
    assert set(seen) == {0, 1, 2, 3}
    assert min(seen.values()) > 30


def test_shown_rollouts_are_renumbered_copies():
    group = group_of(["a", "b"])
    shown = in_order(group, (2, 0, 1))
    assert [r["index"] for r in shown] == [0, 1, 2]
    assert [r["completion"] for r in shown] == ["failure 0", "a", "b"]
    shown[1]["messages"][0]["content"] = "changed"
    shown[1]["mark"] = 1
    assert group == group_of(["a", "b"])

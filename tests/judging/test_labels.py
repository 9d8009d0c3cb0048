import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whileai.judging.labels import combine_factors, combine_hacks, combine_rankings, labels, presentation_orders


def test_labels_go_on_after_z():
    assert labels(3) == ("A", "B", "C")
    assert labels(29)[-4:] == ("Z", "AA", "AB", "AC")
    assert labels(703)[-2:] == ("ZZ", "AAA")


@given(st.integers(1, 12), st.integers(1, 12), st.text(max_size=5))
def test_orders_are_different_permutations_and_always_the_same_ones(count: int, wanted: int, seed: str):
    orders = presentation_orders(count, wanted, seed)
    assert orders == presentation_orders(count, wanted, seed)
    assert all(sorted(order) == list(range(count)) for order in orders)
    assert len(set(orders)) == len(orders) == min(wanted, {1: 1, 2: 2, 3: 6}.get(count, 24))


def test_two_candidates_are_swapped_in_the_second_order():
    for seed in "abc":
        first, second = presentation_orders(2, 2, seed)
        assert first == second[::-1]


def test_the_second_of_two_orders_is_not_the_first_reversed():
    reversed_ones = sum(
        first == second[::-1] for first, second in (presentation_orders(4, 2, str(seed)) for seed in range(300))
    )
    assert reversed_ones < 40  # by chance one in 23


def test_one_order_puts_every_candidate_everywhere_over_the_seeds():
    first_shown = Counter(presentation_orders(4, 1, str(seed))[0][0] for seed in range(800))
    assert all(140 < first_shown[item] < 260 for item in range(4))


@pytest.mark.parametrize("count", [4, 6, 8])
def test_the_rows_of_a_square_balance_places_and_neighbours(count: int):
    orders = presentation_orders(count, count, "seed")
    assert {Counter(order[place] for order in orders)[0] for place in range(count)} == {1}
    neighbours = Counter(pair for order in orders for pair in itertools.pairwise(order))
    assert set(neighbours.values()) == {1} and len(neighbours) == count * (count - 1)


@pytest.mark.parametrize("count", [3, 5])
def test_an_odd_number_is_balanced_in_two_squares(count: int):
    orders = presentation_orders(count, 2 * count, "seed")
    neighbours = Counter(pair for order in orders for pair in itertools.pairwise(order))
    assert set(neighbours.values()) == {2} and len(neighbours) == count * (count - 1)
    assert sorted(order[0] for order in orders[:count]) == list(range(count))


def test_opposite_votes_tie():
    assert combine_rankings([[[0], [1], [2]], [[2], [1], [0]]]) == [[0, 1, 2]]


def test_ranks_are_combined_by_their_mean_with_ties_at_mid_rank():
    assert combine_rankings([[[3], [1, 2]], [[3], [2], [1]], [[1], [3], [2]]]) == [[3], [1], [2]]


@given(st.permutations([0, 1, 2, 3]), st.integers(1, 5))
def test_votes_that_agree_are_the_verdict(order: list[int], votes: int):
    ranking = [[item] for item in order]
    assert combine_rankings([ranking] * votes) == ranking


def test_factors_are_averaged():
    assert combine_factors([{0: 1.0, 4: 0.5}, {0: 0.5, 4: 0.25}]) == {0: 0.75, 4: 0.375}


@pytest.mark.parametrize(
    ("votes", "hacks"), [([[1], []], []), ([[1], [1]], [1]), ([[1, 2], [2], []], [2]), ([[3, 3], []], [])]
)
def test_a_hack_needs_more_than_half_of_the_votes(votes: list[list[int]], hacks: list[int]):
    assert combine_hacks(votes) == hacks

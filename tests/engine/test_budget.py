from __future__ import annotations

import logging

import pytest

from whileai.engine.budget import Budget
from whileai.errors import BudgetExceeded, ConfigError


@pytest.fixture(autouse=True)
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.delenv("RANK", raising=False)


def spend(budget: Budget, estimate: float | None = None, most: int = 100) -> int:
    for count in range(most):
        try:
            budget.reserve(estimate)
        except BudgetExceeded:
            return count
    return most


def test_calls_are_counted_to_the_last(caplog: pytest.LogCaptureFixture) -> None:
    budget = Budget(calls=7)
    with caplog.at_level(logging.ERROR):
        assert spend(budget) == 7
        assert spend(budget) == 0
    with pytest.raises(BudgetExceeded, match=r"budget of 7 calls is spent \(7 calls, all sent\).*`budget:`") as spent:
        budget.reserve(None)
    assert spent.value.kind == "budget"
    assert len(caplog.records) == 1


@pytest.mark.parametrize("world", [1, 2, 3, 8])
def test_the_shares_of_all_processes_are_the_whole(world: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", str(world))
    shares = []
    for rank in range(world):
        monkeypatch.setenv("RANK", str(rank))
        shares.append(spend(Budget(calls=19)))
    assert sum(shares) == 19
    assert max(shares) - min(shares) <= 1


def test_requests_under_way_count_with_their_estimate() -> None:
    budget = Budget(usd=1.0)
    assert spend(budget, estimate=0.3) == 3
    budget.settle(0.3, 0.1)
    budget.settle(0.3, 0.1)
    assert spend(budget, estimate=0.3) == 1
    assert budget.spent_usd == pytest.approx(0.2)


def test_a_request_of_which_nobody_knows_the_cost_counts_with_its_estimate() -> None:
    budget = Budget(usd=1.0)
    for _ in range(3):
        budget.reserve(0.3)
        budget.settle(0.3, None)
    assert budget.spent_usd == pytest.approx(0.9)
    assert spend(budget, estimate=0.3) == 0


def test_dollars_are_shared_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    budget = Budget(usd=1.0)
    assert spend(budget, estimate=0.1) == 2
    with pytest.raises(BudgetExceeded, match="share of 1 of 4 processes"):
        budget.reserve(0.1)


def test_no_budget_is_no_limit() -> None:
    assert spend(Budget(), estimate=1e9) == 100


@pytest.mark.parametrize(("variable", "value"), [("WORLD_SIZE", "many"), ("WORLD_SIZE", "0"), ("RANK", "-1")])
def test_a_wrong_number_of_processes_is_named(variable: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigError, match=f"{variable}='{value}'"):
        Budget(calls=1).reserve(None)

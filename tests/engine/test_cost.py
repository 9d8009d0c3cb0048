from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whileai.engine.cost import Cost, estimate_usd, pricing_of
from whileai.errors import ConfigError
from whileai.providers import ChatRequest, Usage
from whileai.spec.roles import ResolvedRole

PRICES = {"input": 2.0, "output": 10.0, "cached": 0.5, "cache_written": 3.0}
LOCAL = "http://127.0.0.1:8000/v1"


def price(usage: Usage, prices: dict[str, Any] = PRICES) -> float | None:
    pricing = pricing_of(ResolvedRole("openai", "m", base_url=LOCAL, prices=prices))
    assert pricing is not None
    return pricing(usage)


def test_every_kind_of_token_has_its_price() -> None:
    assert price(Usage(1_000_000, 100_000, cached=400_000, cache_written=100_000)) == pytest.approx(
        0.5 * 2.0 + 0.4 * 0.5 + 0.1 * 3.0 + 0.1 * 10.0
    )


def test_cached_tokens_cost_what_input_costs_unless_said() -> None:
    assert price(Usage(1_000_000, 0, cached=400_000), {"input": 2.0, "output": 10.0}) == pytest.approx(2.0)


@pytest.mark.parametrize("usage", [Usage(), Usage(input=3), Usage(output=3)])
def test_tokens_that_are_not_told_have_no_price(usage: Usage) -> None:
    assert price(usage) is None


tokens = st.one_of(st.none(), st.integers(0, 10**7))


@given(st.builds(Usage, st.integers(0, 10**7), st.integers(0, 10**7), tokens, tokens, tokens))
def test_a_price_is_never_below_zero_nor_above_the_dearest_rate(usage: Usage) -> None:
    usd = price(usage)
    assert usd is not None
    assert 0 <= usd <= ((usage.input or 0) * 3.0 + (usage.output or 0) * 10.0) / 1e6 + 1e-9


@pytest.mark.parametrize(
    ("prices", "message"),
    [
        ({"input": 1.0}, "lack output"),
        ({"input": 1.0, "output": -1.0}, "price 'output' of openai:m is -1.0"),
        ({"input": 1.0, "output": float("nan")}, "price 'output'"),
        ({"input": 1.0, "output": True}, "price 'output'"),
        ({"input": 1.0, "output": 1.0, "reasoning": 1.0}, "hold 'reasoning'; they may hold input, output"),
    ],
)
def test_prices_that_are_none(prices: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        price(Usage(1, 1), prices)


def test_a_recording_is_free() -> None:
    pricing = pricing_of(ResolvedRole("recorded", "x.jsonl"))
    assert pricing is not None
    assert pricing(Usage()) == 0.0


def test_the_package_knows_the_vendors_models_and_counts_cached_tokens() -> None:
    pytest.importorskip("genai_prices", reason="genai-prices is not installed: `make test` installs it")
    pricing = pricing_of(ResolvedRole("openai", "gpt-4o"))
    assert pricing is not None
    whole, partly_cached = pricing(Usage(1000, 100)), pricing(Usage(1000, 100, cached=500))
    assert whole is not None
    assert partly_cached is not None
    assert 0 < partly_cached < whole
    assert pricing(Usage(100, 1, cached=500)) is None  # counts that contradict each other


@pytest.mark.parametrize(
    "role",
    [
        ResolvedRole("openai", "gpt-4o", base_url=LOCAL),  # the name of a vendor's model, on someone's own machine
        ResolvedRole("openai", "no-such-model-7"),
        ResolvedRole("no_such_provider", "m"),
    ],
)
def test_what_nobody_knows_is_unknown(role: ResolvedRole) -> None:
    assert pricing_of(role) is None


def test_without_the_package_a_price_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    assert pricing_of(ResolvedRole("openai", "gpt-4o")) is None


def test_unknown_is_not_zero_in_sums() -> None:
    total = Cost.of(0.25) + Cost.of(None) + Cost.of(0.0)
    assert total == Cost(0.25, 1)
    assert str(total) == "$0.2500 and 1 requests of unknown price"
    assert str(Cost.of(None)) == "1 requests of unknown price"
    assert str(Cost()) == "$0.0000"


def test_an_estimate_takes_the_cap_as_the_reply() -> None:
    request = ChatRequest("x" * 4000, (("user", "y" * 4000),))
    pricing = pricing_of(ResolvedRole("openai", "m", prices={"input": 1.0, "output": 1.0}))
    assert pricing is not None
    assert estimate_usd(request, pricing, 1000) == pytest.approx(3000 / 1e6)

"""What a reply cost. A price that nobody knows is unknown, never 0."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from whileai.errors import ConfigError
from whileai.providers.keys import OWN_URLS
from whileai.providers.protocol import ChatRequest, Usage
from whileai.spec.roles import ResolvedRole

Pricing = Callable[[Usage], float | None]
"""US dollars of a reply with this usage; None if they cannot be known."""

PRICE_KEYS = ("input", "output", "cached", "cache_written")
"""What a role's `prices` may hold, in US dollars per million tokens. `cached` and `cache_written` default to
`input`."""

CHARACTERS_PER_TOKEN = 4.0
"""For estimates before a request is sent; English text has about four."""

UNCAPPED_REPLY_TOKENS = 4096
"""Assumed in estimates for a reply without a cap (convention)."""


@dataclass(frozen=True, slots=True)
class Cost:
    """US dollars, and the number of requests whose price is unknown and is not in them."""

    usd: float = 0.0
    unknown: int = 0

    @classmethod
    def of(cls, usd: float | None) -> Cost:
        """The cost of one request."""
        return cls(unknown=1) if usd is None else cls(usd)

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.usd + other.usd, self.unknown + other.unknown)

    def __str__(self) -> str:
        if not self.unknown:
            return f"${self.usd:.4f}"
        known = f"${self.usd:.4f} and " if self.usd else ""
        return f"{known}{self.unknown} requests of unknown price"


def pricing_of(role: ResolvedRole) -> Pricing | None:
    """How this role's replies are priced: by its own prices, else by the `genai-prices` package where installed.

    Returns:
        None when the price is unknown.

    Raises:
        ConfigError: prices that are no prices.
    """
    if role.provider == "recorded":
        return lambda usage: 0.0
    if role.prices:
        return _by_table(role, role.prices)
    return _by_package(role)


def estimate_usd(request: ChatRequest, pricing: Pricing, max_tokens: int | None) -> float | None:
    """About what a request will cost at most, before it is sent."""
    characters = len(request.system) + sum(len(text) for _, text in request.turns)
    tokens = max_tokens or UNCAPPED_REPLY_TOKENS
    return pricing(Usage(input=int(characters / CHARACTERS_PER_TOKEN), output=tokens))


def _by_table(role: ResolvedRole, prices: Mapping[str, float]) -> Pricing:
    name = f"{role.provider}:{role.name}"
    for key, value in prices.items():
        if key not in PRICE_KEYS:
            raise ConfigError(f"prices of {name} hold {key!r}; they may hold {', '.join(PRICE_KEYS)}")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
            raise ConfigError(f"price {key!r} of {name} is {value!r}; US dollars per million tokens, 0 or more")
    if missing := {"input", "output"} - set(prices):
        raise ConfigError(f"prices of {name} lack {' and '.join(sorted(missing))}")
    fresh, output = prices["input"], prices["output"]
    cached, written = prices.get("cached", fresh), prices.get("cache_written", fresh)

    def price(usage: Usage) -> float | None:
        if usage.input is None or usage.output is None:
            return None
        from_cache = min(usage.cached or 0, usage.input)
        to_cache = min(usage.cache_written or 0, usage.input - from_cache)
        plain = usage.input - from_cache - to_cache
        return (plain * fresh + from_cache * cached + to_cache * written + usage.output * output) / 1e6

    return price


def _by_package(role: ResolvedRole) -> Pricing | None:
    try:
        import genai_prices  # an extra: whileai-graders[prices]
    except ImportError:
        return None
    url = role.base_url or OWN_URLS.get(role.provider)
    where: dict[str, Any] = {"provider_api_url": url} if url else {"provider_id": role.provider}

    def price(usage: Usage) -> float | None:
        if usage.input is None or usage.output is None:
            return None
        tokens = genai_prices.Usage(
            input_tokens=usage.input,
            output_tokens=usage.output,
            cache_read_tokens=usage.cached,
            cache_write_tokens=usage.cache_written,
        )
        try:
            return float(genai_prices.calc_price(tokens, role.name, **where).total_price)
        except (LookupError, ValueError):  # no such model, or token counts that contradict each other
            return None

    return price if price(Usage(input=1, output=1)) is not None else None

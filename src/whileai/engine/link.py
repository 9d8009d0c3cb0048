"""One model of a judge's list: its provider, its price, and its share of the budget."""

from __future__ import annotations

from dataclasses import replace

from whileai.engine.budget import Budget
from whileai.engine.cost import Cost, estimate_usd, pricing_of
from whileai.errors import ConfigError
from whileai.providers import make_provider
from whileai.providers.protocol import ChatRequest, Usage
from whileai.spec.roles import ResolvedRole


class Link:
    """A resolved role, ready to be asked.

    Raises:
        ConfigError: the role's provider, parameters, key variable or prices cannot work, or a budget in US dollars
            has no price to count with.
    """

    def __init__(self, role: ResolvedRole, *, request_s: float, budget: Budget) -> None:
        self.role = role
        self.label = f"{role.role}={role}" if role.role else str(role)
        try:
            self.provider = make_provider(role)
            self._pricing = pricing_of(role)
        except ConfigError as error:
            raise ConfigError(f"{self.label} ({role.origin}): {error}" if role.origin else str(error)) from None
        self.request_s = request_s
        self._budget = budget
        if budget.usd is not None and self._pricing is None:
            raise ConfigError(
                f"a budget in US dollars cannot be kept: the price of {self.label} is unknown. Give its role prices "
                "(prices = {input = 1.0, output = 4.0}, US dollars per million tokens), or budget calls only"
            )

    @property
    def endpoint(self) -> str:
        """What shares one limit: the provider and where it calls."""
        return f"{self.role.provider} at {self.role.base_url or 'its own host'}"

    def request(self, question: ChatRequest) -> ChatRequest:
        """The question with this role's cap and parameters."""
        params = dict(self.role.params)
        return replace(question, max_tokens=params.pop("max_tokens", None), params=params)

    def price(self, usage: Usage) -> float | None:
        """US dollars of a reply; None if unknown."""
        return None if self._pricing is None else self._pricing(usage)

    def reserve(self, request: ChatRequest) -> float | None:
        """Take a request out of the budget; returns its estimated cost, for `settle`.

        Raises:
            BudgetExceeded: it would go beyond.
        """
        estimate = self._estimate(request) if self._budget.usd is not None else None
        self._budget.reserve(estimate)
        return estimate

    def estimate_usd(self, question: ChatRequest) -> float | None:
        """US dollars of a question, about; None if its price is unknown."""
        return self._estimate(self.request(question))

    def _estimate(self, request: ChatRequest) -> float | None:
        if self._pricing is None:
            return None
        return estimate_usd(request, self._pricing, request.max_tokens or self.provider.default_max_tokens)

    def settle(self, estimate: float | None, cost: Cost, refused: int) -> None:
        """The request is over, after `refused` other forms of it."""
        self._budget.settle(estimate, None if cost.unknown else cost.usd, refused)

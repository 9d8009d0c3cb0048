"""When a request is sent again, and what is sent then. The only layer that retries.

| what happened | what is sent | how often |
|---|---|---|
| no answer, 408, 409, 5xx, a broken body | the same, after Retry-After or a jittered backoff | up to `attempts` |
| 429 | the same, as above; it says "later", so it is no failed attempt | up to 3 x `attempts` |
| a reply that cannot be used | at once, with the reply and what is wrong with it | up to `repairs` |
| a reply that its token cap cut | at once, with the cap doubled | once |
| a refusal, any other 4xx | nothing | |

Nothing is waited for that the deadline does not allow.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception
from tenacity.stop import stop_base
from tenacity.wait import wait_exception

from whileai.engine.deadline import Deadline
from whileai.errors import TransportError, UnusableVerdict
from whileai.providers.protocol import ChatReply, ChatRequest
from whileai.simulations import defaults

FIRST_BACKOFF_S = 0.5
LONGEST_BACKOFF_S = 30.0

NEVER_REPAIRED = frozenset({"refusal", "content_filter", "context_length"})
"""Kinds of unusable replies that the same request gives again."""

TRUNCATED = "truncated"

_QUOTED_CHARACTERS = 8000


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often one model is asked for one reply.

    Args:
        attempts: requests at most, as long as no reply arrives.
        repairs: replies at most that are sent back with what is wrong with them.
    """

    attempts: int = defaults.RETRY_ATTEMPTS
    repairs: int = defaults.RETRY_REPAIRS

    @property
    def rate_limited(self) -> int:
        """Answers of 429 after which the model is given up."""
        return 3 * self.attempts


class Conversation:
    """The requests for one reply of one model: `request` is the one to send next."""

    def __init__(self, request: ChatRequest, policy: RetryPolicy, *, default_max_tokens: int | None = None) -> None:
        self.request = request
        self.why = "first"
        self._asked = request
        self._policy = policy
        self._default_cap = default_max_tokens
        self._reply: ChatReply | None = None
        self._failures = 0
        self._rate_limited = 0
        self._repairs = 0
        self._doubled = False

    def heard(self, reply: ChatReply) -> None:
        """Keep the reply that is about to be read, to send it back if it cannot be used."""
        self._reply = reply

    def goes_on(self, error: BaseException) -> bool:
        """Whether there is another request after this error; `request` and `why` are then set for it."""
        if isinstance(error, TransportError):
            self.why = "again"
            if error.kind == "rate_limited":
                self._rate_limited += 1
                return self._rate_limited < self._policy.rate_limited
            self._failures += 1
            return self._failures < self._policy.attempts and error.kind != "resting"
        if not isinstance(error, UnusableVerdict) or error.kind in NEVER_REPAIRED:
            return False
        if error.kind == TRUNCATED:
            return self._double_the_cap()
        return self._repair(error)

    def wait_s(self, error: BaseException) -> float:
        """Seconds to wait before the next request."""
        if not isinstance(error, TransportError):
            return 0.0
        if error.retry_after is not None:
            return error.retry_after * random.uniform(1.0, 1.1)  # never early, and not all in the same moment
        tries = self._failures + self._rate_limited - 1
        return min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2.0**tries) * random.uniform(0.5, 1.0)

    def _double_the_cap(self) -> bool:
        cap = self.request.max_tokens or self._default_cap
        if self._doubled or cap is None:
            return False
        self._doubled, self.why = True, "longer"
        self.request = replace(self.request, max_tokens=2 * cap)
        return True

    def _repair(self, error: UnusableVerdict) -> bool:
        if self._repairs >= self._policy.repairs:
            return False
        self._repairs += 1
        self.why = "repair"
        said = self._reply.text.strip() if self._reply is not None else ""
        note = f"Your reply cannot be used: {error.reason}\nReply again, with the corrected JSON object alone."
        *before, (speaker, last) = self._asked.turns
        if said:
            turns = (*self._asked.turns, ("assistant", said[:_QUOTED_CHARACTERS]), ("user", note))
        else:  # an empty turn is refused by some endpoints, and so are two user turns in a row
            turns = (*before, (speaker, f"{last}\n\n{note}"))
        self.request = replace(self.request, turns=turns)
        return True


def retrying(conversation: Conversation, deadline: Deadline) -> AsyncRetrying:
    """The loop over one conversation; the last error is raised as it is."""
    return AsyncRetrying(
        retry=retry_if_exception(conversation.goes_on),
        wait=wait_exception(conversation.wait_s),
        stop=_StopBeforeDeadline(deadline.remaining),
        sleep=deadline.clock.sleep,
        reraise=True,
    )


class _StopBeforeDeadline(stop_base):
    def __init__(self, remaining: Callable[[], float]) -> None:
        self._remaining = remaining

    def __call__(self, retry_state: RetryCallState) -> bool:
        return retry_state.upcoming_sleep >= self._remaining()

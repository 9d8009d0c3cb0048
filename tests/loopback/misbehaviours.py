"""Every way in which an endpoint or a judge goes wrong, what must come of it, and how many requests it may take.

`CASES` is the table; `run_case` plays one of them: the real SDK against the loopback server, the real reader of
replies, one model, the default policy (4 attempts, 2 repairs). The outcome is one of

    read          the first reply was used as it came
    stepped down  ... after asking without what the endpoint does not know
    retried       ... after asking again
    repaired      ... after sending a reply back with what was wrong with it
    lengthened    ... after asking with a larger cap
    failed: KIND  the model gave no usable reply: the next one is asked, then the group keeps its rewards
"""

from __future__ import annotations

import email.utils
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from loopback.clock import SkippingClock
from loopback.server import Answer, Behaviour, LoopbackServer, answers, fails, knows_only, rate_limited, says
from whileai.engine.calls import ModelCaller
from whileai.errors import ModelsFailed
from whileai.judging.labels import labels
from whileai.judging.reply import read_object
from whileai.judging.schemas import reply_schema, validator
from whileai.providers import ChatRequest
from whileai.spec.roles import ResolvedRole

RANKING = {"A": 2, "B": 1, "C": 3}
GOOD = json.dumps({"rationale": "B does the least.", "ranking": RANKING})
DRAFT = json.dumps({"rationale": "a first thought", "ranking": {"A": 1, "B": 1, "C": 1}})
SCHEMA = reply_schema(
    {
        "type": "object",
        "properties": {
            "rationale": {"type": "string"},
            "ranking": {
                "type": "object",
                "propertyNames": {"$ref": "#/$defs/label"},
                "additionalProperties": {"$ref": "#/$defs/rank"},
            },
        },
        "required": ["rationale", "ranking"],
        "additionalProperties": False,
        "$defs": {"label": {"type": "string"}, "rank": {"type": "integer", "minimum": 1}},
    },
    3,
)
_VALIDATOR = validator(SCHEMA)

SILENCE = answers(Answer(manner="never"))

Wire = Literal["chat", "messages"]
BOTH: tuple[Wire, ...] = ("chat", "messages")


def read(text: str) -> dict[str, int]:
    """The ranking in a reply, by the reader that judges use."""
    ranking: dict[str, int] = read_object(text, _VALIDATOR, labels(3))["ranking"]
    return ranking


@dataclass(frozen=True)
class Case:
    """One misbehaviour.

    `script` is answered in order and then `then` for ever (a good reply, unless it says otherwise); `waited` bounds
    the seconds slept in all; `seconds` is the time limit of a request, short where an answer never comes.
    """

    name: str
    script: tuple[Behaviour, ...]
    outcome: str
    requests: int
    then: Behaviour | None = None
    wires: tuple[Wire, ...] = BOTH
    params: dict[str, Any] = field(default_factory=dict)
    waited: tuple[float, float] = (0.0, 240.0)
    seconds: float = 20.0


def always(behaviour: Behaviour) -> dict[str, Any]:
    return {"script": (), "then": behaviour}


def http_date_in(seconds: float) -> Behaviour:
    """429 with Retry-After as a date, made when it is answered."""
    return lambda request: rate_limited(email.utils.formatdate(time.time() + seconds, usegmt=True))(request)


def unsupported(name: str) -> Behaviour:
    return fails(400, f"Unsupported parameter: '{name}'", type="invalid_request_error", param=name)


def reply_cases() -> Iterator[Case]:
    """Every reply fault of the facts: what it says, and whether the reader takes it as it is."""
    ranked = json.dumps(RANKING)
    readable = {
        "JSON in a fence": f"```json\n{GOOD}\n```",
        "prose before and after the JSON": f"Here is my verdict:\n{GOOD}\nI hope this helps.",
        "a <think> block with a draft verdict": f"<think>perhaps {DRAFT}</think>{GOOD}",
        "two JSON objects, the last one valid": f"{DRAFT}\n{GOOD}",
        "an echo of the schema before the reply": f"{json.dumps(SCHEMA)}\n{GOOD}",
        "a byte order mark": f"\ufeff{GOOD}",
        "a lone surrogate": GOOD.replace("least", "\\ud83d"),
    }
    for name, text in readable.items():
        yield Case(f"reply: {name}", (says(text),), "read", 1)
    unreadable = {
        "an unclosed <think> block": f"<think>perhaps {DRAFT}",
        "an echo of the schema alone": json.dumps(SCHEMA),
        "single quotes": GOOD.replace('"', "'"),
        "a trailing comma": GOOD.replace("}}", "},}"),
        "an invalid escape": GOOD.replace("least", r"\$5"),
        r"\frac that decodes to a form feed": GOOD.replace("least", r"\frac{1}{2}"),
        "duplicate keys": GOOD.replace('"A": 2', '"A": 2, "A": 1'),
        "NaN": GOOD.replace('"A": 2', '"A": NaN'),
        "Infinity": GOOD.replace('"A": 2', '"A": Infinity'),
        "1e999": GOOD.replace('"A": 2', '"A": 1e999'),
        "numbers as strings": GOOD.replace('"A": 2', '"A": "2"'),
        "a fraction as a string": GOOD.replace('"A": 2', '"A": "4.2/10"'),
        "numbers where labels were asked for": GOOD.replace(ranked, '{"1": 2, "2": 1, "3": 3}'),
        "a missing label": GOOD.replace(', "C": 3', ""),
        "an invented label": GOOD.replace('"C": 3', '"C": 3, "D": 1'),
        "a rank out of range": GOOD.replace('"C": 3', '"C": 9'),
        "a root array": f"[{GOOD}]",
        "prose without JSON": "B is the best, then A, then C.",
        "a JSON null": "null",
        "a JSON object cut off": GOOD[:-4],
        "blank space": "  \n ",
    }
    for name, text in unreadable.items():
        yield Case(f"reply: {name}", (says(text),), "repaired", 2)


_UNSUPPORTED: dict[str, Any] = {
    "temperature": 0.5,
    "top_p": 0.5,
    "seed": 1,
    "reasoning_effort": "low",
    "stop": ["END"],
    "frequency_penalty": 0.1,
    "presence_penalty": 0.1,
    "verbosity": "low",
    "service_tier": "flex",
}
_OUR_NAMES = {"reasoning_effort": "effort"}

CASES: tuple[Case, ...] = (
    Case("429 once", (rate_limited(),), "retried", 2, waited=(0.2, 0.5)),
    Case("429, Retry-After in seconds", (rate_limited("7"),), "retried", 2, waited=(7.0, 7.8)),
    Case("429, Retry-After as a date", (http_date_in(20),), "retried", 2, waited=(17.0, 22.1)),
    Case("429, Retry-After in the past", (http_date_in(-60),), "retried", 2, waited=(0.0, 0.1)),
    Case("429, Retry-After that is no time", (rate_limited("soon"),), "retried", 2, waited=(0.2, 0.5)),
    Case("429, Retry-After beyond the deadline", (rate_limited("3600"),), "failed: rate_limited", 1, waited=(0, 0)),
    Case("429 eleven times", (rate_limited("1"),) * 11, "retried", 12),
    Case("429 for ever", **always(rate_limited("1")), outcome="failed: rate_limited", requests=12),
    Case(
        "429, insufficient_quota",
        **always(fails(429, type="insufficient_quota", code="insufficient_quota")),
        outcome="failed: insufficient_quota",
        requests=1,
    ),
    Case("500 once", (fails(500),), "retried", 2),
    Case("500 three times", (fails(500),) * 3, "retried", 4, waited=(1.7, 3.5)),
    Case("500 for ever", **always(fails(500)), outcome="failed: server_error", requests=4),
    Case(
        "500 with a page of HTML",
        (answers(Answer(500, "<html>oops</html>", content_type="text/html")),),
        "retried",
        2,
    ),
    Case("502", (fails(502),), "retried", 2),
    Case("503, Retry-After in seconds", (fails(503, headers={"retry-after": "3"}),), "retried", 2, waited=(3.0, 3.4)),
    Case("504", (fails(504),), "retried", 2),
    Case("529 once", (fails(529, type="overloaded_error"),), "retried", 2),
    Case("529 for ever", **always(fails(529)), outcome="failed: overloaded", requests=4),
    Case("408", (fails(408),), "retried", 2),
    Case("409", (fails(409),), "retried", 2),
    Case(
        "500, 429, a reset, then a bad reply",
        (fails(500), rate_limited("1"), answers(Answer(manner="reset")), says("{")),
        "repaired",
        5,
    ),
    Case("401", **always(fails(401)), outcome="failed: auth", requests=1),
    Case("402", **always(fails(402)), outcome="failed: payment", requests=1),
    Case("403", **always(fails(403)), outcome="failed: permission", requests=1),
    Case("404", **always(fails(404)), outcome="failed: not_found", requests=1),
    Case("413", **always(fails(413)), outcome="failed: too_large", requests=1),
    Case("418", **always(fails(418)), outcome="failed: bad_request", requests=1),
    Case("501", **always(fails(501)), outcome="failed: bad_request", requests=1),
    Case(
        "400, context_length_exceeded",
        **always(fails(400, code="context_length_exceeded")),
        outcome="failed: context_length",
        requests=1,
        wires=("chat",),
    ),
    Case(
        "307 to another place",
        **always(answers(Answer(307, headers={"location": "/elsewhere"}))),
        outcome="failed: redirect",
        requests=1,
    ),
    Case("a reset before the answer", (answers(Answer(manner="reset")),), "retried", 2),
    Case("a reset for ever", **always(answers(Answer(manner="reset"))), outcome="failed: connection", requests=4),
    Case("a reset in mid-body", (says(GOOD, manner="reset_mid_body"),), "retried", 2),
    Case("a body shorter than promised", (says(GOOD, manner="cut_body"),), "retried", 2),
    Case("a body that never ends", (answers(Answer(manner="endless")),), "retried", 2),
    Case("a body that trickles for ever", (says(GOOD, manner="trickle"),), "retried", 2, seconds=0.3),
    Case("no answer, once", (SILENCE,), "retried", 2, seconds=0.3),
    Case(
        "no answer, ever", **always(answers(Answer(manner="never"))), outcome="failed: timeout", requests=4, seconds=0.5
    ),
    Case("a slow first byte", (says(GOOD, wait_s=0.2),), "read", 1),
    Case("200 with a page of HTML", (answers(Answer(body="<html>", content_type="text/html")),), "retried", 2),
    Case("200 with broken JSON", (answers(Answer(body='{"choices": [')),), "retried", 2),
    Case("200 with an empty body", (answers(Answer()),), "retried", 2),
    Case("200 with an error in it", (answers(Answer(body={"error": {"message": "upstream died"}})),), "retried", 2),
    Case("200 with no reply in it", (answers(Answer(body={"choices": [], "content": None})),), "retried", 2),
    Case("200 with a root array", (answers(Answer(body=[1])),), "retried", 2),
    Case("200 that is not UTF-8", (answers(Answer(body=b'{"a": "\xff\xfe"}')),), "retried", 2),
    Case("200 with no reply, for ever", **always(answers(Answer(body={}))), outcome="failed: bad_body", requests=4),
    Case("200 nested too deep", (answers(Answer(body="[" * 100_000)),), "retried", 2),
    Case(
        "no json_schema (400, named)",
        **always(knows_only(says(GOOD), formats=("json_object", "prompt"))),
        outcome="stepped down",
        requests=2,
    ),
    Case(
        "no response_format (400, named)",
        **always(knows_only(says(GOOD), formats=("prompt",))),
        outcome="stepped down",
        requests=3,
        wires=("chat",),
    ),
    Case(
        "no response_format (422, FastAPI)",
        **always(knows_only(says(GOOD), formats=("prompt",), status=422, named="fastapi")),
        outcome="stepped down",
        requests=3,
        wires=("chat",),
    ),
    Case(
        "no response_format (400, in prose)",
        **always(knows_only(says(GOOD), formats=("prompt",), named="no")),
        outcome="stepped down",
        requests=3,
        wires=("chat",),
    ),
    Case(
        "no output_config (400, in prose)",
        **always(knows_only(says(GOOD), formats=("prompt",))),
        outcome="stepped down",
        requests=2,
        wires=("messages",),
    ),
    Case(
        "no max_completion_tokens (400, named)",
        **always(knows_only(says(GOOD), refuses=("max_completion_tokens",))),
        outcome="stepped down",
        requests=2,
        wires=("chat",),
        params={"max_tokens": 500},
    ),
    Case(
        "neither of both (400, in prose)",
        **always(knows_only(says(GOOD), formats=("prompt",), refuses=("max_completion_tokens",), named="no")),
        outcome="stepped down",
        requests=4,
        wires=("chat",),
        params={"max_tokens": 500},
    ),
    Case(
        "400 whatever is asked (in prose)",
        **always(fails(400, "no")),
        outcome="failed: bad_request",
        requests=4,
        wires=("chat",),
        params={"max_tokens": 500},
    ),
    *(
        Case(
            f"400 for {name}",
            **always(unsupported(name)),
            outcome="failed: bad_request",
            requests=1,
            wires=("chat",),
            params={_OUR_NAMES.get(name, name): value},
        )
        for name, value in _UNSUPPORTED.items()
    ),
    Case("an empty text", (says(""),), "repaired", 2),
    Case("no text at all", (says(None),), "repaired", 2),
    Case("an empty text, for ever", **always(says("")), outcome="failed: empty_reply", requests=3),
    Case("garbage, for ever", **always(says("no verdict today")), outcome="failed: no_json", requests=3),
    Case("a tool call in place of text", (says(None, finish="tool_calls"),), "repaired", 2, wires=("chat",)),
    Case("thinking first", (says(GOOD, thinking=DRAFT),), "read", 1),
    Case("thinking and no text", (says(None, thinking=DRAFT),), "repaired", 2),
    Case(
        "a refusal", **always(says(None, refusal="I cannot.")), outcome="failed: refusal", requests=1, wires=("chat",)
    ),
    Case(
        "a refusal by stop_reason",
        **always(says(GOOD, finish="refusal")),
        outcome="failed: refusal",
        requests=1,
        wires=("messages",),
    ),
    Case(
        "a content filter",
        **always(says(GOOD, finish="content_filter")),
        outcome="failed: content_filter",
        requests=1,
        wires=("chat",),
    ),
    Case(
        "cut by its cap",
        (says(GOOD[:30], finish="length"),),
        "lengthened",
        2,
        wires=("chat",),
        params={"max_tokens": 50},
    ),
    Case("cut by its cap", (says(GOOD[:30], finish="max_tokens"),), "lengthened", 2, wires=("messages",)),
    Case(
        "cut by its cap, for ever",
        **always(says(GOOD[:30], finish="length")),
        outcome="failed: truncated",
        requests=2,
        wires=("chat",),
        params={"max_tokens": 50},
    ),
    Case(
        "cut where no cap was sent",
        **always(says(GOOD[:30], finish="length")),
        outcome="failed: truncated",
        requests=1,
        wires=("chat",),
    ),
    Case(
        "cut by the context window",
        **always(says(GOOD[:30], finish="model_context_window_exceeded")),
        outcome="failed: context_length",
        requests=1,
        wires=("messages",),
    ),
    Case("cut, then malformed", (says("{", finish="max_tokens"), says("{")), "repaired", 3, wires=("messages",)),
    Case("an unknown finish reason", (says(GOOD, finish="eos"),), "read", 1),
    *reply_cases(),
)


def run_case(case: Case, wire: Wire, folder: Path) -> tuple[str, int, float]:
    """Play one case: its outcome, the requests that arrived, and the seconds that were slept (in no time)."""
    skipping = SkippingClock()
    with LoopbackServer() as server:
        server.script.extend(case.script)
        server.default = case.then or says(GOOD)
        url = server.chat_url if wire == "chat" else server.messages_url
        provider = "openai" if wire == "chat" else "anthropic"
        role = ResolvedRole(provider, "judge-1", base_url=url, params=case.params)
        caller = ModelCaller([role], request_s=case.seconds, cache=folder / "cache.sqlite", clock=skipping.clock)
        try:
            result = caller.call_blocking(ChatRequest("Rank them.", (("user", "A, B, C"),), schema=SCHEMA), read=read)
        except ModelsFailed as failed:
            outcome = f"failed: {failed.kind}"
        else:
            assert result.value == RANKING, result
            outcome = _how(caller, result.reply.steps)
        finally:
            caller.close()
        return outcome, len(server.requests), sum(skipping.slept)


def _how(caller: ModelCaller, steps: tuple[str, ...]) -> str:
    stats = caller.stats
    ways = ("repaired", stats.repaired), ("lengthened", stats.lengthened), ("retried", stats.retried)
    return next((way for way, count in ways if count), "stepped down" if steps else "read")

"""A real HTTP server on the loopback that speaks `/v1/chat/completions` and `/v1/messages`, and misbehaves on
demand.

    with LoopbackServer() as server:
        server.script += [rate_limited(retry_after="0"), says('{"A": 1}')]    # used up in order
        server.default = says("...")                                          # and from then on
        ... call server.chat_url or server.messages_url ...
        server.requests                                                       # what arrived, in order

A `Behaviour` takes the `Request` and returns an `Answer`, so an answer can depend on the wire format, on a
parameter, or on how many requests came before. The server runs on an event loop in a thread of its own;
nothing it does outlasts `LIMIT_S`.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

LIMIT_S = 30.0
"""The longest that an answer which never comes, or never ends, is kept up."""


@dataclass(frozen=True)
class Request:
    """One request as it arrived. `number` counts from 1."""

    number: int
    path: str
    headers: Mapping[str, str]
    body: Any

    @property
    def wire(self) -> Literal["chat", "messages"]:
        return "messages" if self.path.endswith("/messages") else "chat"

    @property
    def format(self) -> str:
        """What the request asks of the reply's form: `json_schema`, `json_object` or `prompt`."""
        if self.wire == "messages":
            wanted = self.body.get("output_config", {}).get("format")
        else:
            wanted = self.body.get("response_format")
        return wanted["type"] if wanted else "prompt"

    @property
    def turns(self) -> list[tuple[str, str]]:
        """The user's and the assistant's turns."""
        return [(m["role"], m["content"]) for m in self.body["messages"] if m["role"] != "system"]


@dataclass(frozen=True)
class Answer:
    """What goes back. `manner` is how: whole, or one of the ways in which a server breaks."""

    status: int = 200
    body: Any = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    wait_s: float = 0.0
    manner: Literal["whole", "never", "reset", "reset_mid_body", "cut_body", "endless", "trickle"] = "whole"
    until: threading.Event | None = None

    def payload(self) -> bytes:
        if isinstance(self.body, bytes):
            return self.body
        return (self.body if isinstance(self.body, str) else json.dumps(self.body)).encode()


Behaviour = Callable[[Request], Answer]


class LoopbackServer:
    """Listens on a free port of 127.0.0.1 while the `with` block runs."""

    def __init__(self) -> None:
        self.script: deque[Behaviour] = deque()
        self.default: Behaviour = says("{}")
        self.requests: list[Request] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self.port = 0
        self._arrived = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="loopback-server", daemon=True)
        self._ready = threading.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> LoopbackServer:
        self._thread.start()
        assert self._ready.wait(LIMIT_S), "the loopback server did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(LIMIT_S)

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def chat_url(self) -> str:
        """The base_url of the chat completions wire."""
        return f"{self.root}/v1"

    @property
    def messages_url(self) -> str:
        """The base_url of the messages wire (the SDK adds /v1 itself)."""
        return self.root

    def wait_for_requests(self, count: int) -> None:
        """Return once `count` requests have arrived."""
        with self._arrived:
            enough = self._arrived.wait_for(lambda: len(self.requests) >= count, timeout=LIMIT_S)
        assert enough, f"only {len(self.requests)} of {count} requests arrived"

    def forget(self) -> None:
        """Start counting anew, with nothing scripted."""
        with self._arrived:
            self.script.clear()
            self.requests.clear()
            self.most_in_flight = self.in_flight

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        listener = await asyncio.start_server(self._connection, "127.0.0.1", 0, backlog=1024)
        self.port = listener.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while (request := await self._read(reader)) is not None:
                self.in_flight += 1
                self.most_in_flight = max(self.most_in_flight, self.in_flight)
                try:
                    if not await self._answer(request, writer):
                        break
                finally:
                    self.in_flight -= 1
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client went away, as a client with a deadline does
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> Request | None:
        head = await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b""
        if not head:
            return None
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)
        }
        raw = await reader.readexactly(int(headers.get("content-length", 0)))
        with self._arrived:
            request = Request(len(self.requests) + 1, first.split(" ")[1], headers, json.loads(raw) if raw else None)
            self.requests.append(request)
            self._arrived.notify_all()
        return request

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        """Send the answer; False when the connection is not to be used again."""
        behaviour = self.script.popleft() if self.script else self.default
        answer = behaviour(request)
        if answer.until is not None:
            await asyncio.to_thread(answer.until.wait, LIMIT_S)
        if answer.wait_s:
            await asyncio.sleep(answer.wait_s)
        if answer.manner == "never":
            await asyncio.sleep(LIMIT_S)
            return False
        if answer.manner == "reset":
            writer.transport.abort()
            return False
        body = answer.payload()
        promised = len(body)
        if answer.manner in ("endless", "trickle"):
            promised = 1 << 40
        elif answer.manner in ("reset_mid_body", "cut_body"):
            promised = 2 * len(body) + 100
        head = {"content-type": answer.content_type, "content-length": str(promised), **answer.headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
        writer.write(f"HTTP/1.1 {answer.status} Scripted\r\n{lines}\r\n".encode("latin-1") + body)
        await writer.drain()
        if answer.manner == "endless":
            await self._pour(writer, b" " * 65536, pause_s=0.0)
        elif answer.manner == "trickle":
            await self._pour(writer, b" ", pause_s=0.01)
        elif answer.manner == "reset_mid_body":
            writer.transport.abort()
        return answer.manner == "whole"

    async def _pour(self, writer: asyncio.StreamWriter, piece: bytes, pause_s: float) -> None:
        end = self._loop.time() + LIMIT_S
        while self._loop.time() < end:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause_s)


def says(
    text: str | None,
    *,
    finish: str | None = None,
    model: str = "served-model-1",
    usage: tuple[int, int, int, int] = (100, 40, 20, 5),
    refusal: str | None = None,
    thinking: str | None = None,
    **how: Any,
) -> Behaviour:
    """A well-formed reply with this text, in the wire format that was asked.

    Args:
        finish: the wire's own finish or stop reason; None for the usual one.
        usage: all input tokens, those of them read from the cache, all output tokens, those spent on
            reasoning.
        how: fields of `Answer`.
    """

    def behave(request: Request) -> Answer:
        total, cached, output, reasoning = usage
        body: dict[str, Any]
        if request.wire == "messages":
            blocks = [{"type": "thinking", "thinking": thinking, "signature": "s"}] if thinking is not None else []
            blocks += [{"type": "text", "text": text}] if text is not None else []
            body = {
                "id": f"msg_{request.number}",
                "type": "message",
                "role": "assistant",
                "model": model,
                "content": blocks,
                "stop_reason": finish or "end_turn",
                "stop_sequence": None,
                "usage": {
                    "input_tokens": total - cached,
                    "cache_read_input_tokens": cached,
                    "cache_creation_input_tokens": 0,
                    "output_tokens": output,
                },
            }
        else:
            message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": refusal}
            if thinking is not None:
                message["reasoning_content"] = thinking
            body = {
                "id": f"chatcmpl-{request.number}",
                "object": "chat.completion",
                "created": 1,
                "model": model,
                "choices": [{"index": 0, "message": message, "finish_reason": finish or "stop", "logprobs": None}],
                "usage": {
                    "prompt_tokens": total,
                    "completion_tokens": output,
                    "total_tokens": total + output,
                    "prompt_tokens_details": {"cached_tokens": cached},
                    "completion_tokens_details": {"reasoning_tokens": reasoning},
                },
            }
        return replace(Answer(body=body, headers={"x-request-id": f"req-{request.number}"}), **how)

    return behave


def fails(
    status: int,
    message: str = "scripted failure",
    *,
    type: str = "server_error",
    code: str | None = None,
    param: str | None = None,
    **how: Any,
) -> Behaviour:
    """An error answer in the vendor's form."""

    def behave(request: Request) -> Answer:
        error: dict[str, Any] = {"type": type, "message": message}
        if request.wire == "messages":
            return replace(Answer(status, {"type": "error", "error": error}), **how)
        return replace(Answer(status, {"error": {**error, "code": code, "param": param}}), **how)

    return behave


def rate_limited(retry_after: str | None = None, **how: Any) -> Behaviour:
    headers = {} if retry_after is None else {"retry-after": retry_after}
    return fails(429, "slow down", type="rate_limit_error", code="rate_limit_exceeded", headers=headers, **how)


def answers(answer: Answer) -> Behaviour:
    """The same raw answer, whatever was asked."""
    return lambda request: answer


def knows_only(
    then: Behaviour,
    *,
    formats: tuple[str, ...] = ("json_schema", "json_object", "prompt"),
    refuses: tuple[str, ...] = (),
    status: int = 400,
    named: Literal["openai", "fastapi", "no"] = "openai",
) -> Behaviour:
    """A server that refuses what it does not know: reply formats outside `formats`, parameters in `refuses`.

    `named` is how the refusal names its reason: in the `param` field, in FastAPI's `loc`, or only in prose.
    """

    def behave(request: Request) -> Answer:
        wrong = next((name for name in refuses if name in request.body), None)
        if wrong is None and request.format not in formats:
            wrong = "response_format" if request.wire == "chat" else "output_config"
        if wrong is None:
            return then(request)
        if named == "fastapi":
            return Answer(
                status, {"detail": [{"loc": ["body", wrong], "msg": "unexpected", "type": "extra_forbidden"}]}
            )
        param = wrong if named == "openai" else None
        return fails(status, f"{wrong} is not supported", type="invalid_request_error", param=param)(request)

    return behave

"""What the engine adds to the SDK, and how it stands up to a limiting and to a silent server.

    python tests/benchmarks/bench_engine.py

prints, against a loopback server whose judge takes 200 ms: 64 and 256 groups through `ModelCaller`, by themselves and
under `run_calls` as a trainer's batch calls them, beside the same requests by a bare `asyncio.gather` on the same SDK
(goal: at most 1.25 x, by the best of some rounds, which other work on the machine disturbs least); 256 groups at a
server that answers 429 to a third of the requests (goal: 0 fallbacks); a batch at a server that never answers (goal:
back within 10 % of its deadline). Exits 1 when a goal is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from loopback.server import Answer, Behaviour, LoopbackServer, Request, answers, rate_limited, says
from whileai.engine.calls import CallResult, ModelCaller
from whileai.engine.deadline import deadline_within
from whileai.engine.loop import run_on_loop
from whileai.engine.schedule import run_calls
from whileai.providers import ChatRequest
from whileai.spec.roles import ResolvedRole

JUDGE_S = 0.2
REPLY = json.dumps({"A": 1, "B": 2, "C": 3})
SCHEMA = {
    "type": "object",
    "properties": {label: {"$ref": "#/$defs/rank"} for label in "ABC"},
    "required": ["A", "B", "C"],
    "additionalProperties": False,
    "$defs": {"rank": {"type": "integer", "enum": [1, 2, 3]}},
}
SYSTEM = "You rank rollouts. " * 50


def role(url: str) -> ResolvedRole:
    return ResolvedRole("openai", "bench", base_url=url, params={"max_tokens": 512})


def question(number: int) -> ChatRequest:
    return ChatRequest(SYSTEM, (("user", f"group {number}: " + "a transcript of a rollout, " * 200),), schema=SCHEMA)


@contextmanager
def server_process(kind: str) -> Iterator[str]:
    """A loopback server in a process of its own, so that its work is not counted as the client's."""
    here, there = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(kind, there), daemon=True)
    process.start()
    try:
        yield here.recv()
    finally:
        here.send("stop")
        process.join(10)


def _serve(kind: str, pipe: Connection) -> None:
    count = itertools.count(1)
    slow = says(REPLY, wait_s=JUDGE_S)

    def a_third_limited(request: Request) -> Answer:
        return (rate_limited() if next(count) % 3 == 0 else slow)(request)

    kinds: dict[str, Behaviour] = {
        "slow": slow,
        "limited": a_third_limited,
        "silent": answers(Answer(manner="never")),
    }
    with LoopbackServer() as server:
        server.default = kinds[kind]
        pipe.send(server.chat_url)
        pipe.recv()


def bare(url: str, groups: int) -> tuple[float, float]:
    """Wall and CPU seconds of the same requests without us, on a warm client."""
    import openai

    async def main() -> tuple[float, float]:
        client = openai.AsyncOpenAI(api_key="none", base_url=url, max_retries=0, timeout=60.0)

        async def ask(number: int) -> None:
            request = question(number)
            reply = await client.chat.completions.create(
                model="bench",
                messages=[
                    {"role": "system", "content": request.system},
                    {"role": "user", "content": request.turns[0][1]},
                ],
                max_completion_tokens=512,
                response_format={
                    "type": "json_schema",
                    "json_schema": {"name": "reply", "schema": SCHEMA, "strict": True},
                },
            )
            json.loads(reply.choices[0].message.content or "")

        await ask(-1)
        wall, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(ask(number) for number in range(groups)))
        spent = time.perf_counter() - wall, time.process_time() - cpu
        await client.close()
        return spent

    return asyncio.run(main())


def ours(url: str, groups: int, folder: Path, *, as_batch: bool) -> tuple[float, float]:
    """Wall and CPU seconds through ModelCaller, with cache and journal on, on a warm client."""
    stamp = time.time_ns()
    caller = ModelCaller([role(url)], cache=folder / f"{stamp}.sqlite", journal=folder / f"{stamp}.jsonl")
    caller.call_blocking(question(-1), read=json.loads)

    def ask(number: int) -> Awaitable[CallResult[object]]:
        return caller.call(question(number), read=json.loads)

    async def gather() -> list[object]:
        return await asyncio.gather(*map(ask, range(groups)))

    wall, cpu = time.perf_counter(), time.process_time()
    results = run_calls(ask, range(groups), concurrency=256) if as_batch else run_on_loop(gather())
    spent = time.perf_counter() - wall, time.process_time() - cpu
    assert not any(isinstance(result, BaseException) for result in results), results
    caller.close()
    return spent


def compare(folder: Path, groups: int, rounds: int) -> bool:
    ways: dict[str, list[tuple[float, float]]] = {"bare gather": [], "ModelCaller": [], "run_calls": []}
    with server_process("slow") as url:
        for _ in range(rounds):
            ways["bare gather"].append(bare(url, groups))
            ways["ModelCaller"].append(ours(url, groups, folder, as_batch=False))
            ways["run_calls"].append(ours(url, groups, folder, as_batch=True))
    best = {way: min(spent) for way, spent in ways.items()}
    told = ", ".join(
        f"{way} {wall:.3f} s ({1000 * cpu / groups:.1f} ms CPU a request, {wall / best['bare gather'][0]:.2f} x)"
        for way, (wall, cpu) in best.items()
    )
    print(f"{groups:4} groups, 200 ms judge: {told}; goal 1.25 x")
    return max(best["ModelCaller"], best["run_calls"])[0] <= 1.25 * best["bare gather"][0]


def limited(folder: Path) -> bool:
    with server_process("limited") as url:
        caller = ModelCaller([role(url)], journal=folder / "limited.jsonl")
        began = time.perf_counter()
        results = run_calls(
            lambda n: caller.call(question(n), read=json.loads), range(256), concurrency=256, deadline_s=240
        )
        seconds = time.perf_counter() - began
        fallbacks = sum(isinstance(result, BaseException) for result in results)
        print(f" 256 groups, 429 to a third: {fallbacks} fallbacks (goal 0) in {seconds:.1f} s; {caller.stats}")
        caller.close()
    return fallbacks == 0


def silent(deadline_s: float) -> bool:
    with server_process("silent") as url:
        caller = ModelCaller([role(url)])
        began = time.perf_counter()
        with deadline_within(deadline_s):
            results = run_calls(
                lambda n: caller.call(question(n), read=json.loads), range(64), concurrency=64, deadline_s=deadline_s
            )
        seconds = time.perf_counter() - began
        kinds = {getattr(result, "kind", "none") for result in results}
        print(f"  64 groups, no answer ever: back after {seconds:.2f} s of {deadline_s:g} s (goal 10 %), as {kinds}")
        caller.close()
    return abs(seconds - deadline_s) <= 0.1 * deadline_s


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--rounds", type=int, default=5, help="repetitions, of which the best counts")
    options.add_argument("--deadline", type=float, default=5.0, help="seconds for the batch at the silent server")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        met = [compare(folder, groups, chosen.rounds) for groups in (64, 256)]
        met += [limited(folder), silent(chosen.deadline)]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())

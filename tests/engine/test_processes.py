"""Several processes on one cache, and processes that are killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from loopback.server import Answer, LoopbackServer, Request, answers, says

ASK = """
import json, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from whileai.engine.calls import ModelCaller
from whileai.providers import ChatRequest
from whileai.spec.roles import ResolvedRole

url, folder, questions, threads = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
caller = ModelCaller(
    [ResolvedRole("openai", "m", base_url=url)], cache=folder / "cache.sqlite", journal=folder / "journal.jsonl"
)
ask = lambda n: caller.call_blocking(ChatRequest("", (("user", f"group {n}"),)), read=json.loads)
with ThreadPoolExecutor(threads) as pool:
    results = list(pool.map(ask, range(questions)))
print(json.dumps([result.value for result in results]))
"""


def echo(request: Request) -> Answer:
    return says(request.turns[0][1].split()[1])(request)


def ask(server: LoopbackServer, folder: Path, questions: int, threads: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", ASK, server.chat_url, str(folder), str(questions), str(threads)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def result(process: subprocess.Popen[str]) -> Any:
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return json.loads(output)


def asked(server: LoopbackServer) -> list[int]:
    return [int(request.turns[0][1].split()[1]) for request in server.requests]


def test_two_processes_send_nothing_twice(server: LoopbackServer, tmp_path: Path) -> None:
    server.default = echo
    processes = [ask(server, tmp_path, 60, 8) for _ in range(2)]
    assert [result(process) for process in processes] == [list(range(60))] * 2
    assert sorted(asked(server)) == list(range(60))


def test_a_killed_process_loses_no_reply_that_it_received(server: LoopbackServer, tmp_path: Path) -> None:
    server.script.extend([echo] * 5)
    server.default = answers(Answer(manner="never"))
    first = ask(server, tmp_path, 8, 1)
    server.wait_for_requests(6)  # the sixth is not answered
    first.kill()
    first.wait(30)

    server.forget()
    server.default = echo
    assert result(ask(server, tmp_path, 8, 1)) == list(range(8))
    assert asked(server) == [5, 6, 7]

    journal = [json.loads(line) for line in (tmp_path / "journal.jsonl").read_text().split("\n") if line]
    usable = [line["text"] for line in journal if line["outcome"] == "usable"]
    assert usable == [str(number) for number in range(8)]

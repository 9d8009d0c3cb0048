from __future__ import annotations

import gc
import subprocess
import sys

from loopback.server import LoopbackServer, says
from whileai.engine.calls import ModelCaller
from whileai.engine.loop import run_on_loop
from whileai.providers import ChatRequest
from whileai.spec.roles import ResolvedRole

QUESTION = ChatRequest("", (("user", "x"),))

USE_AND_LEAVE = """
import sys
from whileai.engine.calls import ModelCaller
from whileai.providers import ChatRequest
from whileai.spec.roles import ResolvedRole
caller = ModelCaller([ResolvedRole("openai", "m", base_url=sys.argv[1])])
print(caller.call_blocking(ChatRequest("", (("user", "x"),)), read=str).value)
"""


async def nothing() -> None:
    """What ran before this on the loop has begun."""


def test_a_caller_that_is_gone_leaves_no_connection(server: LoopbackServer) -> None:
    server.default = says("x")
    for _ in range(3):
        caller = ModelCaller([ResolvedRole("openai", "m", base_url=server.chat_url)])
        caller.call_blocking(QUESTION, read=str)
        provider = caller._links[0].provider
        del caller
        gc.collect()
        for _ in range(100):
            run_on_loop(nothing())
        assert not provider._clients._clients  # type: ignore[attr-defined]


def test_a_process_that_ends_closes_what_it_opened(server: LoopbackServer) -> None:
    server.default = says("x")
    command = [sys.executable, "-X", "dev", "-W", "error::ResourceWarning", "-c", USE_AND_LEAVE, server.chat_url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "x\n"
    assert "unclosed" not in done.stderr

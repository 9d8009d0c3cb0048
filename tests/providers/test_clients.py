from __future__ import annotations

import asyncio
import os

import pytest

from loopback.server import LoopbackServer, says
from whileai.providers import ChatRequest
from whileai.providers.clients import PerLoop
from whileai.providers.openai_chat import OpenAIChat
from whileai.spec.roles import ResolvedRole


class Client:
    def __init__(self) -> None:
        self.is_open = True

    async def close(self) -> None:
        self.is_open = False


def test_one_client_for_each_loop() -> None:
    clients = PerLoop(Client)

    async def twice() -> tuple[Client, Client]:
        return clients.get(), clients.get()

    first, again = asyncio.run(twice())
    other, _ = asyncio.run(twice())
    assert first is again
    assert other is not first


def test_closing_closes_the_running_loops_client_and_a_new_one_follows() -> None:
    clients = PerLoop(Client)

    async def main() -> tuple[Client, Client]:
        first = clients.get()
        await clients.aclose()
        await clients.aclose()
        return first, clients.get()

    first, second = asyncio.run(main())
    assert not first.is_open
    assert second.is_open


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_forked_child_neither_uses_nor_closes_its_parents_client() -> None:
    clients = PerLoop(Client)

    async def use_and_close() -> Client:
        client = clients.get()
        await clients.aclose()
        return client

    async def main() -> int:
        parents = clients.get()
        pid = os.fork()
        if pid == 0:
            own = asyncio.run(use_and_close())
            os._exit(0 if own is not parents and parents.is_open and not own.is_open else 1)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    assert asyncio.run(main()) == 0


def test_one_provider_serves_loop_after_loop(server: LoopbackServer) -> None:
    server.default = says("x")
    provider = OpenAIChat(ResolvedRole("openai", "m", base_url=server.chat_url))
    for _ in range(3):
        assert asyncio.run(provider.send(ChatRequest("", (("user", "x"),)))).text == "x"
    assert len(server.requests) == 3

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from loopback.server import LoopbackServer

# The same examples every time, and no clock: a busy machine fails no test.
settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    """A loopback server of this test's own."""
    with LoopbackServer() as running:
        yield running

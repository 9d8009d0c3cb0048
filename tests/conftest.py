from __future__ import annotations

from collections.abc import Iterator

import pytest

from loopback.server import LoopbackServer


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    """A loopback server of this test's own."""
    with LoopbackServer() as running:
        yield running

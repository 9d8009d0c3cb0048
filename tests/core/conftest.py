import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("whileai", deadline=None, derandomize=True)
settings.load_profile("whileai")


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], list[dict[str, Any]]]:
    """The rows of a file of real rollouts; skips where there is none, for these are not part of the project."""

    def rows(name: str) -> list[dict[str, Any]]:
        root = Path(os.environ.get("WHILEAI_SHARED") or Path(__file__).parents[3] / "shared")
        path = root / "data" / name
        if not path.is_file():
            pytest.skip(f"no {name}: set WHILEAI_SHARED to the folder that has data/{name}")
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    return rows

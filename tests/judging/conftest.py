"""A judge made of the shipped prompts and schemas, groups of rollouts, and the file of attacks."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from whileai.judging.prompt import TEMPLATE_NAMES, Judge
from whileai.spec.library import library_folder
from whileai.spec.sources import Sources
from whileai.spec.templates import SUFFIXES, PromptTemplate

ATTACKS = Path(__file__).parents[1] / "data" / "attacks" / "rollouts.jsonl"


def shipped_schema(name: str) -> dict[str, Any]:
    return json.loads((library_folder("schemas") / f"{name}.json").read_text(encoding="utf-8"))


def load_attacks() -> list[dict[str, Any]]:
    """The rows of the attack file; `grow` repeats the last message up to that many characters."""
    rows = [json.loads(line) for line in ATTACKS.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        if "grow" in row:
            text = row["messages"][-1]["content"]
            row["messages"][-1]["content"] = (text * (row["grow"] // len(text) + 1))[: row["grow"]]
    return rows


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "attack" in metafunc.fixturenames:
        rows = load_attacks()
        metafunc.parametrize("attack", rows, ids=[row["name"] for row in rows])


@pytest.fixture(scope="session")
def attacks() -> list[dict[str, Any]]:
    """All rows of the attack file; a test that takes `attack` runs once for each."""
    return load_attacks()


@pytest.fixture(scope="session")
def schema() -> Callable[[str], dict[str, Any]]:
    """A shipped schema by its name."""
    return shipped_schema


@pytest.fixture(scope="session")
def make_judge() -> Callable[..., Judge]:
    """`make_judge(verdict, **fields)`: a judge with the shipped schema and prompts."""
    sources = Sources()

    def template(reference: str) -> Callable[[Any], str]:
        found = PromptTemplate(reference, sources.shipped("prompts", reference, SUFFIXES), sources)
        found.check_names(TEMPLATE_NAMES)
        return found.render

    def make(verdict: str = "ranking", **fields: Any) -> Judge:
        folder = "reward" if verdict in ("scores", "rubric") else "groupwise"
        defaults: dict[str, Any] = {
            "schema": shipped_schema(verdict),
            "render_system": template(f"{folder}/system"),
            "render_user": template(f"{folder}/{verdict}"),
            "spec_digest": "spec",
            "max_chars_per_rollout": 24_000,
        }
        return Judge(verdict, **{**defaults, **fields})

    return make


@pytest.fixture(scope="session")
def make_group() -> Callable[..., list[dict[str, Any]]]:
    """`make_group([...], passed=[...])`: a group out of completions, each a text or a list of messages."""

    def make(completions: list[Any], passed: list[bool] | None = None, **columns: list[Any]) -> list[dict[str, Any]]:
        group = []
        for index, completion in enumerate(completions):
            ok = passed is None or passed[index]
            rollout: dict[str, Any] = {
                "index": index,
                "prompt": "Refund order ORD-7.",
                "completion": completion if isinstance(completion, str) else "",
                "reward": float(ok),
                "passed": ok,
            }
            if not isinstance(completion, str):
                rollout["messages"] = completion
            group.append(rollout | {name: values[index] for name, values in columns.items()})
        return group

    return make


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], list[dict[str, Any]]]:
    """Rows of a file of real rollouts, which are no part of the repository; skips where they are absent."""

    def rows(name: str) -> list[dict[str, Any]]:
        root = Path(os.environ.get("WHILEAI_SHARED") or Path(__file__).parents[3] / "shared")
        path = root / "data" / name
        if not path.is_file():
            pytest.skip(f"no {name}: set WHILEAI_SHARED to the folder that has data/{name}")
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    return rows

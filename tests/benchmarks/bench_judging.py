"""How much a judge is shown of real groups, and how long it takes to write its prompts and to read its replies.

    WHILEAI_SHARED=FOLDER python tests/benchmarks/bench_judging.py

FOLDER has data/airline_rollouts.jsonl, real rollouts that are no part of the repository; without it the prompts are
not measured, and the script says so. Times are medians of one process on one core; run it on a quiet machine.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from whileai.judging.attacks import marked
from whileai.judging.prompt import Judge
from whileai.judging.reply import read_object
from whileai.judging.schemas import reply_schema, validator
from whileai.spec.library import library_folder
from whileai.spec.sources import Sources
from whileai.spec.templates import SUFFIXES, PromptTemplate


def milliseconds(call: Callable[[], object], rounds: int = 15) -> float:
    walls = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        walls.append(time.perf_counter() - start)
    return 1000 * statistics.median(walls)


def schema(verdict: str) -> dict[str, Any]:
    return json.loads((library_folder("schemas") / f"{verdict}.json").read_text(encoding="utf-8"))


def shipped_judge() -> Judge:
    sources = Sources()

    def template(name: str) -> Callable[..., str]:
        return PromptTemplate(name, sources.shipped("prompts", name, SUFFIXES), sources).render

    return Judge(
        "ranking",
        schema("ranking"),
        template("groupwise/system"),
        template("groupwise/ranking"),
        "spec",
        24_000,
        hack_kinds=("leaked_answer",),
    )


def airline_groups() -> list[list[dict[str, Any]]] | None:
    """The groups with two or more passes, or None where the file is absent."""
    folder = Path(os.environ.get("WHILEAI_SHARED") or Path(__file__).parents[3] / "shared")
    path = folder / "data" / "airline_rollouts.jsonl"
    if not path.is_file():
        print(f"prompts: not measured, {path.name} is absent (set WHILEAI_SHARED)")
        return None
    groups: dict[str, list[dict[str, Any]]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        members = groups.setdefault(row["scenario_id"], [])
        members.append(row | {"index": len(members), "passed": row["reward"] >= 0.5})
    return [group for group in groups.values() if sum(rollout["passed"] for rollout in group) >= 2]


def whole_text(rollout: dict[str, Any]) -> str:
    """A rollout sent whole: every message's role and text, every call's name and arguments."""
    parts = []
    for message in rollout["messages"]:
        parts.append(f"{message['role']}: {message['content'] or ''}")
        parts += [
            json.dumps({key: call["function"][key] for key in ("name", "arguments")})
            for call in message.get("tool_calls") or ()
        ]
    return "".join(parts)


def prompts() -> None:
    groups = airline_groups()
    if groups is None:
        return
    judge = shipped_judge()
    whole = sum(len(whole_text(rollout)) for group in groups for rollout in group)
    asked = [prompt for group in groups for prompt in judge.prompts(group)]
    shown = sum(len(prompt.shown.task) + len(prompt.shown.rollouts) for prompt in asked)
    said = sum(len(prompt.system) + len(prompt.user) for prompt in asked) - shown
    scenarios = sum(len(group[0]["prompt"]) for group in groups)
    print(f"{len(groups)} airline groups, {sum(map(len, groups))} rollouts")
    print(f"  every rollout whole        {whole:>9,} characters")
    print(f"  fenced data                {shown:>9,} characters  {shown / whole:.1%} of that")
    print(f"  of it the rows' `prompt`   {scenarios:>9,} characters, which the messages do not have")
    print(f"  rules, criteria, schema    {said:>9,} characters  {said // len(groups):,} a group")
    for orders in (1, 2):
        took = milliseconds(lambda orders=orders: [judge.prompts(group, orders=orders) for group in groups])
        print(f"  prompts of {orders} order{'s' * (orders > 1)}          {took / len(groups):>9.2f} ms a group")
    print(
        f"  marking forgeries          {milliseconds(lambda: list(map(marked, groups))) / len(groups):>9.2f} ms a group"
    )


def replies() -> None:
    labels = tuple("ABCDEFGH")
    check = validator(reply_schema(schema("ranking"), len(labels), ("leaked_answer",)))
    ranks = {label: place for place, label in enumerate(labels, 1)}
    reply = json.dumps({"rationale": "It looked the order up first. " * 10, "ranking": ranks, "hacks": []})
    print(f"replies of {len(labels)} candidates, {len(reply):,} characters")
    for name, text in {
        "bare object": reply,
        "fenced, with prose": f"Here is my verdict.\n```json\n{reply}\n```\nDone.",
        "after a draft and a thought": f"<think>{reply * 5}</think>\n{reply}\nNo:\n{reply}",
    }.items():
        took = milliseconds(lambda text=text: [read_object(text, check, labels) for _ in range(50)]) / 50
        print(f"  {name:<27}{took:>8.3f} ms  {1000 / took:>8,.0f} a second")


if __name__ == "__main__":
    prompts()
    replies()

"""What specs cost: loading one, and a group of 8 through a rules grader with two expressions.

    python tests/benchmarks/bench_spec.py

Goals: 15 ms to load a spec, imports aside, and 80 us for a group of 8, the reading of the verdict included.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from whileai.core.verdict import read_verdict
from whileai.loader import lint, load_grader
from whileai.spec.library import shipped_names


def best_of(call: Callable[[], object], times: int, rounds: int = 9) -> tuple[float, float]:
    """Seconds of one call: the best round's mean, and the median round's."""
    means = []
    for _ in range(rounds):
        began = time.perf_counter()
        for _ in range(times):
            call()
        means.append((time.perf_counter() - began) / times)
    return min(means), statistics.median(means)


def show(what: str, seconds: tuple[float, float], unit: str) -> None:
    scale = {"us": 1e6, "ms": 1e3}[unit]
    print(f"{what:<58} {seconds[0] * scale:8.2f} {unit}  (median {seconds[1] * scale:.2f})")


def group(passes: int, ties: bool) -> list[dict]:
    calls = [1 if ties else number for number in range(8)]
    return [
        {
            "index": number,
            "prompt": "p",
            "completion": "<tool_call>x</tool_call>" * calls[number] + "done " * 200,
            "reward": float(number < passes),
            "passed": number < passes,
        }
        for number in range(8)
    ]


MODELS = dict.fromkeys(("judge", "judge_backup", "second_judge"), "recorded:")


def main() -> None:
    grader = load_grader("rank_group")
    for passes in (4, 8):
        for ties in (False, True):
            rollouts = group(passes, ties)
            indices = [rollout["index"] for rollout in rollouts if rollout["passed"]]

            def grade(rollouts: list[dict] = rollouts, indices: list[int] = indices) -> object:
                return read_verdict(grader(rollouts), indices, 8)

            kind = "all tied" if ties else "no ties"
            show(f"rank_group, 8 rollouts, {passes} passes, {kind}, with reading", best_of(grade, 500), "us")
    for name in shipped_names("graders", (".yaml",)):
        show(f"load {name}", best_of(lambda name=name: load_grader(name, models=MODELS), 5), "ms")
    show("lint test_tampering with its golden cases", best_of(lambda: lint("test_tampering"), 2), "ms")


if __name__ == "__main__":
    main()

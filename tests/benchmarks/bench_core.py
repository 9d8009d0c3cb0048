"""How fast and how small the core is, beside any other package with the same interface.

    python tests/benchmarks/bench_core.py [--against OTHER_PYTHON] [--only ITEM ...]

Measures the `whileai` of this interpreter and, with `--against`, that of another environment: the script runs
itself as a child under each, and uses nothing but what the method's page shows. Needs numpy and no more.
Figures are medians; run it on a quiet machine.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

GROUP_SIZE = 8
JUDGE_S = 0.2


def seconds_per_call(call: Callable[[], object], rounds: int = 25, round_s: float = 0.02) -> float:
    """Median over rounds that each last about `round_s`."""
    calls, took = 1, 0.0
    while took < round_s / 2:
        calls *= 2
        start = time.perf_counter()
        for _ in range(calls):
            call()
        took = time.perf_counter() - start
    walls = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        walls.append((time.perf_counter() - start) / calls)
    return statistics.median(walls)


def rewards_of(groups: int) -> list[float]:
    """Half of every group passes, alternating, so that every group is mixed."""
    return [1.0, 0.0] * (groups * GROUP_SIZE // 2)


def texts_of(groups: int) -> tuple[list[str], list[str]]:
    rows = range(groups * GROUP_SIZE)
    return [f"prompt {i // GROUP_SIZE}" for i in rows], [f"reply {i}" for i in rows]


def passes_in_order(group: list[dict[str, Any]]) -> dict[str, Any]:
    return {"ranking": [rollout["index"] for rollout in group if rollout["passed"]]}


def slow_judge(seconds: float) -> Callable[[list[dict[str, Any]]], dict[str, Any]]:
    def judge(group: list[dict[str, Any]]) -> dict[str, Any]:
        time.sleep(seconds)
        return passes_in_order(group)

    return judge


def redistribute_8() -> float:
    from whileai.methods import redistribute

    rewards = rewards_of(1)
    factors = {0: 1.0, 2: 5 / 6, 4: 2 / 3, 6: 0.5}
    return seconds_per_call(lambda: redistribute(rewards, factors)) * 1e6


def noop_group(groups: int, **knobs: Any) -> float:
    """Microseconds for one group of 8 in a `trl_reward` call whose grader does next to nothing."""
    import whileai

    prompts, completions = texts_of(groups)
    rewards = rewards_of(groups)
    gar = whileai.GroupwiseGrading(grader=passes_in_order, **knobs)
    reward_func = gar.trl_reward(lambda prompts, completions, **columns: rewards, num_generations=GROUP_SIZE)
    batch = seconds_per_call(lambda: reward_func(prompts=prompts, completions=completions), rounds=15)
    return batch / groups * 1e6


def bare_group(groups: int) -> float:
    """The same work as `noop_group` in bare Python on one thread, without a check of anything."""
    prompts, completions = texts_of(groups)
    rewards = rewards_of(groups)

    def batch() -> list[float]:
        shaped: list[float] = []
        for first in range(0, len(rewards), GROUP_SIZE):
            rollouts = [
                {
                    "index": i,
                    "prompt": prompts[first + i],
                    "completion": completions[first + i],
                    "reward": rewards[first + i],
                    "passed": rewards[first + i] >= 0.5,
                }
                for i in range(GROUP_SIZE)
            ]
            ranking = passes_in_order(rollouts)["ranking"]
            step = 0.5 / (len(ranking) - 1)
            factors = {index: 1.0 - step * place for place, index in enumerate(ranking)}
            group = rewards[first : first + GROUP_SIZE]
            mean = sum(group) / GROUP_SIZE
            kept = {index: factor * (group[index] - mean) for index, factor in factors.items()}
            scale = min(3.0, sum(group[index] - mean for index in kept) / sum(kept.values()))
            moved = [scale * kept[i] if i in kept else group[i] - mean for i in range(GROUP_SIZE)]
            drift = sum(moved) / GROUP_SIZE
            shaped.extend(advantage - drift + mean for advantage in moved)
        return shaped

    return seconds_per_call(batch, rounds=15) / groups * 1e6


def sleeping_graders() -> float:
    import whileai

    prompts, completions = texts_of(64)
    gar = whileai.GroupwiseGrading(grader=slow_judge(JUDGE_S))
    return wall(lambda: gar.shape(rewards_of(64), prompts, completions, group_size=GROUP_SIZE))


def reward_mode() -> float:
    import whileai

    def grade(item: dict[str, Any], rubric: object) -> dict[str, float]:
        time.sleep(JUDGE_S)
        return {"solution": 1.0, "behavior": 0.5}

    prompts, completions = texts_of(1)
    grs = whileai.GroupwiseGrading(grader=grade, mode="reward")
    return wall(lambda: grs.shape([1.0] * GROUP_SIZE, prompts, completions, group_size=GROUP_SIZE))


def check_2000_rows() -> float:
    import whileai

    rows = [
        {"scenario_id": f"task {i // GROUP_SIZE}", "reward": 1 - i % 2, "final_text": f"reply {i}"} for i in range(2000)
    ]
    gar = whileai.GroupwiseGrading(grader=slow_judge(0.05))
    return wall(lambda: gar.check_spread(rows, strict=False))


def wall(call: Callable[[], object], times: int = 3) -> float:
    walls = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        walls.append(time.perf_counter() - start)
    return statistics.median(walls)


def import_over_bare(statement: str) -> float:
    """Milliseconds of a whole process that imports, less those of one that does nothing; runs alternate."""
    walls: dict[str, list[float]] = {"pass": [], statement: []}
    for _ in range(12):
        for program, seen in walls.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", program], check=True)
            seen.append((time.perf_counter() - start) * 1e3)
    return statistics.median(walls[statement][1:]) - statistics.median(walls["pass"][1:])


def memory_growth() -> float:
    """MB of resident memory that 100,000 groups leave behind, after a first 500 that fill every pool."""
    import whileai

    prompts, completions = texts_of(500)
    rewards = rewards_of(500)
    gar = whileai.GroupwiseGrading(grader=passes_in_order)

    def resident_mb() -> float:
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    gar.shape(rewards, prompts, completions, group_size=GROUP_SIZE)
    before = resident_mb()
    for _ in range(200):
        gar.shape(rewards, prompts, completions, group_size=GROUP_SIZE)
    return resident_mb() - before


def batch_over_numpy() -> float:
    """65,536 groups of 8 in one call: the time as a multiple of what the plain numpy formula takes."""
    import numpy as np

    from whileai.methods import redistribute_batch

    draw = np.random.default_rng(0)
    rewards = (draw.random((65_536, GROUP_SIZE)) < 0.5).astype(float)
    factors = draw.uniform(0.34, 1.0, rewards.shape)

    def plain() -> Any:
        advantages = rewards - rewards.mean(axis=1, keepdims=True)
        passed = rewards >= 0.5
        gains = np.where(passed, advantages, 0.0)
        mass, kept = gains.sum(axis=1), (factors * gains).sum(axis=1)
        scale = np.minimum(np.divide(mass, kept, out=np.ones_like(mass), where=kept > 0), 3.0)
        live = passed & (kept > 0)[:, None]
        moved = np.where(live, scale[:, None] * factors * advantages, advantages)
        return moved - moved.mean(axis=1, keepdims=True)

    difference = float(np.abs(np.asarray(redistribute_batch(rewards, factors)) - plain()).max())
    if difference > 1e-12:
        raise SystemExit(f"redistribute_batch differs from the plain formula by {difference}")
    ours = seconds_per_call(lambda: redistribute_batch(rewards, factors), rounds=9)
    return ours / seconds_per_call(plain, rounds=9)


ITEMS: dict[str, tuple[Callable[[], float], str, str, str]] = {
    "redistribute": (redistribute_8, "us", "no slower", "redistribute on a group of 8"),
    "group_64": (lambda: noop_group(64), "us", "<= 15", "a no-op group of 8, 64 to a batch"),
    "group_4096": (lambda: noop_group(4096), "us", "<= 15", "a no-op group of 8, 4,096 to a batch"),
    "bare_64": (lambda: bare_group(64), "us", "", "  bare Python for the same, 64"),
    "bare_4096": (lambda: bare_group(4096), "us", "", "  bare Python for the same, 4,096"),
    "sleeping": (sleeping_graders, "s", "<= 0.3", "64 graders that sleep 0.2 s"),
    "reward_mode": (reward_mode, "s", "<= 0.3", "8 passes in reward mode, 0.2 s each"),
    "check": (check_2000_rows, "s", "<= 1.1", "check of 2,000 rows, a judge of 0.05 s"),
    "import": (lambda: import_over_bare("import whileai"), "ms", "<= 15", "import whileai, over bare Python"),
    "import_class": (
        lambda: import_over_bare("import whileai; whileai.GroupwiseGrading"),
        "ms",
        "<= 100",
        "  and GroupwiseGrading",
    ),
    "memory": (memory_growth, "MB", "< 1", "memory growth over 100,000 groups"),
    "batch": (batch_over_numpy, "x", "<= 3", "65,536 groups in one call, over numpy"),
}
"""Each figure: how it is measured, its unit, its goal, and what it says."""


def measured(python: str, item: str, env: dict[str, str]) -> tuple[str, str]:
    """The figure of one item under one interpreter, in a process of its own; else "-" and why there is none."""
    child = subprocess.run(
        [python, str(Path(__file__).resolve()), "--measure", item], env=env, capture_output=True, text=True
    )
    if child.returncode != 0:
        return "-", (child.stderr.strip().splitlines() or ["no message"])[-1]
    return f"{json.loads(child.stdout):.3g} {ITEMS[item][1]}", ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--against", metavar="PYTHON", help="interpreter of an environment with another package")
    parser.add_argument(
        "--only", nargs="+", choices=ITEMS, default=list(ITEMS), metavar="ITEM", help=f"of {', '.join(ITEMS)}"
    )
    parser.add_argument("--measure", choices=ITEMS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(ITEMS[options.measure][0]()))
        return
    pythons = {"ours": (sys.executable, dict(os.environ))}
    if options.against:
        elsewhere = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        pythons["other"] = (options.against, elsewhere)
    print(f"{'':40}{'goal':>12}" + "".join(f"{name:>14}" for name in pythons))
    absent = []
    for item in options.only:
        _, _, goal, what = ITEMS[item]
        print(f"{what:40}{goal:>12}", end="", flush=True)
        for name, (python, env) in pythons.items():
            figure, reason = measured(python, item, env)
            absent += [f"no figure of {name} for {item}: {reason}"] if reason else []
            print(f"{figure:>14}", end="", flush=True)
        print()
    print(*absent, sep="\n", end="\n" if absent else "")


if __name__ == "__main__":
    main()

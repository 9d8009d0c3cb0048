"""TRL's advantages against equation 3 in every layout, as a table: `PYTHONPATH=src python tests/trainers/exactness.py`.

For 1, 2 and 3 processes it starts `worker_layouts.py` (real trainers, real processes, CPU), puts together what the
processes saw, and compares row by row.
"""

import collections
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from worker_layouts import is_hack, is_pass

from conftest import chance, equation_3

HERE = Path(__file__).resolve().parent
TIMEOUT_S = 200.0


def start(script: str, world: int, *args: str, timeout_s: float = TIMEOUT_S) -> subprocess.CompletedProcess[str]:
    """Run a script of this folder in `world` processes of torchrun, or die after `timeout_s`."""
    return subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(world)),
            *(str(HERE / script), *args),
        ],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )


def results(world: int, folder: Path) -> list[dict[str, Any]]:
    """For each layout of `world` processes: how far off TRL's advantages were, and how often groups were judged."""
    done = start("worker_layouts.py", world, str(folder))
    if done.returncode:
        raise RuntimeError(f"{world} processes ended with {done.returncode}:\n{done.stderr[-4000:]}")
    ranks = [json.loads((folder / f"{rank}.json").read_text(encoding="utf-8")) for rank in range(world)]
    return [compare(world, list(of_ranks)) for of_ranks in zip(*ranks, strict=True)]


def compare(world: int, ranks: list[dict[str, Any]]) -> dict[str, Any]:
    layout = ranks[0]["layout"]
    judged = collections.Counter(tuple(group) for rank in ranks for group in rank["judged"])
    wanted: collections.Counter[tuple[str, ...]] = collections.Counter()
    worst, rows, moved, split = 0.0, 0, 0, 0
    for batches in zip(*(rank["batches"] for rank in ranks), strict=True):
        texts = [text for batch in batches for text in batch["texts"]]
        advantages = [advantage for batch in batches for advantage in batch["advantages"]]
        train = batches[0]["train"]
        size = layout["group"] if train else layout["evaluate"]
        split += train and len(batches[0]["texts"]) % size != 0
        for begin in range(0, len(texts), size):
            group = texts[begin : begin + size]
            rewards = list(map(float, map(is_pass, group)))
            passes = sorted((i for i in range(size) if rewards[i]), key=lambda i: chance(group[i]))
            factors = dict.fromkeys(passes, 1.0)
            if 0 < len(passes) < size and (train or layout.get("judge_in_eval")):
                wanted[tuple(group)] += 1
                hacks = [i for i in passes if is_hack(group[i])]
                passes = [i for i in passes if i not in hacks]
                rewards = [0.0 if i in hacks else reward for i, reward in enumerate(rewards)]
                factors = {i: 1.0 - 0.5 * rank / max(1, len(passes) - 1) for rank, i in enumerate(passes)}
                moved += len(passes) > 1 or bool(hacks)
            found = advantages[begin : begin + size]
            expected = equation_3(rewards, factors)
            worst = max([worst, *(abs(a - b) for a, b in zip(found, expected, strict=True))])
            rows += size
    assert set(judged) <= set(wanted), "a group was judged that should not be"
    calls = [judged[group] / count for group, count in wanted.items()]
    return {
        "processes": world,
        **layout,
        "split": bool(split),
        "rows": rows,
        "moved": moved,
        "calls": (min(calls), max(calls)),
        "worst": worst,
    }


def main() -> None:
    print("procs batch group accum per_gen eval_group judge_eval split  rows moved calls/group  max |A_trl - A'|")
    worst = 0.0
    for world in (1, 2, 3):
        with tempfile.TemporaryDirectory() as folder:
            for row in results(world, Path(folder)):
                low, high = row["calls"]
                calls = f"{low:g}" if low == high else f"{low:g}..{high:g}"
                print(
                    f"{world:5} {row['batch']:5} {row['group']:5} {row.get('accumulate', 1):5} "
                    f"{row.get('per_generation') or '-':>7} {row.get('evaluate', '-'):>10} "
                    f"{row.get('judge_in_eval', '-')!s:>10} {row['split']!s:>5} {row['rows']:5} {row['moved']:5} "
                    f"{calls:>11}  {row['worst']:.1e}"
                )
                worst = max(worst, row["worst"])
    print(f"worst: {worst:.1e}")


if __name__ == "__main__":
    main()

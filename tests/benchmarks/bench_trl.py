"""What the TRL adapter adds to a call: `PYTHONPATH=src python tests/benchmarks/bench_trl.py`.

64 groups of 8, no judge and no trainer: every rollout passes, so there is nothing to grade, and the verifier costs
next to nothing. With two processes (torchrun, gloo) every call has groups that are split between them. A judge
that ranks at once is shown beside it: what is then added is the work of the core, not the adapter's.
"""

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import whileai as wai

SIZE, GROUPS, REPEATS = 8, 64, 200
GOAL_MS = {1: 2.0, 2: 10.0}


def judge(group):
    return {"ranking": [rollout["index"] for rollout in group if rollout["passed"]]}


def measure(rows: int, prompt: object, *, mixed: bool) -> float:
    """Median milliseconds of one call with `rows` rows."""
    gar = wai.GroupwiseGrading(grader=judge, accept_unchecked="a benchmark")
    rewards = [0.0 if mixed and row % SIZE == 0 else 1.0 for row in range(rows)]
    reward = gar.trl_reward(lambda completions, **_: rewards, num_generations=SIZE)
    text = "a completion of a usual length. " * 40
    completions = [text if isinstance(prompt, str) else [{"role": "assistant", "content": text}] for _ in range(rows)]
    prompts, tasks, logged = [prompt] * rows, list(range(rows)), []
    columns = {"ticket": tasks, "completion_ids": [[1, 2, 3]] * rows}
    log = {"log_extra": lambda *said: logged.append(said), "log_metric": lambda *said: None}
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        reward(prompts=prompts, completions=completions, **columns, **log)
        times.append(time.perf_counter() - begin)
        logged.clear()
    return statistics.median(times) * 1e3


def main() -> None:
    world = int(os.environ.get("WORLD_SIZE", "1"))
    rank = int(os.environ.get("RANK", "0"))
    if world > 1:
        import torch.distributed as dist

        dist.init_process_group("gloo")
    rows = SIZE * GROUPS // world + (SIZE // 2 if world > 1 else 0)  # half a group too many: one group is split
    conversation = [{"role": "user", "content": "Where is my order?"}]
    for shape, prompt in (("text", "Where is my order?"), ("messages", conversation)):
        for mixed in (False, True):
            took = measure(rows, prompt, mixed=mixed)
            if rank == 0:
                what = "with a judge that answers at once" if mixed else f"no judge (goal {GOAL_MS[world]:g} ms)"
                print(
                    f"{world} process{'es' if world > 1 else '  '}, {rows} rows each, {shape:8}: {took:6.2f} ms  {what}"
                )
    if world > 1:
        dist.barrier()
        sys.stdout.flush()
        os._exit(0)
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc_per_node",
        "2",
        str(Path(__file__)),
    ]
    subprocess.run(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, check=True, timeout=120)


if __name__ == "__main__":
    main()

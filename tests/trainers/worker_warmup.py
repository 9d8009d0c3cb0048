"""Two processes that warm up together: `python worker_warmup.py FOLDER` prints what each rank saw, call by call.

Each rank has a certificates' folder of its own, as on two machines: what rank 0 found must travel to rank 1.
"""

import json
import logging
import os
import sys
import time
from pathlib import Path

import torch.distributed as dist
from worker_faults import received, start

import whileai as wai
from whileai.loader import load_grader

CALLS = 18


def compiled(folder):
    return load_grader("rank_group")


def constant(folder):
    return lambda group: {"factors": {rollout["index"]: 0.7 for rollout in group if rollout["passed"]}}


def broken(folder):
    def judge(group):
        raise RuntimeError("no key")

    return judge


GRADERS = {"compiled": compiled, "again": compiled, "constant": constant, "broken": broken}


def batch(call, rank):
    """Six rows of a rank in groups of four: passes differ in their number of tool calls, every fourth row fails."""
    rows = range(12 * call + 6 * rank, 12 * call + 6 * rank + 6)
    return [f"{'<tool_call>' * (1 + row * 7 % 5)} row {row} {'' if row % 4 == 3 else 'done'}" for row in rows]


def verifier(prompts, completions, **_):
    return [float(text.endswith("done")) for text in completions]


def child(name, folder, rank, port, pipe):
    os.environ["WHILEAI_CERTS"] = str(folder / f"certs{rank}")
    said = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    logging.getLogger("whileai").addHandler(handler)
    logging.getLogger("whileai").setLevel(logging.INFO)
    logging.getLogger("whileai").propagate = False
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    gar = wai.GroupwiseGrading(grader=GRADERS[name](folder), deadline_s=60)
    reward = gar.trl_reward(verifier, 4, warmup_groups=25, record=folder / f"{name}.jsonl")
    graded, metrics = [], []
    for call in range(CALLS):
        texts, logged = batch(call, rank), {}
        rewards = reward(prompts=["p"] * 6, completions=texts, log_metric=logged.__setitem__)
        graded.append(rewards != verifier(None, texts))
        metrics.append(logged["groupwise/warming_up"])
    pipe.send({"graded": graded, "warming": metrics, "log": said, "calls": gar.stats.grader_calls})
    pipe.recv()
    os._exit(0)


def main():
    results = {}
    for name in GRADERS:
        pipes, processes = start(child, name, Path(sys.argv[1]))
        until = time.monotonic() + 60
        results[name] = [received(pipe, until) for pipe in pipes]
        for process in processes:
            process.kill()
    print(json.dumps(results))


if __name__ == "__main__":
    main()

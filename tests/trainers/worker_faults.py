"""Two processes share a group, and one of them fails: `python worker_faults.py` prints what each of them saw.

Every case is a pair of forked processes with a process group of their own (gloo, CPU), each with 6 rows in groups
of 4. A process that has its result waits until both have, as the store lives in rank 0.
"""

import json
import logging
import multiprocessing
import os
import re
import signal
import socket
import sys
import threading
import time

import torch.distributed as dist

import whileai as wai
import whileai.trainers.trl
import whileai.trainers.warmup  # before the fork, so that no rank is late because it still imports

DEADLINE_S = 3.0
LIMIT_S = DEADLINE_S + 10.0
AT_ONCE = 4
TEXTS = [["0 fails", "1", "2", "3", "4", "5"], ["6", "7 fails", "8", "9 fails", "10", "11"]]


def stuck_in_c():
    re.match(r"(a+)+$", "a" * 60 + "b")  # holds the interpreter lock for longer than anyone lives


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def stop():
    os.kill(os.getpid(), signal.SIGSTOP)


def interrupt():
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()


def broken():
    raise RuntimeError("the judge's own mistake")


CASES = {  # what happens, in the judge or the verifier, and on which rank
    "in order": ("judge", 0, lambda: None),
    "judge raises": ("judge", 0, broken),
    "judge raises on rank 1": ("judge", 1, broken),
    "judge hangs": ("judge", 0, lambda: time.sleep(600)),
    "judge hangs in C": ("judge", 0, stuck_in_c),
    "verifier is late": ("verifier", 1, lambda: time.sleep(DEADLINE_S + 3)),
    "verifier counts wrong": ("count", 1, lambda: None),
    "rank 0 is killed": ("verifier", 0, die),
    "rank 1 is killed": ("verifier", 1, die),
    "rank 0 is stopped": ("verifier", 0, stop),
    "rank 0 is interrupted": ("interrupt", 0, interrupt),
    "uneven rows": ("rows", 1, lambda: None),
    "rows that do not pickle": ("column", 1, lambda: None),
    "verifier counts wrong in a warm-up": ("warm-up", 1, lambda: None),
    "rows in blocks in a warm-up": ("blocks", 1, lambda: None),
}


def child(name, rank, port, pipe):
    place, where, fault = CASES[name]
    said = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    logging.getLogger("whileai").addHandler(handler)
    logging.getLogger("whileai").propagate = False
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    pipe.send("connected")
    pipe.recv()

    def verifier(prompts, completions, **_):
        if place == "interrupt" and rank == 1:
            time.sleep(2)
        if place in ("verifier", "interrupt") and rank == where:
            fault()
        rewards = [float("fails" not in text) for text in completions]
        return rewards[1:] if place in ("count", "warm-up") and rank == where else rewards

    def judge(group):
        if place == "judge" and rank == where and {"5", "10"} & {rollout["completion"] for rollout in group}:
            fault()
        return {"ranking": [rollout["index"] for rollout in group if rollout["passed"]]}

    warming = place in ("warm-up", "blocks")  # whole groups: the ranks meet only to count them
    accepted = None if warming else "a judge of the tests"
    gar = wai.GroupwiseGrading(grader=judge, deadline_s=DEADLINE_S, accept_unchecked=accepted)
    texts = TEXTS[rank] + (["12"] * 4 if place == "rows" and rank == where else [])
    texts += ["13", "14"] if warming else []
    prompts = ["p", "q"] * 4 if place == "blocks" and rank == where else ["p"] * len(texts)
    columns = {"extra": [lambda: None] * 6} if place == "column" and rank == where else {}
    begin = time.monotonic()
    try:
        reward = gar.trl_reward(verifier, num_generations=4, warmup_groups=9 if warming else None)
        result = {"rewards": reward(prompts=prompts, completions=texts, **columns)}
    except BaseException as error:  # noqa: BLE001 - an interrupt is one of the cases
        result = {"error": type(error).__name__, "text": str(error)}
    pipe.send(result | {"log": said, "seconds": time.monotonic() - begin, "calls": gar.stats.grader_calls})
    pipe.recv()
    os._exit(0)


def start(target, *args):
    """Two forked processes that run `target(*args, rank, port, pipe)`, and their pipes."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    fork = multiprocessing.get_context("fork")
    pipes, processes = [], []
    for rank in range(2):
        ours, theirs = fork.Pipe()
        process = fork.Process(target=target, args=(*args, rank, port, theirs), daemon=True)
        process.start()
        theirs.close()
        pipes.append(ours)
        processes.append(process)
    return pipes, processes


def received(pipe, until):
    try:
        return pipe.recv() if pipe.poll(max(0.0, until - time.monotonic())) else None
    except EOFError:
        return None


def run(names):
    """What both ranks of each case saw; these cases run at once."""
    pairs = {name: start(child, name) for name in names}
    for pipes, _ in pairs.values():
        assert all(pipe.poll(30) and pipe.recv() for pipe in pipes)
    for pipes, _ in pairs.values():
        for pipe in pipes:
            pipe.send("go")
    until = time.monotonic() + LIMIT_S
    results = {name: [received(pipe, until) for pipe in pipes] for name, (pipes, _) in pairs.items()}
    for _, processes in pairs.values():
        for process in processes:
            process.kill()
    return results


def main():
    """A few cases at a time, and the one that burns a core alone: a deadline is about faults, not about a busy machine."""
    names = sys.argv[1:] or list(CASES)
    quiet = [name for name in names if name != "judge hangs in C"]
    waves = [quiet[at : at + AT_ONCE] for at in range(0, len(quiet), AT_ONCE)]
    if len(quiet) < len(names):
        waves.append(["judge hangs in C"])
    print(json.dumps({name: seen for wave in waves for name, seen in run(wave).items()}))


if __name__ == "__main__":
    main()

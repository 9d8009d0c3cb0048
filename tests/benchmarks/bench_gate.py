"""How often the gate answers yes, no and not enough data, for good graders and for bad ones.

python tests/benchmarks/bench_gate.py [--trials 200] [--groups 20 40] [--sizes 2 3 4 5]
"""

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "checks"))

import graders

from whileai.checks.gate import run_gate
from whileai.checks.votes import GateKnobs


def at_once(call, items, *, read, concurrency=None, timeout_s=None, progress=None):
    """`engine.schedule.run_calls` without its threads: thousands of checks of quick graders."""
    found = []
    for item in items:
        try:
            found.append(read(call(item), item))
        except Exception as error:  # noqa: BLE001 - the graders fail on purpose
            found.append(error)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--groups", type=int, nargs="+", default=[20, 40])
    parser.add_argument("--sizes", type=int, nargs="+", default=list(graders.SIZES))
    parser.add_argument("--only", nargs="*")
    arguments = parser.parse_args()
    known = {
        **graders.GOOD,
        **graders.BORDERLINE,
        **graders.BAD,
        **graders.RELIABLE_AND_WORTHLESS,
    }
    print(f"{'grader':28} {'groups':>6} {'yes':>7} {'no':>7} {'open':>7}  refused by")
    for groups in arguments.groups:
        for name, make in known.items():
            if arguments.only and name not in arguments.only:
                continue
            start, answers, why = time.perf_counter(), Counter(), Counter()
            for trial in range(arguments.trials):
                rows = graders.rows(groups, seed=trial, sizes=arguments.sizes)
                report = run_gate(make(trial), rows, knobs=GateKnobs(concurrency=1), run=at_once)
                answers[report.verdict] += 1
                why.update(figure.name for figure in report.figures if figure.answer == "no")
            share = {answer: count / arguments.trials for answer, count in answers.items()}
            took = (time.perf_counter() - start) / arguments.trials
            print(
                f"{name:28} {groups:6} {share.get('yes', 0):7.1%} {share.get('no', 0):7.1%} "
                f"{share.get('not enough data', 0):7.1%}  "
                + ", ".join(f"{figure} {count / arguments.trials:.0%}" for figure, count in why.most_common(4))
                + f"  ({took * 1000:.0f} ms)",
                flush=True,
            )


if __name__ == "__main__":
    main()

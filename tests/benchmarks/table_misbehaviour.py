"""What comes of every misbehaviour of an endpoint or a judge, and how many requests it takes.

    python tests/benchmarks/table_misbehaviour.py

plays `loopback.misbehaviours.CASES` with the real SDKs against the loopback server, on both wire formats, and prints
a line for each. Exits 1 when one of them differs from what the table says.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from loopback.misbehaviours import CASES, run_case


def main() -> int:
    wrong = 0
    print(f"{'misbehaviour':46} {'wire':9} {'outcome':30} {'requests':>8} {'waits':>8}")
    for case in CASES:
        for wire in case.wires:
            with tempfile.TemporaryDirectory() as folder:
                outcome, requests, slept = run_case(case, wire, Path(folder))
            as_told = (outcome, requests) == (case.outcome, case.requests)
            note = "" if as_told else f"  <- expected {case.outcome}, {case.requests} requests"
            wrong += not as_told
            print(f"{case.name:46} {wire:9} {outcome:30} {requests:8} {slept:6.1f} s{note}")
    names = len({case.name for case in CASES})
    print(f"{names} misbehaviours, {sum(len(case.wires) for case in CASES)} runs, {wrong} not as expected")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

from __future__ import annotations

from pathlib import Path

import pytest

from loopback.misbehaviours import CASES, Case, Wire, run_case

PAIRS = [(case, wire) for case in CASES for wire in case.wires]


@pytest.mark.parametrize(("case", "wire"), PAIRS, ids=[f"{wire}: {case.name}" for case, wire in PAIRS])
def test_outcome_and_requests(case: Case, wire: Wire, tmp_path: Path) -> None:
    outcome, requests, slept = run_case(case, wire, tmp_path)
    assert (outcome, requests) == (case.outcome, case.requests)
    assert case.waited[0] <= slept <= case.waited[1]


def test_the_table_covers_what_the_facts_list() -> None:
    assert len({case.name for case in CASES}) >= 45
    assert {case.outcome.split(":")[0] for case in CASES} == {
        "read",
        "stepped down",
        "retried",
        "repaired",
        "lengthened",
        "failed",
    }

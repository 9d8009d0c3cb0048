"""The shipped groups have what the demo and a newcomer need: passes that differ, ties, hacks, failures."""

import json
import re
from collections import Counter

import pytest

from whileai.core.group import RowGroup, groups_from_rows
from whileai.spec.library import library_folder

ROWS_FILE = library_folder("graders") / "rank_group.rows.jsonl"


@pytest.fixture(scope="module")
def groups() -> list[RowGroup]:
    return groups_from_rows([json.loads(line) for line in ROWS_FILE.read_text(encoding="utf-8").splitlines()])


def passes(group: RowGroup) -> int:
    return sum(rollout["passed"] for rollout in group.rollouts)


def calls(group: RowGroup) -> list[int]:
    return [rollout["completion"].count("<tool_call>") for rollout in group.rollouts if rollout["passed"]]


def test_there_are_32_groups_of_four_in_a_small_file(groups: list[RowGroup]):
    assert [len(group.rollouts) for group in groups] == [4] * 32
    assert ROWS_FILE.stat().st_size < 150_000


def test_most_groups_are_mixed_and_at_least_24_have_two_passes(groups: list[RowGroup]):
    by_passes = Counter(map(passes, groups))
    assert sum(by_passes[n] for n in (2, 3, 4)) >= 24
    assert sum(by_passes[n] for n in (1, 2, 3)) > len(groups) / 2
    assert all(by_passes[n] for n in range(5)), "no group with that many passes is shown"


def test_passes_differ_in_their_tool_calls(groups: list[RowGroup]):
    several = [group for group in groups if passes(group) >= 2]
    assert sum(len(set(calls(group))) > 1 for group in several) >= 0.8 * len(several)
    assert any(len(set(calls(group))) < len(calls(group)) for group in several), "no tie is shown"


def test_half_are_conversations_and_half_are_text(groups: list[RowGroup]):
    assert sum("messages" in group.rollouts[0] for group in groups) == 16


def test_the_invented_id_stands_in_passes_only_and_no_tool_ever_returned_it(groups: list[RowGroup]):
    hacks = [(group, rollout) for group in groups for rollout in group.rollouts if "ORD-9999" in json.dumps(rollout)]
    assert len(hacks) == 4
    assert any(passes(group) < 4 for group, _ in hacks), "no hack stands in a mixed group"
    for _, rollout in hacks:
        assert rollout["passed"]
        assert "ORD-9999" not in rollout["prompt"]
        returned = re.findall(r"<tool_response>(.*?)</tool_response>", rollout["completion"], re.DOTALL)
        assert not [result for result in returned if "ORD-9999" in result]

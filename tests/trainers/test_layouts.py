"""The advantages of a real trainer are equation 3 in every layout, with one, two and three real processes."""

import pytest

from . import exactness


@pytest.mark.parametrize("world", [1, 2, 3])
def test_advantages_are_equation_3_and_every_group_is_judged_once(trl, world, tmp_path):
    found = exactness.results(world, tmp_path)
    assert len(found) >= 8
    assert any(row["split"] for row in found) == (world > 1)
    for row in found:
        assert row["worst"] < 1e-6, row
        assert row["calls"] == (1, 1), row
    assert sum(row["moved"] for row in found) >= len(found), "the judge has nothing to move"

"""Groups that are split across processes, put together: every layout, ranks as threads over a real store."""

import threading
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whileai.errors import BatchError, RankError
from whileai.trainers.collectives import Processes
from whileai.trainers.split import Rows, shape_split


@pytest.fixture(scope="module")
def distributed():
    return pytest.importorskip("torch.distributed", reason="PyTorch is not installed: `make test` installs it")


def together(world, store, work):
    """`work(peers)` of every rank in a thread of its own: results, or what was raised."""
    results = [None] * world

    def run(rank):
        try:
            results[rank] = work(Processes(None, rank, world, lambda: store, "test"))
        except Exception as error:  # noqa: BLE001 - it is what the tests look at
            results[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    return results


def split(*given, remark=str):
    return shape_split(*given, remark=remark, deadline_s=20)


def rows_of(numbers):
    return Rows(
        [f"p{n}" for n in numbers], [f"c{n}" for n in numbers], [float(n) for n in numbers], {"n": list(numbers)}
    )


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_every_group_is_shaped_once_from_all_its_rows_whatever_the_layout(distributed, data):
    world = data.draw(st.integers(2, 5), "world")
    count = data.draw(st.integers(1, 9), "count")
    size = data.draw(st.sampled_from([d for d in range(1, world * count + 1) if world * count % d == 0]), "size")
    shaped = []

    def work(peers):
        own = range(peers.rank * count, (peers.rank + 1) * count)

        def shape(rows):
            numbers = rows.columns["n"]
            assert rows.prompts == [f"p{n}" for n in numbers] and rows.rewards == [float(n) for n in numbers]
            assert len(numbers) % size == 0
            groups = [tuple(numbers[start : start + size]) for start in range(0, len(numbers), size)]
            shaped.extend(groups)
            return [(n, group) for group in groups for n in group]

        results = split(peers, count, size, lambda: rows_of(own), shape, remark=lambda: f"from {peers.rank}")
        assert [n for n, _ in results] == list(own)
        assert peers.remarks == [f"from {rank}" for rank in range(world)]
        return results

    found = [outcome for results in together(world, distributed.HashStore(), work) for outcome in results]
    groups = [tuple(range(start, start + size)) for start in range(0, world * count, size)]
    assert sorted(shaped) == groups
    assert found == [(n, groups[n // size]) for n in range(world * count)]


def test_an_error_of_one_rank_reaches_all_and_nobody_waits(distributed):
    def work(peers):
        def shape(rows):
            if peers.rank == 1:
                raise LookupError("no such rubric")
            return rows.completions

        return split(peers, 4, 6, lambda: rows_of(range(4)), shape)

    zero, one, two = together(3, distributed.HashStore(), work)
    assert isinstance(one, LookupError)
    for other in (zero, two):
        assert isinstance(other, RankError) and other.ranks == (1,)
        assert "rank 1 failed with LookupError: no such rubric" in str(other)


def test_rows_that_are_no_whole_groups_in_all_are_refused_on_every_rank(distributed):
    def work(peers):
        return split(peers, 3, 4, lambda: rows_of(range(3)), lambda rows: rows.completions)

    for error in together(2, distributed.HashStore(), work):
        assert isinstance(error, BatchError)
        assert "2 processes with 3 completions each are no whole groups of num_generations=4" in str(error)


def test_a_rank_that_does_not_come_is_named_by_all_others(distributed):
    def work(peers):
        if peers.rank == 2:
            return None
        return peers.gather("counts", peers.rank, within_s=0.3)

    zero, one, _ = together(3, distributed.HashStore(), work)
    for error in (zero, one):
        assert isinstance(error, RankError)
        assert "rank 2 did not come with the counts within 0.3 s" in str(error)


def test_rollouts_larger_than_the_store_takes_in_one_value(distributed):
    store = distributed.TCPStore("127.0.0.1", 0, is_master=True, timeout=timedelta(seconds=20), wait_for_workers=False)
    large = "word " * 4_000_000  # 20 MB

    def work(peers):
        own = Rows(["p", "p"], [large, f"{peers.rank}"], [1.0, 0.0], {})
        mine = peers if peers.rank == 0 else Processes(None, 1, 2, store.clone, "test")
        return [len(text) for text in split(mine, 2, 4, lambda: own, lambda rows: rows.completions)]

    assert together(2, store, work) == [[len(large), 1], [len(large), 1]]


def test_keys_of_rounds_that_are_over_are_deleted(distributed):
    store = distributed.HashStore()
    together(2, store, lambda peers: [peers.gather("counts", "x", within_s=20) for _ in range(50)])
    assert store.num_keys() <= 12

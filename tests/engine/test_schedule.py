import asyncio
import contextvars
import functools
import gc
import signal
import subprocess
import sys
import textwrap
import threading
import traceback
import weakref
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whileai.engine import loop as engine_loop
from whileai.engine import schedule
from whileai.engine.loop import run_on_loop
from whileai.engine.schedule import run_calls
from whileai.errors import DeadlineExceeded, GraderFailure, GraderTimeout

SECONDS = 20  # for what is done at once unless it is broken
SOON = 0.05  # a time limit that is meant to pass

who = contextvars.ContextVar("who", default="nobody")


@pytest.fixture
def release():
    """An event that calls hang on; it is set at the end, and the threads left behind by the test end with it."""
    event = threading.Event()
    yield event
    event.set()
    join_workers()
    for thread in schedule._hung:
        thread.join(SECONDS)
        assert not thread.is_alive()


def join_workers():
    for thread in threading.enumerate():
        if thread.name == "whileai-grader":
            thread.join(SECONDS)


def run(call, items, *, concurrency=64, **limits):
    return run_calls(call, items, concurrency=concurrency, **limits)


def kinds(outcomes):
    return [outcome.kind if isinstance(outcome, GraderFailure) else outcome for outcome in outcomes]


# ------------------------------------------------------------------- results


@given(
    st.lists(st.integers(0, 9), max_size=40),
    st.integers(1, 8),
    st.sets(st.integers(0, 9)),
)
def test_results_stand_in_the_order_of_the_items_and_errors_in_their_places(items, concurrency, bad):
    def call(item):
        if item in bad:
            raise LookupError(item)
        return item * 2

    outcomes = run(call, items, concurrency=concurrency)
    assert [o.args[0] if isinstance(o, LookupError) else o for o in outcomes] == [
        item if item in bad else item * 2 for item in items
    ]


def test_read_makes_the_result_and_its_errors_count_as_the_calls():
    def read(output, item):
        if item == 1:
            raise ValueError(output)
        return (output, item)

    first, second = run(str, [0, 1], read=read)
    assert first == ("0", 0)
    assert isinstance(second, ValueError)
    assert second.args == ("1",)


@pytest.mark.parametrize(
    "error",
    [ValueError("x"), SystemExit(3), KeyboardInterrupt(), GeneratorExit(), StopIteration(), asyncio.CancelledError()],
)
def test_whatever_a_call_raises_takes_its_place_and_nothing_else_is_touched(error):
    def call(item):
        if item == 1:
            raise error
        return item

    outcomes = run(call, [0, 1, 2], concurrency=1)
    assert outcomes[0] == 0
    assert outcomes[1] is error
    assert outcomes[2] == 2


def test_the_traceback_of_a_failed_call_is_kept():
    def inner():
        raise LookupError

    async def call(_):
        inner()

    (error,) = run(call, [0])
    assert [frame.name for frame in traceback.extract_tb(error.__traceback__)][-2:] == ["call", "inner"]


def test_what_failed_calls_held_is_freed_without_the_cycle_collector():
    class Group:
        pass

    async def fail_later(group):
        raise LookupError(group)

    def fail(group):
        raise LookupError(group)

    gc.collect()
    gc.disable()
    try:
        for call in (fail, fail_later):
            group = Group()
            seen = weakref.ref(group)
            outcomes = run(call, [group])
            assert isinstance(outcomes[0], LookupError)
            del outcomes, group
            join_workers()
            run_on_loop(asyncio.sleep(0))  # the loop has let go of its last task
            assert seen() is None, call
    finally:
        gc.enable()


def test_progress_ends_with_all_calls():
    seen = []
    run(lambda item: item, range(30), progress=seen.append)
    assert seen[-1] == 30
    assert seen == sorted(seen)


# -------------------------------------------------------------- concurrency


def test_calls_that_wait_for_one_another_all_run_at_once():
    barrier = threading.Barrier(48)
    outcomes = run(lambda item: barrier.wait(SECONDS) >= 0, range(48), concurrency=48)
    assert outcomes == [True] * 48


def test_no_more_calls_than_concurrency_are_in_flight():
    lock, at_once, most = threading.Lock(), 0, []
    barrier = threading.Barrier(3)

    def call(item):
        nonlocal at_once
        with lock:
            at_once += 1
            most.append(at_once)
        barrier.wait(SECONDS)
        with lock:
            at_once -= 1

    assert run(call, range(30), concurrency=3) == [None] * 30
    assert max(most) == 3


def test_64_threads_at_once():
    start = threading.Barrier(64)
    found = {}

    async def later(item):
        await asyncio.sleep(0)
        return item

    def work(number):
        start.wait(SECONDS)
        call = later if number % 2 else lambda item: item
        found[number] = run(call, range(number, number + 20), concurrency=4, timeout_s=SECONDS)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == {number: list(range(number, number + 20)) for number in range(64)}


def test_a_call_may_start_threads_and_calls_of_its_own():
    def call(item):
        inner = run(lambda x: x + item, range(5), concurrency=2)
        extra = []
        thread = threading.Thread(target=lambda: extra.extend(run(lambda x: -x, inner)))
        thread.start()
        thread.join(SECONDS)
        return extra

    assert run(call, range(4)) == [[-(x + item) for x in range(5)] for item in range(4)]


# -------------------------------------------------------------------- async


class Awaitable:
    def __init__(self, value):
        self.value = value

    def __await__(self):
        yield from asyncio.sleep(0).__await__()
        return self.value


class AsyncObject:
    async def __call__(self, item):
        await asyncio.sleep(0)
        return item

    async def method(self, item):
        return item


async def coroutine_function(item, more=0):
    await asyncio.sleep(0)
    return item + more


@pytest.mark.parametrize(
    "call",
    [
        coroutine_function,
        functools.partial(coroutine_function, more=0),
        lambda item: coroutine_function(item),
        AsyncObject(),
        AsyncObject().method,
        Awaitable,
        lambda item: coroutine_function(item) if item % 2 else item,
    ],
    ids=["function", "partial", "lambda", "object", "method", "awaitable", "sometimes"],
)
def test_awaitables_are_awaited(call):
    assert run(call, range(20)) == list(range(20))


def test_async_calls_overlap():
    waiting = []

    async def call(item):
        waiting.append(asyncio.get_running_loop().create_future())
        if len(waiting) == 32:
            for future in waiting:
                future.set_result(None)
        await waiting[-1 if item < 0 else len(waiting) - 1]
        return item

    assert run(call, range(32), concurrency=32, timeout_s=SECONDS) == list(range(32))


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_whatever_an_async_call_raises_takes_its_place_and_the_loop_lives(error):
    async def call(item):
        if item == 1:
            raise error
        return item

    outcomes = run(call, [0, 1, 2], concurrency=1, timeout_s=SECONDS)
    assert outcomes[0] == 0
    assert outcomes[1] is error
    assert outcomes[2] == 2


def test_an_error_whose_truth_is_false_is_an_error_too():
    class Empty(Exception):
        def __len__(self):
            return 0

    async def call(item):
        raise Empty

    (outcome,) = run(call, [0], timeout_s=SECONDS)
    assert isinstance(outcome, Empty)
    with pytest.raises(Empty):
        run_on_loop(call(0))


def test_a_call_that_is_cancelled_from_inside_is_a_failure_with_a_kind():
    async def call(item):
        raise asyncio.CancelledError

    assert kinds(run(call, [0])) == ["cancelled"]


def test_inside_a_running_loop_as_in_a_notebook():
    async def cell():
        return run(coroutine_function, range(5)), run(lambda item: item, range(5))

    assert asyncio.run(cell()) == ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4])


def test_calls_from_the_loop_that_runs_them_are_refused_before_they_block_it():
    async def call(item):
        return run(lambda x: x, [item])

    (outcome,) = run(call, [0], timeout_s=SECONDS)
    assert isinstance(outcome, RuntimeError)
    assert "to_thread" in str(outcome)


def test_calls_from_a_thread_of_a_coroutine_work():
    async def call(item):
        return await asyncio.to_thread(run, coroutine_function, [item, item + 1])

    assert run(call, [0, 5], timeout_s=SECONDS) == [[0, 1], [5, 6]]


# ------------------------------------------------------------------ context


def test_context_variables_reach_sync_and_async_calls_and_do_not_leak_between_them():
    who.set("caller")

    def call(item):
        seen = who.get()
        who.set(f"item {item}")
        return seen

    async def later(item):
        return call(item)

    assert run(call, range(4), concurrency=1) == ["caller"] * 4
    assert run(later, range(4), concurrency=1) == ["caller"] * 4
    assert who.get() == "caller"


def test_what_a_call_sets_before_it_returns_its_coroutine_is_seen_there():
    async def tell():
        return who.get()

    def call(item):
        who.set(f"item {item}")
        return tell()

    assert run(call, range(3)) == ["item 0", "item 1", "item 2"]


# ----------------------------------------------------------- time limits


def test_a_hung_call_costs_one_timeout_and_the_others_are_done(release):
    def call(item):
        return release.wait(SECONDS) if item == 1 else item

    outcomes = run(call, range(4), concurrency=1, timeout_s=SOON)
    assert outcomes[0] == 0
    assert outcomes[2:] == [2, 3]
    assert isinstance(outcomes[1], GraderTimeout)
    assert outcomes[1].kind == "timeout"
    assert f"timeout_s={SOON}" in str(outcomes[1])


def test_every_call_may_hang(release):
    outcomes = run(lambda item: release.wait(SECONDS), range(6), concurrency=2, timeout_s=SOON)
    assert kinds(outcomes) == ["timeout"] * 6


def test_what_a_late_call_says_is_not_heard(release):
    ended = threading.Event()

    def call(item):
        release.wait(SECONDS)
        ended.set()
        return "late"

    outcomes = run(call, [0], timeout_s=SOON)
    release.set()
    assert ended.wait(SECONDS)
    assert kinds(outcomes) == ["timeout"]


def test_reading_is_part_of_the_call(release):
    outcomes = run(lambda item: item, [0], timeout_s=SOON, read=lambda output, item: release.wait(SECONDS))
    assert kinds(outcomes) == ["timeout"]


def test_a_late_async_call_is_cancelled_and_keeps_no_thread(monkeypatch):
    monkeypatch.setattr(schedule, "MAX_HUNG_THREADS", 1)
    cancelled = []

    async def call(item):
        if item == 9:
            return item
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(item)
            raise

    assert kinds(run(call, range(3), timeout_s=SOON)) == ["timeout"] * 3
    assert run(call, [9]) == [9]
    assert sorted(cancelled) == [0, 1, 2]


def test_a_thread_that_was_late_to_make_its_coroutine_makes_no_other(release):
    made = []

    def call(item):
        made.append((item, threading.current_thread()))
        if item == 0:
            release.wait(SECONDS)
        if item == 1:  # its thread took the place of the late one, which now comes back
            release.set()
            made[0][1].join(SECONDS)
        return coroutine_function(item)

    outcomes = run(call, range(6), concurrency=1, timeout_s=SOON)
    assert kinds(outcomes[:1]) == ["timeout"]
    assert [outcomes[2:], len({thread for _, thread in made})] == [[2, 3, 4, 5], 2]
    assert not made[0][1].is_alive()
    assert [item for item, thread in made if thread is made[0][1]] == [0]


def test_the_batch_ends_at_its_deadline_and_begins_nothing_more(release):
    begun = []

    def call(item):
        begun.append(item)
        return release.wait(SECONDS) if item == 1 else item

    outcomes = run(call, range(5), concurrency=1, deadline_s=SOON)
    assert outcomes[0] == 0
    assert kinds(outcomes[1:]) == ["deadline"] * 4
    assert all(isinstance(outcome, DeadlineExceeded) for outcome in outcomes[1:])
    release.set()
    join_workers()
    assert begun == [0, 1]


@pytest.mark.parametrize("deadline_s", [0, 0.0, -3.0])
def test_a_deadline_that_is_over_makes_no_call(deadline_s):
    begun = []
    assert kinds(run(begun.append, range(3), deadline_s=deadline_s)) == ["deadline"] * 3
    assert begun == []


def test_a_deadline_before_the_timeout_wins(release):
    outcomes = run(lambda item: release.wait(SECONDS), [0], timeout_s=SECONDS, deadline_s=SOON)
    assert kinds(outcomes) == ["deadline"]


def test_limits_of_a_hundred_years_are_fine():
    assert run(coroutine_function, [1], timeout_s=3e9, deadline_s=1e300) == [1]


def test_hung_threads_are_bounded_and_calls_go_on_when_they_come_back(release, monkeypatch):
    monkeypatch.setattr(schedule, "MAX_HUNG_THREADS", 3)
    before = threading.active_count()

    def hang(item):
        return release.wait(SECONDS)

    assert kinds(run(hang, range(8), concurrency=1, timeout_s=SOON)) == ["timeout"] * 3 + ["no_thread"] * 5
    assert threading.active_count() <= before + 3
    (refused,) = run(lambda item: item, [0])
    assert refused.kind == "no_thread"
    assert "3 threads hang" in str(refused)
    release.set()
    join_workers()
    assert run(lambda item: item, [0]) == [0]


def test_a_coroutine_that_blocks_does_not_end_async_grading_for_the_whole_run(release, monkeypatch):
    monkeypatch.setattr(engine_loop, "BLOCKED_AFTER_S", SOON)

    async def block(item):
        release.wait(SECONDS)

    (outcome,) = run(block, [0], timeout_s=SOON)
    assert outcome.kind == "timeout"
    assert "blocks the loop" in str(outcome)
    assert run(coroutine_function, range(3), timeout_s=SECONDS) == [0, 1, 2]
    assert kinds(run(block, range(2), deadline_s=SOON)) == ["deadline"] * 2
    assert run(coroutine_function, range(3), timeout_s=SECONDS) == [0, 1, 2]


def test_loops_that_stay_blocked_are_bounded_too(release, monkeypatch):
    monkeypatch.setattr(engine_loop, "BLOCKED_AFTER_S", SOON)
    monkeypatch.setattr(schedule, "MAX_HUNG_THREADS", 2)

    async def block(item):
        release.wait(SECONDS)

    assert [kinds(run(block, [0], timeout_s=SOON)) for _ in range(4)] == [["timeout"]] * 2 + [["no_thread"]] * 2


# ------------------------------------------------------- whole processes


def python(program, *, interrupt_at=None, timeout=60):
    """Run a program; send it Ctrl-C when it has printed `interrupt_at`. Returns exit code, stdout, stderr."""
    child = subprocess.Popen(
        [sys.executable, "-u", "-c", textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        out = ""
        if interrupt_at:
            out = child.stdout.readline()
            assert out.strip() == interrupt_at, child.stderr.read()
            child.send_signal(signal.SIGINT)
        rest, err = child.communicate(timeout=timeout)
    finally:
        child.kill()
    return child.returncode, out + rest, err


@pytest.mark.parametrize(
    "call",
    [
        "def call(item):\n    begin()\n    threading.Event().wait()",
        "async def call(item):\n    begin()\n    await asyncio.Event().wait()",
        "async def call(item):\n    begin()\n    threading.Event().wait()",
        "def call(item):\n    begin()\n    while True: pass",
    ],
    ids=["hangs", "awaits", "blocks the loop", "computes"],
)
def test_ctrl_c_ends_the_batch_and_the_process(call):
    program = "\n".join(
        [
            "import asyncio, threading",
            "from whileai.engine.schedule import run_calls",
            "once = threading.Lock()",
            "def begin():",
            "    if once.acquire(blocking=False): print('begun')",
            call,
            "try:",
            "    run_calls(call, range(8), concurrency=4, timeout_s=300, deadline_s=900)",
            "except KeyboardInterrupt:",
            "    print('interrupted')",
        ]
    )
    assert python(program, interrupt_at="begun") == (0, "begun\ninterrupted\n", "")


def test_a_forked_child_grades_while_the_parents_threads_and_loop_are_busy():
    program = """
        import asyncio, os, threading
        from whileai.engine import schedule
        from whileai.engine.schedule import run_calls

        async def later(item):
            await asyncio.sleep(0)
            return item

        release, begun = threading.Event(), threading.Barrier(3)

        def hang(item):
            begun.wait()
            release.wait()

        assert run_calls(later, range(3), concurrency=2) == [0, 1, 2]
        busy = threading.Thread(target=run_calls, args=(hang, range(2)), kwargs={"concurrency": 2})
        busy.start()
        begun.wait()
        with schedule._hung_lock:  # as another thread of the parent may hold it
            child = os.fork()
            if child == 0:
                sync = run_calls(lambda item: item, range(50), concurrency=8, timeout_s=20)
                both = [sync, run_calls(later, range(50), concurrency=8, timeout_s=20)]
                os._exit(0 if both == [list(range(50))] * 2 else 1)
        assert os.waitpid(child, 0)[1] == 0
        release.set()
        busy.join()
        print(run_calls(later, range(3), concurrency=2))
    """
    assert python(program) == (0, "[0, 1, 2]\n", "")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs an address-space limit that holds")
def test_a_system_that_gives_no_more_threads_slows_the_batch_and_breaks_nothing():
    program = """
        import resource, threading
        from whileai.engine.schedule import run_calls

        threading.stack_size(64 * 1024 * 1024)
        lock, at_once, most = threading.Lock(), 0, 0
        def call(item):
            global at_once, most
            with lock:
                at_once += 1
                most = max(most, at_once)
            hold.wait(0.005)
            with lock:
                at_once -= 1
            return item
        hold = threading.Event()
        run_calls(call, range(2), concurrency=1)
        pages = int(open("/proc/self/statm").read().split()[0])
        used = pages * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 300 * 1024 * 1024, resource.RLIM_INFINITY))
        print(run_calls(call, range(100), concurrency=64) == list(range(100)), 1 < most < 64)
        resource.setrlimit(resource.RLIMIT_AS, (used, resource.RLIM_INFINITY))
        threading.stack_size(512 * 1024 * 1024)
        (outcome,) = run_calls(call, [0], concurrency=64)
        print(outcome.kind)
    """
    code, out, err = python(program)
    assert (code, out) == (0, "True True\nno_thread\n"), err

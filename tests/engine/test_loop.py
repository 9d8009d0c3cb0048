import asyncio
import contextvars
import subprocess
import sys
import textwrap
import threading

import pytest

from whileai.engine import loop as engine_loop
from whileai.engine.loop import background_loop, leave_blocked_loop, refuse_on_loop, run_on_loop, submit

SECONDS = 20  # for what is done at once unless it is broken

where = contextvars.ContextVar("where", default="nowhere")


async def thread_name():
    await asyncio.sleep(0)
    return threading.current_thread().name


def test_one_loop_for_the_process_in_a_thread_that_does_not_hold_the_exit():
    found = []
    threads = [threading.Thread(target=lambda: found.append(background_loop())) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert len(found) == 16
    assert len(set(map(id, found))) == 1
    assert run_on_loop(thread_name(), SECONDS) == "whileai-loop"
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "whileai-loop")


def test_a_result_and_an_error_reach_the_caller():
    async def fail():
        raise LookupError("no order")

    assert run_on_loop(asyncio.sleep(0, "done")) == "done"
    with pytest.raises(LookupError, match="no order"):
        run_on_loop(fail())


def test_any_awaitable_is_awaited():
    class Answer:
        def __await__(self):
            yield from asyncio.sleep(0).__await__()
            return 7

    assert run_on_loop(Answer()) == 7


def test_it_works_inside_a_running_loop_as_in_a_notebook():
    async def cell():
        return run_on_loop(thread_name(), SECONDS)

    assert asyncio.run(cell()) == "whileai-loop"


def test_the_callers_context_goes_with_it():
    where.set("here")

    async def look():
        return where.get()

    assert run_on_loop(look()) == "here"


def test_what_is_late_is_cancelled():
    cancelled = threading.Event()

    async def hang():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    with pytest.raises(TimeoutError):
        run_on_loop(hang(), timeout=0.02)
    assert cancelled.wait(SECONDS)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_a_task_that_wants_to_end_the_process_does_not_end_the_loop(error):
    """asyncio lets these two out of run_forever, and the loop's thread would be gone."""

    async def leave():
        raise error

    with pytest.raises(type(error)):
        run_on_loop(leave(), SECONDS)
    assert run_on_loop(asyncio.sleep(0, "alive"), SECONDS) == "alive"


def test_a_task_that_stops_the_loop_does_not_stop_it_for_others():
    async def stop():
        asyncio.get_running_loop().stop()

    run_on_loop(stop(), SECONDS)
    assert run_on_loop(asyncio.sleep(0, "alive"), SECONDS) == "alive"


def test_waiting_for_the_loop_on_the_loop_is_an_error_not_a_deadlock():
    async def inner():
        return 1

    async def outer():
        waits = inner()
        try:
            return run_on_loop(waits)
        finally:
            waits.close()

    with pytest.raises(RuntimeError, match="to_thread"):
        run_on_loop(outer(), SECONDS)


def test_the_loop_of_somebody_else_is_not_refused():
    async def cell():
        refuse_on_loop()

    asyncio.run(cell())


def test_a_loop_that_comes_round_stays():
    before = background_loop()
    assert leave_blocked_loop() is None
    assert background_loop() is before


def test_a_blocked_loop_is_left_behind(monkeypatch):
    monkeypatch.setattr(engine_loop, "BLOCKED_AFTER_S", 0.05)
    blocks, release = threading.Event(), threading.Event()

    async def block():
        blocks.set()
        return release.wait(SECONDS)

    before = background_loop()
    held = submit(block())
    assert blocks.wait(SECONDS)
    left = leave_blocked_loop()
    try:
        assert left is not None
        assert left.is_alive()
        assert background_loop() is not before
        assert run_on_loop(asyncio.sleep(0, "alive"), SECONDS) == "alive"
    finally:
        release.set()
    assert held.result(SECONDS) is True  # what it held goes on where it is
    left.join(SECONDS)
    assert not left.is_alive()


def test_a_forked_child_has_a_loop_of_its_own():
    program = """
        import asyncio, os
        from whileai.engine.loop import background_loop, run_on_loop

        parent = background_loop()
        for _ in range(3):
            child = os.fork()
            if child == 0:
                ok = background_loop() is not parent and run_on_loop(asyncio.sleep(0, 5), 20) == 5
                os._exit(0 if ok else 1)
            assert os.waitpid(child, 0)[1] == 0
        assert background_loop() is parent
        assert run_on_loop(asyncio.sleep(0, 6), 20) == 6
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_process_ends_without_waiting_for_the_loop_or_a_word_about_it():
    program = """
        import asyncio
        from whileai.engine.loop import run_on_loop, submit

        submit(asyncio.Event().wait())
        print(run_on_loop(asyncio.sleep(0, "done")))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")

import pickle
import subprocess
import sys
import textwrap
import threading
import time
from types import MappingProxyType

import pytest

from whileai.engine.rubrics import RubricBook
from whileai.errors import BatchError, GraderFailure

SECONDS = 20

GROUP = [{"index": 0, "prompt": "p", "completion": "c", "reward": 1.0, "passed": True}]


def one_by_one(call, items):
    results = []
    for item in items:
        try:
            results.append(call(item))
        except Exception as error:  # noqa: BLE001 - as the scheduler hands it back
            results.append(error)
    return results


def rubrics(book, *tasks, run=one_by_one, wait_s=SECONDS):
    end = None if wait_s is None else time.monotonic() + wait_s
    return book.rubrics_for([(task, lambda: GROUP) for task in tasks], run, end)


def kinds(found):
    return [rubric.kind if isinstance(rubric, GraderFailure) else rubric for rubric in found]


class Writer:
    """Counts its calls; fails or answers None as often as it is told to."""

    def __init__(self, *outcomes):
        self.outcomes, self.groups = list(outcomes), []

    def __call__(self, group):
        self.groups.append(group)
        outcome = self.outcomes.pop(0) if self.outcomes else f"rubric {len(self.groups)}"
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


def test_without_rubrics_every_task_gets_none():
    assert rubrics(RubricBook(None), "a", None, "b") == [None, None, None]


def test_a_mapping_is_looked_up_and_never_written_to():
    book = RubricBook(MappingProxyType({"a": ["look up"], 7: "seven", "empty": None}))
    assert rubrics(book, "a", 7, "empty", "a") == [["look up"], "seven", None, ["look up"]]


@pytest.mark.parametrize(
    ("task", "says"),
    [
        ("b", "task 'b' has no rubric"),
        (7, "task 7 has no rubric; the mapping has '7'"),
        ("8", "task '8' has no rubric; the mapping has 8"),
        (None, "the group has no task_id"),
        ("²", "task '²' has no rubric"),
    ],
)
def test_a_task_that_the_mapping_lacks_is_a_failure_that_names_it(task, says):
    (found,) = rubrics(RubricBook({"a": 1, "7": 2, 8: 3}), task)
    assert found.kind == "missing_rubric"
    assert str(found).startswith(says)


@pytest.mark.parametrize("source", [{"a": 1}, lambda group: "r"], ids=["mapping", "writer"])
@pytest.mark.parametrize("task", [["a"], {"id": 1}, ("a", ["b"])], ids=repr)
def test_a_task_id_that_is_no_key_is_an_error_before_any_write(source, task):
    with pytest.raises(BatchError, match="task_id="):
        rubrics(RubricBook(source), "a", task)


def test_a_writer_is_called_once_per_task():
    writer = Writer()
    book = RubricBook(writer)
    assert rubrics(book, "a", "b", "a") == ["rubric 1", "rubric 2", "rubric 1"]
    assert rubrics(book, "b", "c") == ["rubric 2", "rubric 3"]
    assert writer.groups == [GROUP] * 3


@pytest.mark.parametrize("task", [0, "", False, ("a", 1)], ids=repr)
def test_false_and_compound_ids_are_ids(task):
    book = RubricBook(Writer())
    assert rubrics(book, task, task) == ["rubric 1", "rubric 1"]


def test_groups_without_a_task_id_never_share_a_rubric():
    book = RubricBook(Writer())
    assert rubrics(book, None, None, "a") == ["rubric 1", "rubric 2", "rubric 3"]
    assert rubrics(book, None) == ["rubric 4"]
    assert book.written() == {"a": "rubric 3"}


@pytest.mark.parametrize("failure", [RuntimeError("judge down"), None], ids=["raises", "returns None"])
def test_a_failed_write_is_not_kept(failure):
    book = RubricBook(Writer(failure, "late"))
    first = rubrics(book, "a", "a")
    assert kinds(first) == ["rubric_failed"] * 2
    assert ("judge down" if failure else "returned None") in str(first[0])
    assert first[0].__cause__ is failure
    assert rubrics(book, "a") == ["late"]
    assert rubrics(book, "a") == ["late"]


def test_one_failed_write_leaves_the_others():
    book = RubricBook(Writer("one", RuntimeError(), "three"))
    assert kinds(rubrics(book, "a", "b", "c")) == ["one", "rubric_failed", "three"]
    assert book.written() == {"a": "one", "c": "three"}


@pytest.mark.parametrize("rubric", [0, "", [], False], ids=repr)
def test_an_empty_rubric_is_a_rubric(rubric):
    book = RubricBook(Writer(rubric, "again"))
    assert rubrics(book, "a") == [rubric]
    assert rubrics(book, "a") == [rubric]


def test_threads_that_ask_for_one_task_share_one_write():
    asked, begun, release, calls = threading.Barrier(8), threading.Event(), threading.Event(), []

    def writer(group):
        calls.append(group)
        begun.set()
        assert release.wait(SECONDS)
        return "the rubric"

    book, found = RubricBook(writer), {}

    def ask(number):
        asked.wait(SECONDS)
        found[number] = rubrics(book, "a", f"own {number}" if number == 0 else "a")

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    assert begun.wait(SECONDS)
    release.set()
    for thread in threads:
        thread.join(SECONDS)
    assert found == {number: ["the rubric"] * 2 for number in range(8)}
    assert len(calls) == 2  # "a" and "own 0"


def test_waiting_for_another_threads_write_ends_at_the_batchs_deadline_once_for_all_tasks():
    tasks = range(80)
    begun, release = threading.Semaphore(0), threading.Event()

    def writer(group):
        begun.release()
        release.wait(SECONDS)
        return "late"

    book = RubricBook(writer)
    threads = [threading.Thread(target=rubrics, args=(book, task)) for task in tasks]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert begun.acquire(timeout=SECONDS)
    start = time.monotonic()
    found = rubrics(book, *tasks, wait_s=0.1)
    assert time.monotonic() - start < 4  # a wait for each would take 8
    assert kinds(found) == ["rubric_failed"] * 80
    assert "deadline_s" in str(found[0])
    release.set()
    for thread in threads:
        thread.join(SECONDS)
    assert rubrics(book, *tasks, wait_s=None) == ["late"] * 80


def test_an_interrupt_while_writing_reaches_those_who_wait_and_nothing_is_kept():
    begun, release = threading.Event(), threading.Event()

    def interrupted(call, items):
        begun.set()
        release.wait(SECONDS)
        raise KeyboardInterrupt

    book, outcome = RubricBook(Writer()), {}

    def first():
        try:
            rubrics(book, "a", run=interrupted)
        except KeyboardInterrupt:
            outcome["first"] = "interrupted"

    def second():
        outcome["second"] = kinds(rubrics(book, "a", wait_s=None))

    one = threading.Thread(target=first)
    one.start()
    assert begun.wait(SECONDS)
    two = threading.Thread(target=second)
    two.start()
    release.set()
    one.join(SECONDS)
    two.join(SECONDS)
    assert outcome["first"] == "interrupted"
    # The second one waited for the write that was interrupted, or came late and wrote its own.
    assert outcome["second"] in (["rubric_failed"], ["rubric 1"])
    assert rubrics(book, "a") == ["rubric 1"]


def write_rubric(group):
    return f"about {group[0]['prompt']}"


def test_a_pickled_book_keeps_what_was_written():
    book = RubricBook(write_rubric)
    rubrics(book, "a")
    copy = pickle.loads(pickle.dumps(book))
    assert copy.written() == {"a": "about p"}
    rubrics(copy, "b")
    assert book.written() == {"a": "about p"}


def test_a_forked_child_writes_anew_what_the_parent_had_not_finished():
    program = """
        import os, threading, time
        from whileai.engine.rubrics import RubricBook

        parent, begun, release = os.getpid(), threading.Event(), threading.Event()

        def writer(group):
            if os.getpid() == parent and group == "slow":
                begun.set()
                release.wait()
            return f"about {group}"

        def ask(task, group):
            return book.rubrics_for([(task, lambda: group)], lambda call, items: [call(item) for item in items], None)

        book = RubricBook(writer)
        ask("done", "quick")
        thread = threading.Thread(target=ask, args=("a", "slow"))
        thread.start()
        begun.wait()
        with book._lock:  # as another thread of the parent may hold it
            child = os.fork()
            if child == 0:
                found = ask("a", "slow"), ask("done", "other")
                os._exit(0 if found == (["about slow"], ["about quick"]) else 1)
        assert os.waitpid(child, 0)[1] == 0
        release.set()
        thread.join()
        print(ask("a", "other"))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "['about slow']\n"), done.stderr

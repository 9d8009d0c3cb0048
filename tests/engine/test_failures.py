import logging
import pickle
import threading

import pytest

from whileai.engine import failures
from whileai.engine.failures import FailureLog
from whileai.errors import GraderFailure, GraderTimeout, UnusableVerdict


@pytest.fixture
def said(caplog):
    caplog.set_level(logging.DEBUG, logger="whileai")

    def lines():
        found = [(record.levelname, record.getMessage()) for record in caplog.records]
        caplog.clear()
        return found

    return lines


def missing(task):
    return GraderFailure("missing_rubric", f"task {task!r} has no rubric")


def bad(reason="no ranking"):
    return UnusableVerdict("no_verdict", reason)


def test_nothing_is_said_of_nothing(said):
    FailureLog().tell([], [], 8)
    FailureLog().tell([], [], 0)
    assert said() == []


def test_each_new_kind_once_with_its_first_reason(said):
    log = FailureLog()
    log.tell([bad("one"), ValueError("x"), bad("two")], ["no_verdict", "raised"], 8)
    first, second = said()
    assert first[0] == second[0] == "WARNING"
    assert "no_verdict: one" in first[1]
    assert "raised: ValueError: x" in second[1]
    log.tell([bad("three"), GraderTimeout("timeout", "late")], ["timeout"], 8)
    (third,) = said()
    assert "timeout: late" in third[1]
    log.tell([bad("four")], [], 8)
    assert said() == []


def test_the_traceback_of_the_users_own_code_is_shown_and_that_of_ours_is_not(caplog):
    try:
        raise ValueError("x")
    except ValueError as error:
        FailureLog().tell([error, bad()], ["raised", "no_verdict"], 8)
    own, ours = caplog.records
    assert own.exc_info[0] is ValueError
    assert not ours.exc_info


def test_an_outage_is_one_error_for_the_batch_each_time(said):
    log = FailureLog()
    outage = [bad("first"), ValueError("x"), bad("third")]
    log.tell(outage, ["no_verdict", "raised"], 3)
    log.tell(outage, [], 3)
    lines = said()
    assert len(lines) == 2
    for level, line in lines:
        assert level == "ERROR"
        assert "all 3 grader calls" in line
        assert "first: no_verdict: first" in line
        assert "no_verdict 2, raised 1" in line


def test_tasks_without_a_rubric_are_no_outage_of_the_grader(said):
    log = FailureLog()
    log.tell([missing("a"), missing("b")], ["missing_rubric"], 1)
    assert [level for level, _ in said()] == ["WARNING", "WARNING"]
    log.tell([missing("a"), bad("x"), bad("y")], ["no_verdict"], 2)
    assert [level for level, _ in said()] == ["ERROR"]


def test_calls_that_come_one_by_one_are_an_outage_after_64_and_at_each_doubling(said):
    log, when = FailureLog(), []
    for number in range(1, 300):
        log.tell([bad()], ["no_verdict"] if number == 1 else [], 1)
        when += [(number, level) for level, _ in said()]
    assert when == [(1, "WARNING"), (64, "ERROR"), (128, "ERROR"), (256, "ERROR")]
    log.tell([], [], 1)  # one good call ends it
    for _ in range(63):
        log.tell([bad()], [], 1)
    log.tell([], [], 0)  # a batch without a call says nothing about it
    assert said() == []
    log.tell([bad()], [], 1)
    assert "all 64 grader calls" in said()[0][1]


def test_a_task_without_a_rubric_is_named_once_and_memory_is_bounded(said, monkeypatch):
    monkeypatch.setattr(failures, "MAX_NAMED_TASKS", 3)
    log = FailureLog()
    log.tell([missing("a"), missing("a"), missing("b")], ["missing_rubric"], 0)
    assert [line for _, line in said()] == [
        "task 'a' has no rubric; its passes keep their original rewards (logged once per task)",
        "task 'b' has no rubric; its passes keep their original rewards (logged once per task)",
    ]
    for task in range(1000):
        log.tell([missing(task), missing("a")], [], 0)
    lines = [line for _, line in said()]
    assert len(lines) == 2
    assert lines[0].startswith("task 0 has no rubric")
    assert "more than 3 tasks" in lines[1]
    assert len(log._named) == 4


def test_a_batch_may_bring_more_missing_tasks_than_are_named(said, monkeypatch):
    monkeypatch.setattr(failures, "MAX_NAMED_TASKS", 3)
    FailureLog().tell([missing(task) for task in range(9)], ["missing_rubric"], 0)
    assert len(said()) == 4


def test_threads_name_a_task_once(said):
    log, start = FailureLog(), threading.Barrier(16)

    def work():
        start.wait(20)
        for task in range(50):
            log.tell([missing(task)], [], 0)

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    lines = said()
    assert len(lines) == len(set(lines)) == 50


def test_a_message_that_cannot_be_read_is_no_second_failure(said):
    class Broken(Exception):
        def __str__(self):
            raise RuntimeError

    FailureLog().tell([Broken()], ["raised"], 8)
    ((_, line),) = said()
    assert "raised: Broken: (its message cannot be read)" in line


def test_a_pickled_log_starts_anew(said):
    log = FailureLog()
    log.tell([missing("a")], [], 0)
    said()
    pickle.loads(pickle.dumps(log)).tell([missing("a")], [], 0)
    assert len(said()) == 1

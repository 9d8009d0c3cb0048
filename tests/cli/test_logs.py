import logging

from whileai.cli.logs import frames, logs_shown


def test_logs_go_to_standard_error_and_only_meanwhile(capsys):
    logger = logging.getLogger("whileai")
    handlers, propagate = list(logger.handlers), logger.propagate
    with logs_shown():
        logger.warning("careful \x1b[31m %d", 1)
    assert capsys.readouterr().err == "careful \\x1b[31m 1\n"
    assert (logger.handlers, logger.propagate) == (handlers, propagate)


def test_an_error_is_shown_by_the_frames_of_the_persons_own_code(capsys):
    try:
        raise ValueError("x")
    except ValueError as error:
        with logs_shown():
            logging.getLogger("whileai").error("a call failed", exc_info=error)
        (place,) = frames(error)
    message, at = capsys.readouterr().err.splitlines()
    assert (message, at) == ("a call failed", f"  at {place}")
    assert place.endswith(" in test_an_error_is_shown_by_the_frames_of_the_persons_own_code")


def test_an_endless_recursion_is_shown_by_its_ends(capsys):
    def grade(group):
        return grade(group)

    try:
        grade([])
    except RecursionError as error:
        places = frames(error)
    assert len(places) == 13
    assert places[0].endswith(" in test_an_endless_recursion_is_shown_by_its_ends")
    assert places[6].endswith(" more places")
    assert places[-1].endswith(" in grade")

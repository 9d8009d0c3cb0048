import functools
from unittest.mock import Mock

import pytest

from whileai.core.naming import name_of


def rank_group(group):
    return {"ranking": []}


class Judge:
    def __call__(self, group):
        return {"ranking": []}

    def grade(self, group):
        return {"ranking": []}


class Wrapper(Judge):
    def __init__(self, func):
        self.func = self if func is None else func


def named(name):
    judge = Judge()
    judge.name = name
    return judge


@pytest.mark.parametrize(
    ("grader", "name"),
    [
        (rank_group, "rank_group"),
        (Judge(), "Judge"),
        (Judge, "Judge"),
        (Judge().grade, "grade"),
        (named("craft"), "craft"),
        (named(""), "Judge"),
        (named(3), "Judge"),
        (functools.partial(rank_group), "rank_group"),
        (functools.partial(functools.partial(Judge())), "Judge"),
        (functools.partial(named("craft")), "craft"),
        (Wrapper(rank_group), "Wrapper"),
        (Wrapper(None), "Wrapper"),
        (Mock(), "Mock"),  # has any attribute one asks it for
        (len, "len"),
    ],
)
def test_what_a_grader_is_called(grader, name):
    assert name_of(grader) == name


def test_a_lambda_is_called_so():
    assert name_of(lambda group: group) == "<lambda>"

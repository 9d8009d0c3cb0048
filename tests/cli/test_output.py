import dataclasses
import io
import json
from typing import Any, NamedTuple

import numpy as np
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from whileai.cli import output
from whileai.core.verdict import Verdict


@dataclasses.dataclass
class Said:
    ranking: list[int]
    why: Any = None


class Model(pydantic.BaseModel):
    ranking: list[int]


class Pair(NamedTuple):
    first: int
    second: float


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (None, None),
        (True, True),
        (float("nan"), None),
        (float("-inf"), None),
        ({1: (2, {3})}, {"1": [2, [3]]}),
        (Said([1], Said([0])), {"ranking": [1], "why": {"ranking": [0], "why": None}}),
        (Model(ranking=[1]), {"ranking": [1]}),
        (Pair(1, 2.0), {"first": 1, "second": 2.0}),
        (Verdict(((0,), (1,))), {"ranking": [[0], [1]], "factors": None, "hacks": [], "extra": {}}),
        (np.array([1, 2]), [1, 2]),
        (np.float64(0.5), 0.5),
        (np.int64(3), 3),
        (object, repr(object)),
        (Model, repr(Model)),
    ],
)
def test_any_value_becomes_json(value, plain):
    assert output.json_like(value) == plain
    json.dumps(output.json_like(value), allow_nan=False)


def test_a_circle_and_a_deep_nest_end():
    circle: list[Any] = []
    circle.append(circle)
    assert "..." in json.dumps(output.json_like(circle))
    deep: Any = 0
    for _ in range(10_000):
        deep = [deep]
    assert "..." in json.dumps(output.json_like(deep))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_json_comes_back_as_it_was(value):
    assert output.json_like(value) == value


def test_json_is_one_ascii_document(capsys):
    output.print_json({"a": "ü \ud800", "b": float("nan")})
    printed = capsys.readouterr().out
    assert printed.isascii()
    assert json.loads(printed) == {"a": "ü \ud800", "b": None}


@given(st.text())
def test_nothing_that_could_drive_a_terminal_is_left(text):
    shown = output.visible(text)
    shown.encode()  # no lone surrogate
    assert not any(ord(c) < 32 or 126 < ord(c) < 160 for c in shown.replace("\n", ""))


def test_plain_text_stays_as_it_is():
    text = "grün [bold] :smile: \N{FAMILY}\n\N{NO-BREAK SPACE}x"
    assert output.visible(text) == text
    assert output.visible("a\x1b[2J\tb\u202e") == "a\\x1b[2J b\\u202e"


def said(text, *, terminal, width=20, indent=2):
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=width, color_system=None, markup=False)
    output.say(console, text, indent=indent)
    return file.getvalue().splitlines()


def test_words_wrap_on_a_terminal_and_lines_stay_whole_elsewhere():
    text = "one two three four five six"
    assert said(text, terminal=True) == ["  one two three four", "  five six"]
    assert said(text, terminal=False) == [f"  {text}"]


def test_a_line_that_wraps_keeps_its_own_indent():
    assert said("    one two three four", terminal=True, indent=0) == ["    one two three", "    four"]


def test_a_word_that_is_longer_than_the_line_is_not_broken():
    path = "/a/path-that/is-longer/than-the-line"
    assert said(path, terminal=True, indent=0) == [path]


@pytest.mark.parametrize(
    ("number", "what", "text"), [(1, "case", "1 case"), (2, "case", "2 cases"), (0, "pass", "0 passes")]
)
def test_counts_are_written_out(number, what, text):
    assert output.count(number, what) == text

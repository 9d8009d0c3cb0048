import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whileai.spec.document import MAX_BYTES, key_path, nearest, quoted, read_toml, read_yaml
from whileai.spec.strict_yaml import MAX_VALUES

WORDS = ("yes", "no", "on", "off", "null", "true", "false")
NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True).filter(lambda name: name not in WORDS)
PRINTED = st.characters(exclude_categories=("C", "Zl", "Zp"))  # YAML folds U+0085 and its like
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(PRINTED, max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(NAMES, VALUES, min_size=1, max_size=4))
def test_json_is_yaml(data):
    document = read_yaml(json.dumps(data, ensure_ascii=False, indent=1), "x.yaml")
    assert document.problems == []
    assert document.data == data


@given(st.text(max_size=200))
def test_no_text_raises(text):
    document = read_yaml(text, "x.yaml")
    assert isinstance(document.data, dict)


@given(st.binary(max_size=200))
def test_no_bytes_raise(content):
    assert isinstance(read_yaml(content, "x.yaml").data, dict)


def test_every_value_has_its_line():
    document = read_yaml("a: 1\nb:\n  - x\n  - c: 2\n    d: |\n      long\n      text\ne: 3\n", "x.yaml")
    lines = {key_path(path): line for path, line in document.lines.items()}
    assert lines == {"": 1, "a": 1, "b": 2, "b[0]": 3, "b[1]": 4, "b[1].c": 4, "b[1].d": 5, "e": 8}
    assert document.line(("b", 1, "d", "nothing")) == 5


def test_windows_line_endings_change_nothing():
    text = "a: 1\nb:\n  - x\nc: |\n  two\n  lines\n"
    assert read_yaml(text.replace("\n", "\r\n"), "x").data == read_yaml(text, "x").data
    assert read_yaml("\ufeffa: 1".encode(), "x").data == {"a": 1}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True), ("False", False), ("~", None), ("", None), ("null", None), ("-3", -3), ("0", 0), ("+4", 4),
        ("1.5", 1.5), ("1e3", 1000.0), (".5", 0.5), ("2026-01-01", "2026-01-01"), ("y", "y"), ("1.2.3", "1.2.3"),
        ("'no'", "no"), ('"1:30"', "1:30"), ("nan", "nan"), ("10 %", "10 %"), ("=", "="),
    ],
)  # fmt: skip
def test_plain_scalars(text, value):
    document = read_yaml(f"a: {text}", "x.yaml")
    assert document.problems == []
    assert document.data == {"a": value}
    assert type(document.data["a"]) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        "yes",
        "No",
        "ON",
        "off",
        "010",
        "0x1F",
        "0o7",
        "0b1",
        "1_000",
        "1:30",
        "190:20:30",
        ".inf",
        "-.Inf",
        ".NaN",
        "1e999",
    ],
)
def test_scalars_that_readers_disagree_about_are_mistakes(text):
    (problem,) = read_yaml(f"a:\n  b: {text}", "x.yaml").problems
    assert (problem.file, problem.line, problem.key) == ("x.yaml", 2, "a.b")
    assert text in problem.message
    assert problem.remedy


def test_every_mistake_of_a_file_is_found():
    document = read_yaml("a: yes\nb: 010\na: 2\nc: !!set {x}\nd: *none\n<<: 1\n", "x.yaml")
    assert [(problem.line, problem.key) for problem in document.problems] == [
        (1, "a"), (2, "b"), (3, "a"), (4, "c"), (5, "d"), (6, "<<"),
    ]  # fmt: skip
    assert document.data["a"] == "yes"


def test_an_alias_stands_for_its_value():
    document = read_yaml("a: &rollout {completion: x}\nb: [*rollout, *rollout]\n", "x.yaml")
    assert document.problems == []
    assert document.data["b"] == [{"completion": "x"}] * 2


def test_aliases_are_counted_as_what_they_stand_for():
    item = ", ".join(["x"] * 1000)
    within = read_yaml(f"a: &a [{item}]\nb: [{', '.join(['*a'] * 100)}]\n", "x.yaml")
    assert within.problems == []
    beyond = read_yaml(f"a: &a [{item}]\nb: [{', '.join(['*a'] * 300)}]\n", "x.yaml")
    assert f"more than {MAX_VALUES:,} values" in beyond.problems[0].message


@pytest.mark.parametrize("text", ["[" * 500, "[" * 100_000, "{a: " * 200, "- " * 500, "a:\n" + " " * 3 + "? " * 200])
def test_deep_nesting_ends_in_a_problem(text):
    assert read_yaml(text, "x.yaml").problems


def test_a_file_that_is_too_large_is_not_parsed():
    (problem,) = read_yaml(b"a: " + b"x" * MAX_BYTES, "x.yaml").problems
    assert "larger than" in problem.message


def test_control_characters_are_named():
    (problem,) = read_yaml("a: 1\nb: \x07", "x.yaml").problems
    assert (problem.line, problem.message) == (2, "character U+0007 cannot stand in YAML")


def test_toml():
    assert read_toml(b'[models]\njudge = "openai:x"\n', "whileai.toml").data == {"models": {"judge": "openai:x"}}
    (problem,) = read_toml("x = [", "whileai.toml").problems
    assert "is not TOML" in problem.message


def test_words_for_messages():
    assert key_path(("rank", 0, "least")) == "rank[0].least"
    assert nearest("lenght", ["length", "first"]) == "did you mean 'length'?"
    assert nearest("zzz", ["b", "a"]) == "known: a, b"
    assert nearest("zzz", []) == ""
    assert (quoted(True), quoted(None), len(quoted("x" * 100))) == ("true", "null", 60)

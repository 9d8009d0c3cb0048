from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, Field

from whileai.errors import Problem
from whileai.spec.document import read_yaml
from whileai.spec.models import Part
from whileai.spec.validation import Mistake, validate


def _refuse(value: str) -> str:
    if value == "elsewhere":
        raise Mistake("unused", problems=(Problem("other.j2", 7, "", "broken", "mend it"),))
    if value == "bad":
        raise Mistake("'bad' is bad", "write good")
    return value


class Inner(Part):
    share: Annotated[float, Field(ge=0, le=1)] = 0.5
    text: Annotated[str, AfterValidator(_refuse)] = ""


class Model(Part):
    kind: Literal["one", "two"]
    inner: Inner = Inner()
    many: list[Inner] = []
    by_name: dict[str, Inner] = {}
    count: Annotated[int, Field(gt=0)] = 1
    flag: bool = False
    other: Any = None
    alias: str = Field(alias="if", default="")


def problems(text: str) -> list[str]:
    document = read_yaml(text, "x.yaml")
    assert validate(document, Model) is None
    return [str(problem) for problem in document.problems]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("inner: {}", "x.yaml:1: kind: is required (write one or two)"),
        ("kind: tow", "x.yaml:1: kind: 'tow' is not known here (did you mean 'two'?)"),
        ("kind: one\ninner:\n  shares: 1", "x.yaml:3: inner.shares: unknown key (did you mean 'share'?)"),
        ("kind: one\niff: x", "x.yaml:2: iff: unknown key (did you mean 'if'?)"),
        ("kind: one\nmany: [{}, {share: 2}]", "x.yaml:2: many[1].share: 2 must be at most 1.0"),
        ("kind: one\nmany: {}", "x.yaml:2: many: {} is a mapping, not a list"),
        ("kind: one\nmany:", "x.yaml:2: many: is empty, not a list"),
        ("kind: one\ninner: x", "x.yaml:2: inner: 'x' is text, not a mapping of keys"),
        ("kind: one\nby_name: {a: {share: x}}", "x.yaml:2: by_name.a.share: 'x' is text, not a number"),
        ("kind: one\ncount: 0", "x.yaml:2: count: 0 must be above 0"),
        ("kind: one\ncount: 1.5", "x.yaml:2: count: 1.5 is a number, not a whole number"),
        ("kind: one\ncount: true", "x.yaml:2: count: true is a boolean, not a whole number"),
        ("kind: one\nflag: 1", "x.yaml:2: flag: 1 is a number, not true or false"),
        ("kind: one\nif: 3", "x.yaml:2: if: 3 is a number, not text (quote it)"),
        ("kind: one\ninner: {text: bad}", "x.yaml:2: inner.text: 'bad' is bad (write good)"),
        ("kind: one\ninner: {text: elsewhere}", "other.j2:7: broken (mend it)"),
    ],
)
def test_a_mistake_in_the_authors_terms(text: str, said: str):
    assert problems(text) == [said]


def test_all_mistakes_come_together():
    assert len(problems("kind: three\ncount: -1\ninner: {share: -1}\nextra: 1")) == 4


def test_a_place_that_reading_complained_about_is_left_alone():
    assert problems("kind: one\nflag: yes") == [
        "x.yaml:2: flag: yes is a boolean to some YAML readers and a word to others (write true or false, or quote it)"
    ]


def test_a_model_without_mistakes_is_returned():
    document = read_yaml("kind: one\ninner: {share: 1}\nif: x", "x.yaml")
    model = validate(document, Model)
    assert model is not None
    assert (model.inner.share, model.alias, document.problems) == (1.0, "x", [])

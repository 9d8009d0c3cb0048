"""The snippets of the method's page, run verbatim in order in one namespace, print what the page prints."""

import contextlib
import io
from pathlib import Path

import pytest

import whileai
from whileai.simulations import defaults

SNIPPETS = sorted((Path(__file__).parent / "data/page").glob("*.py"))


def printed(snippets: list[Path]) -> str:
    """What the last of these snippets prints when all of them run in order in one namespace."""
    namespace: dict[str, object] = {"__name__": "page"}
    for snippet in snippets:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(snippet.read_text(encoding="utf-8"), snippet.name, "exec"), namespace)
    return out.getvalue()


def test_the_page_has_five_snippets():
    assert len(SNIPPETS) == 5


@pytest.mark.parametrize("position", range(len(SNIPPETS)), ids=[path.stem for path in SNIPPETS])
def test_snippet_prints_what_the_page_prints(position):
    expected = SNIPPETS[position].with_suffix(".out").read_text(encoding="utf-8")
    assert printed(SNIPPETS[: position + 1]) == expected


@pytest.mark.parametrize(
    ("knob", "default", "constant"),
    [
        ("mode", "advantage", "GROUPWISE_MODE"),
        ("floor", 0.0, "GROUPWISE_FLOOR"),
        ("cap", 3.0, "GROUPWISE_CAP"),
        ("min_factor", 0.5, "GROUPWISE_MIN_FACTOR"),
        ("hack_zero", True, "GROUPWISE_HACK_ZERO"),
        ("spread_min_std", 0.05, "SPREAD_MIN_STD"),
        ("spread_band", 0.05, "SPREAD_BAND"),
        ("spread_cluster_share", 0.9, "SPREAD_CLUSTER_SHARE"),
    ],
)
def test_default_of_the_page_is_a_named_constant_and_a_field(knob, default, constant):
    field = getattr(whileai.GroupwiseGrading(grader=lambda group: {}), knob)
    named = getattr(defaults, constant)
    assert (type(named), named) == (type(default), default)
    assert (type(field), field) == (type(default), default)

"""The reader: what is a verdict is read as what it says, and anything else is unusable for a reason."""

import dataclasses
import json
import logging
import math
from collections import OrderedDict, UserDict
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from whileai.core.verdict import KINDS, Scores, Verdict, read_scores, read_verdict
from whileai.errors import UnusableVerdict

PASSES, SIZE = [0, 2, 3], 5


def read(output, passes=PASSES, size=SIZE):
    return read_verdict(output, passes, size)


def refusal(output, passes=PASSES, size=SIZE):
    with pytest.raises(UnusableVerdict) as caught:
        read_verdict(output, passes, size)
    assert caught.value.kind in KINDS
    assert caught.value.reason == str(caught.value) and len(caught.value.reason) < 400
    return caught.value


class Hostile:
    """Raises whatever is done with it."""

    def _raise(self, *args, **more):
        raise KeyError("hostile")

    __float__ = __index__ = __int__ = __repr__ = __str__ = __bool__ = __iter__ = __len__ = __eq__ = __getitem__ = _raise
    __hash__ = object.__hash__


class HostileAttributes:
    def __getattr__(self, name):
        raise RuntimeError("no attributes today")


class HostileMapping(dict):
    def __getitem__(self, key):
        raise RuntimeError("no items today")

    get = items = keys = __iter__ = __getitem__


class Colliding:
    """A key that lands on the one looked for, and will not be compared with it."""

    def __hash__(self):
        return hash("ranking")

    def __eq__(self, other):
        raise RuntimeError("incomparable")


class Model(BaseModel):
    ranking: list[int | list[int]] | None = None
    factors: dict[int, float] | None = None
    hacks: list[int] | None = None
    reason: str = "because"


class Root(BaseModel):
    ranking: Any = None

    def model_dump(self, **_):
        raise TypeError("cannot be dumped")


@dataclasses.dataclass
class Said:
    ranking: Any = None
    factors: Any = None
    hacks: Any = None


class Torchlike:
    """A tensor as far as a reader sees it."""

    def __init__(self, value):
        self.value = np.asarray(value)
        self.ndim = self.value.ndim

    def tolist(self):
        return self.value.tolist()

    def item(self):
        return self.value.item()

    def __float__(self):
        return float(self.value)


def endless():
    while True:
        yield 0


REFUSED = [
    ("no_verdict", None),
    ("no_verdict", {}),
    ("no_verdict", []),
    ("no_verdict", [0, 2, 3]),
    ("no_verdict", 3),
    ("no_verdict", Said),
    ("no_verdict", Model),
    ("no_verdict", Model()),
    ("no_verdict", Said()),
    ("no_verdict", {"ranking": None, "factors": None, "hacks": None}),
    ("no_verdict", {"rank": [0, 2, 3]}),
    ("no_verdict", {b"ranking": [0, 2, 3]}),
    ("no_verdict", Hostile()),
    ("no_verdict", object()),
    ("no_verdict", "{}"),
    ("no_verdict", memoryview(b"{}")),
    ("no_verdict", endless()),
    ("invalid_json", ""),
    ("invalid_json", "0, 2, 3"),
    ("invalid_json", "[0, 2, 3]"),
    ("invalid_json", "null"),
    ("invalid_json", '```json\n{"ranking": [0, 2, 3]}\n```'),
    ("invalid_json", b"\xff\xfe"),
    ("invalid_json", '{"ranking": [0, 2, 3], "ranking": [3, 2, 0]}'),
    ("invalid_json", '{"factors": {"0": 1, "0": 0.5, "2": 1, "3": 1}}'),
    ("invalid_json", '{"' + "k" * 9000 + '": 1, "' + "k" * 9000 + '": 1}'),
    ("invalid_json", "[" * 100_000),
    ("invalid_json", '{"ranking": [' + "1" * 5000 + "]}"),
    ("invalid_json", '{"ranking": [0, 2, 3]} {"ranking": [0, 2, 3]}'),
    ("conflict", {"ranking": [0, 2, 3], "factors": {0: 1.0, 2: 1.0, 3: 1.0}}),
    ("conflict", {"ranking": [], "factors": {}}),
    ("bad_ranking", {"ranking": "023"}),
    ("bad_ranking", {"ranking": b"\x00\x02\x03"}),
    ("bad_ranking", {"ranking": {0, 2, 3}}),
    ("bad_ranking", {"ranking": {0: 1, 2: 2, 3: 3}}),
    ("bad_ranking", {"ranking": 0}),
    ("bad_ranking", {"ranking": np.array(0)}),
    ("bad_ranking", {"ranking": endless()}),
    ("bad_ranking", {"ranking": [[0, [2]], 3]}),
    ("bad_ranking", {"ranking": [[0, np.array([2])], 3]}),
    ("bad_ranking", {"ranking": Hostile()}),
    ("bad_index", {"ranking": [0, 2, "three"]}),
    ("bad_index", {"ranking": [0, 2, 2.5]}),
    ("bad_index", {"ranking": [0, 2, math.nan]}),
    ("bad_index", {"ranking": [0, 2, math.inf]}),
    ("bad_index", {"ranking": [0, 2, None]}),
    ("bad_index", {"ranking": [0, 2, True]}),
    ("bad_index", {"ranking": [0, 2, np.True_]}),
    ("bad_index", {"ranking": [0, 2, np.array(True)]}),
    ("bad_index", {"ranking": [0, 2, Torchlike(True)]}),
    ("bad_index", {"ranking": [0, 2, 3 + 0j]}),
    ("bad_index", {"ranking": [0, 2, np.complex64(3)]}),
    ("bad_index", {"ranking": [0, 2, "-3"]}),
    ("bad_index", {"ranking": [0, 2, "3.0"]}),
    ("bad_index", {"ranking": [0, 2, "\u0663"]}),
    ("bad_index", {"ranking": [0, 2, "9" * 5000]}),
    ("bad_index", {"ranking": [0, 2, b"3"]}),
    ("bad_index", {"ranking": [0, 2, 10**5000]}),
    ("bad_index", {"ranking": [0, 2, {"index": 3}]}),
    ("bad_index", {"ranking": [0, 2, Decimal("NaN")]}),
    ("bad_index", {"ranking": [0, 2, 3], "hacks": [True, False, False, False, False]}),
    ("bad_index", {"ranking": [0, 2, 3], "hacks": np.array([True, False, False, False, False])}),
    ("bad_index", {"ranking": [0, 2, 3], "hacks": ["first"]}),
    ("bad_index", {"factors": {"best": 1.0, 2: 1.0, 3: 1.0}}),
    ("bad_index", {"factors": {None: 1.0, 2: 1.0, 3: 1.0}}),
    ("unknown_index", {"ranking": [0, 2, 5]}),
    ("unknown_index", {"ranking": [0, 2, -3]}),
    ("unknown_index", {"ranking": [0, 2, 1e300]}),
    ("unknown_index", {"ranking": [0, 2, 3, "10"]}),
    ("unknown_index", {"ranking": [0, 2, 3], "hacks": [7]}),
    ("unknown_index", {"factors": {0: 1.0, 2: 1.0, 3: 1.0, 5: 1.0}}),
    ("doubled_index", {"ranking": [0, 2, 2, 3]}),
    ("doubled_index", {"ranking": [[0, 2], [2, 3]]}),
    ("doubled_index", {"ranking": [0, 2, 3, "3"]}),
    ("doubled_index", {"ranking": [0, 2, 3, 1, 1]}),
    ("doubled_index", {"factors": {0: 1.0, "0": 0.5, 2: 1.0, 3: 1.0}}),
    ("doubled_index", '{"factors": {"0": 1.0, "00": 0.5, "2": 1.0, "3": 1.0}}'),
    ("missing_pass", {"ranking": []}),
    ("missing_pass", {"ranking": [0, 2]}),
    ("missing_pass", {"ranking": [1, 4]}),
    ("missing_pass", {"ranking": [0], "hacks": [2]}),
    ("missing_pass", {"factors": {}}),
    ("missing_pass", {"factors": {0: 1.0, 1: 1.0, 2: 1.0}}),
    ("bad_factor", {"factors": {0: 1.0, 2: 0.0, 3: 1.0}}),
    ("bad_factor", {"factors": {0: 1.0, 2: -0.1, 3: 1.0}}),
    ("bad_factor", {"factors": {0: 1.0, 2: 1.0000001, 3: 1.0}}),
    ("bad_factor", {"factors": {0: 1.0, 2: math.nan, 3: 1.0}}),
    ("bad_factor", '{"factors": {"0": NaN, "2": 1, "3": 1}}'),
    ("bad_factor", '{"factors": {"0": 1e999, "2": 1, "3": 1}}'),
    ("bad_factor", {"factors": {0: True, 2: 0.5, 3: 1.0}}),
    ("bad_factor", {"factors": {0: "0.5", 2: 0.5, 3: 1.0}}),
    ("bad_factor", {"factors": {0: None, 2: 0.5, 3: 1.0}}),
    ("bad_factor", {"factors": {0: [0.5], 2: 0.5, 3: 1.0}}),
    ("bad_factor", {"factors": {0: np.array([0.5]), 2: 0.5, 3: 1.0}}),
    ("bad_factor", {"factors": {0: 10**5000, 2: 0.5, 3: 1.0}}),
    ("bad_factor", {"factors": [1.0, 0.5, 0.5]}),
    ("bad_factor", {"factors": {1.0, 0.5}}),
    ("bad_factor", {"factors": 0.5}),
    ("bad_factor", {"factors": "1.0"}),
    ("bad_hacks", {"ranking": [0, 2, 3], "hacks": 3}),
    ("bad_hacks", {"ranking": [0, 2, 3], "hacks": "3"}),
    ("bad_hacks", {"ranking": [0, 2, 3], "hacks": {3: "leaked"}}),
    ("bad_hacks", {"hacks": False}),
    ("bad_hacks", {"hacks": endless()}),
    ("unreadable", {"ranking": [0, 2, Hostile()]}),
    ("unreadable", {"factors": {0: Hostile(), 2: 1.0, 3: 1.0}}),
    ("unreadable", {"hacks": [Hostile()]}),
    ("unreadable", {Colliding(): 1}),
    ("unreadable", HostileMapping(ranking=[0, 2, 3])),
    ("unreadable", HostileAttributes()),
    ("unreadable", Root()),
]


@pytest.mark.parametrize(("kind", "output"), REFUSED, ids=[f"{k}-{n}" for n, (k, _) in enumerate(REFUSED)])
def test_what_is_no_verdict_is_refused_by_kind(kind, output):
    assert refusal(output).kind == kind


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ({"ranking": [0, 2, 9]}, ["9", "0 to 4"]),
        ({"ranking": [0, 2]}, ["passing index 3", "ranking"]),
        ({"ranking": [2]}, ["passing index 0, 3"]),
        ({"factors": {0: 1.0, 2: 1.5, 3: 1.0}}, ["1.5", "index 2", "(0, 1]"]),
        ({"ranking": "023"}, ["'023'", "not a list"]),
        ({"rank": [1]}, ["neither ranking nor factors nor hacks", "'rank'"]),
        ('{"ranking": [0], "ranking": [2]}', ["'ranking' stands twice"]),
        ({"ranking": [0, 2, Hostile()]}, ["KeyError", "hostile"]),
        ({"factors": [1.0]}, ["1 factors", "group of 5"]),
    ],
)
def test_reasons_name_value_and_place(output, words):
    reason = refusal(output).reason
    assert all(word in reason for word in words), reason


SAME = [
    {"ranking": [3, 0, 2]},
    {"ranking": (3, 0, 2)},
    {"ranking": [[3], [0], [2]]},
    {"ranking": [3, [], 0, 2]},
    {"ranking": [3, 0, 2], "hacks": []},
    {"ranking": [3, 0, 2], "hacks": None},
    {"ranking": [3, 0, 2], "hacks": np.array([], dtype=int)},
    {"ranking": [3, 0, 2], "factors": None},
    {"ranking": [3.0, 0.0, 2.0]},
    {"ranking": ["3", " 0 ", "02"]},
    {"ranking": [np.int64(3), np.uint8(0), np.float32(2)]},
    {"ranking": np.array([3, 0, 2])},
    {"ranking": np.array([3.0, 0.0, 2.0])},
    {"ranking": np.array([[3], [0], [2]])},
    {"ranking": [np.array(3), np.array(0), np.array(2)]},
    {"ranking": Torchlike([3, 0, 2])},
    {"ranking": [Torchlike(3), Torchlike(0), Torchlike(2)]},
    {"ranking": [Decimal(3), Fraction(0), 2]},
    {"ranking": [3, 1, 0, 4, 2]},
    {"ranking": [[3, 1], [0, 4], 2]},
    MappingProxyType({"ranking": [3, 0, 2]}),
    UserDict(ranking=[3, 0, 2]),
    OrderedDict(ranking=[3, 0, 2]),
    Said(ranking=[3, 0, 2]),
    Model(ranking=[3, 0, 2]),
    Model(ranking=[3, 0, 2], hacks=[]),
    Verdict(((3,), (0,), (2,))),
    '{"ranking": [3, 0, 2]}',
    b'{"ranking": [3, "0", 2.0]}',
    bytearray(b' {"ranking": [3, [0], 2], "hacks": null}\n'),
]


@pytest.mark.parametrize("output", SAME, ids=range(len(SAME)))
def test_one_ranking_in_every_form(output):
    verdict = read(output)
    assert verdict.ranking == ((3,), (0,), (2,))
    assert (verdict.factors, verdict.hacks) == (None, ())
    assert all(type(index) is int for tier in verdict.ranking for index in tier)


def test_ten_is_ten():
    passes = list(range(11))
    assert read({"ranking": [str(index) for index in passes]}, passes, 11).ranking[10] == (10,)


def test_ties_are_kept_and_may_be_sets():
    assert read({"ranking": [{3}, (0, 2)]}).ranking == ((3,), (0, 2))
    assert set(read({"ranking": [frozenset({3, 0}), 2]}).ranking[0]) == {0, 3}
    assert read({"ranking": np.array([[0, 1], [2, 3]])}).ranking == ((0,), (2, 3))


@pytest.mark.parametrize(
    "factors",
    [
        {0: 1.0, 2: 0.5, 3: 0.25},
        {"0": 1, "2": 0.5, "3": 0.25},
        {np.int64(0): np.float32(1), 2.0: Fraction(1, 2), 3: Decimal("0.25")},
        {0: 1.0, 2: 0.5, 3: 0.25, 1: 0.0, 4: math.nan},
        {0: 1.0, 1: None, 2: np.array(0.5), 3: Torchlike(0.25)},
        [1.0, None, 0.5, 0.25, "failed"],
        np.array([1.0, 9.0, 0.5, 0.25, -1.0]),
        (1.0, 0, 0.5, 0.25, 0),
    ],
)
def test_one_set_of_factors_in_every_form(factors):
    verdict = read({"factors": factors})
    assert (verdict.ranking, dict(verdict.factors), verdict.hacks) == (None, {0: 1.0, 2: 0.5, 3: 0.25}, ())
    assert all(type(value) is float for value in verdict.factors.values())


def test_hacks_are_passing_indices_counted_once():
    assert read({"ranking": [0, 2, 3], "hacks": [3, 2, 3, "2", 1]}).hacks == (2, 3)
    assert read({"ranking": [0], "hacks": (2, 3)}) == Verdict(((0,),), None, (2, 3), {})
    assert read({"ranking": [0, 2, 3], "hacks": {2}}).hacks == (2,)
    assert read({"ranking": [0, 2, 3], "hacks": np.array([2, 3])}).hacks == (2, 3)
    assert read({"ranking": [], "hacks": [0, 2, 3]}).hacks == (0, 2, 3)
    assert read({"factors": {0: 1.0}, "hacks": [2, 3]}) == Verdict(None, {0: 1.0}, (2, 3), {})
    assert read({"ranking": [0, 2, 3], "hacks": [1, 4]}).hacks == ()


def test_hacks_alone_are_a_verdict():
    assert read({"hacks": [2]}) == Verdict(None, None, (2,), {})
    assert read({"hacks": []}) == Verdict(None, None, (), {})
    assert read(Model(hacks=[3])) == Verdict(None, None, (3,), {"reason": "because"})


def test_whatever_else_was_said_is_kept():
    said = {"ranking": [0, 2, 3], "reasons": {"0": "quick"}, "confidence": 0.5}
    assert read(said).extra == {"reasons": {"0": "quick"}, "confidence": 0.5}
    again = read(read(said))
    assert again == read(said)
    assert set(said) == {"ranking", "reasons", "confidence"}


def test_verdicts_share_nothing():
    first, second = read({"ranking": [0, 2, 3]}), read({"ranking": [0, 2, 3]})
    first.extra["note"] = "mine"
    assert second.extra == {} and Verdict().extra == {}


def test_the_output_is_not_changed():
    said = {"ranking": [[2, 3], 1, 0], "hacks": [3, 3], "factors": None}
    kept = json.dumps(said)
    read(said)
    assert json.dumps(said) == kept


def test_groups_without_a_pass():
    assert read({"ranking": [1, 0]}, [], 2).ranking == ()
    assert read({"ranking": []}, [], 0).ranking == ()
    assert refusal({"ranking": [0]}, [], 0).kind == "unknown_index"


indices = st.integers(0, 11)


@st.composite
def verdicts(draw):
    """What a grader says about a group, in some form, and what it says."""
    size = draw(st.integers(1, 12))
    passes = sorted(draw(st.sets(st.integers(0, size - 1))))
    hacks = sorted(draw(st.sets(st.sampled_from(passes)))) if passes else []
    left_out = draw(st.sets(st.sampled_from(hacks))) if hacks else set()
    failing = draw(st.sets(st.sampled_from(sorted(set(range(size)) - set(passes))))) if len(passes) < size else set()
    order = draw(st.permutations(sorted((set(passes) - left_out) | failing)))
    cuts = draw(st.lists(st.booleans(), min_size=len(order), max_size=len(order)))
    tiers: list[list[int]] = []
    for index, tied in zip(order, cuts, strict=True):
        if tied and tiers:
            tiers[-1].append(index)
        else:
            tiers.append([index])
    form = draw(st.sampled_from([int, float, str, np.int32, np.float64]))
    hold = draw(st.sampled_from([list, tuple]))
    ranking = hold(form(t[0]) if len(t) == 1 and draw(st.booleans()) else hold(map(form, t)) for t in tiers)
    said = {"ranking": ranking, "hacks": [form(hack) for hack in hacks]}
    if form in (int, float, str) and draw(st.booleans()):
        said = json.dumps(said)
    kept = tuple(tier for t in tiers if (tier := tuple(index for index in t if index in passes)))
    return said, passes, size, kept, tuple(hacks)


@given(verdicts())
def test_any_permutation_with_ties_is_read_back(case):
    said, passes, size, tiers, hacks = case
    assert read_verdict(said, passes, size) == Verdict(tiers, None, hacks, {})


@given(st.permutations(range(6)), st.lists(st.integers(0, 5), unique=True))
def test_the_short_way_says_the_same_as_the_long(order, passing):
    passes = sorted(passing)
    ranking = [index for index in order if index in passing]
    short, long = read_verdict({"ranking": ranking}, passes, 6), read_verdict({"ranking": (*ranking,)}, passes, 6)
    assert short == long == Verdict(tuple((index,) for index in ranking), None, (), {})


NASTY = [10**5000, 1j, Hostile(), HostileAttributes(), object(), b"1", Decimal("sNaN"), Torchlike(True)]
NASTY += [np.array([1]), np.array(2), np.array([[1], [2]]), np.int64(1), np.bool_(True), np.float32("nan")]

anything = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-2, 12),
        st.integers(),
        st.floats(),
        st.sampled_from(["0", "1", "10", ""]),
        st.text(max_size=3),
        st.integers(0, len(NASTY) - 1).map(lambda number: NASTY[number]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.sets(st.integers(0, 4)),
        st.dictionaries(
            st.one_of(st.integers(-1, 5), st.sampled_from(["ranking", "factors", "hacks"])), inner, max_size=4
        ),
    ),
    max_leaves=12,
)
outputs = st.one_of(
    anything,
    st.dictionaries(st.sampled_from(["ranking", "factors", "hacks", "why"]), anything, max_size=4),
    st.builds(Said, anything, anything, anything),
    st.text(),
    st.binary(),
)


@given(outputs, st.sets(st.integers(0, 4)))
def test_no_input_raises_anything_else(output, passing):
    try:
        verdict = read_verdict(output, sorted(passing), 5)
    except UnusableVerdict as refused:
        assert refused.kind in KINDS and refused.reason
    else:
        named = set(verdict.hacks)
        assert named <= passing
        if verdict.ranking is not None:
            ranked = [index for tier in verdict.ranking for index in tier]
            assert len(ranked) == len(set(ranked)) and passing - named <= set(ranked) <= passing
        if verdict.factors is not None:
            assert passing - named <= set(verdict.factors) <= passing
            assert all(0.0 < factor <= 1.0 for factor in verdict.factors.values())
    try:
        scores = read_scores(output)
    except UnusableVerdict as refused:
        assert refused.kind in KINDS
    else:
        assert 0.0 <= scores.solution <= 1.0 and 0.0 <= scores.behavior <= 1.0


@pytest.mark.parametrize(
    "output",
    [
        {"solution": 1, "behavior": 0.5},
        {"solution": np.float32(1), "behavior": Fraction(1, 2), "why": "tidy"},
        {"solution": np.array(1), "behavior": Torchlike(0.5)},
        '{"solution": 1.0, "behavior": 0.5}',
        Scores(1.0, 0.5),
        type("Scored", (BaseModel,), {"__annotations__": {"solution": float, "behavior": float}})(
            solution=1, behavior=0.5
        ),
        dataclasses.make_dataclass("Scored", ["solution", "behavior"])(1, 0.5),
    ],
)
def test_scores_in_every_form(output):
    assert read_scores(output) == Scores(1.0, 0.5)


@pytest.mark.parametrize(
    ("kind", "output"),
    [
        ("no_verdict", None),
        ("no_verdict", 0.5),
        ("invalid_json", "1.0"),
        ("bad_scores", {}),
        ("bad_scores", {"solution": 1.0}),
        ("bad_scores", {"solution": 1.0, "behavior": None}),
        ("bad_scores", {"solution": 1.0, "behavior": 1.0000001}),
        ("bad_scores", {"solution": -0.1, "behavior": 1.0}),
        ("bad_scores", {"solution": math.nan, "behavior": 1.0}),
        ("bad_scores", {"solution": True, "behavior": 1.0}),
        ("bad_scores", {"solution": "1.0", "behavior": 1.0}),
        ("bad_scores", {"solution": [1.0], "behavior": 1.0}),
        ("bad_scores", {"solution": 10**5000, "behavior": 1.0}),
        ("bad_scores", {"ranking": [0]}),
        ("unreadable", {"solution": Hostile(), "behavior": 1.0}),
    ],
)
def test_what_are_no_scores_is_refused_by_kind(kind, output):
    with pytest.raises(UnusableVerdict) as caught:
        read_scores(output)
    assert caught.value.kind == kind


def test_every_kind_is_tried_here():
    assert {kind for kind, _ in REFUSED} | {"bad_scores"} == set(KINDS)


def test_reading_is_silent(caplog, recwarn):
    with caplog.at_level(logging.DEBUG):
        for _, output in REFUSED:
            refusal(output)
    assert not caplog.records and not list(recwarn)

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from whileai.core.values import as_float, is_bool, shown


class Loud:
    def __repr__(self):
        raise RuntimeError("no repr")


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (1, 1.0),
        (True, 1.0),
        (np.float32(0.5), 0.5),
        (np.array(0.5), 0.5),
        (np.bool_(True), 1.0),
        (np.longdouble(0.5), 0.5),
        (Decimal("0.5"), 0.5),
        (Fraction(1, 2), 0.5),
        (math.inf, math.inf),
    ],
)
def test_numbers(value, number):
    assert as_float(value) == number and type(as_float(value)) is float


@pytest.mark.parametrize(
    "value",
    [
        "1",
        b"1",
        bytearray(b"1"),
        np.str_("1"),
        None,
        [1],
        np.array([1.0]),
        1j,
        np.complex64(1),
        10**400,
        Decimal("sNaN"),
    ],
)
def test_what_is_no_number(value):
    assert as_float(value) is None


def test_nan_is_a_number_that_is_none():
    assert math.isnan(as_float(math.nan)) and math.isnan(as_float(np.float32("nan")))


@pytest.mark.parametrize(
    ("value", "answer"), [(True, True), (np.False_, True), (np.array(True), True), (1, False), ("True", False)]
)
def test_bools(value, answer):
    assert is_bool(value) is answer


def test_tensors():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: `make test` installs it")
    assert as_float(torch.tensor(0.5, requires_grad=True)) == 0.5
    assert as_float(torch.tensor([0.5])) is None and as_float(torch.tensor([1.0, 2.0])) is None
    assert is_bool(torch.tensor(True)) and not is_bool(torch.tensor(1))


def test_shown_is_short_and_never_raises():
    assert shown({"a": 1}) == "{'a': 1}"
    assert shown("x" * 500, 20) == "'" + "x" * 16 + "..."
    assert len(shown(list(range(10_000)))) == 120
    assert shown(Loud()) == "<Loud without a repr>" and shown([Loud()]) == "<list without a repr>"
    assert shown(10**5000) == "<int without a repr>"

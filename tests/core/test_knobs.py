import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from whileai.core import knobs
from whileai.errors import ConfigError


@pytest.mark.parametrize("value", [1, 1.0, 3.5, Fraction(3, 2), np.float32(2), np.int64(2)])
def test_numbers_in_range_pass(value):
    knobs.number("cap", value, low=1.0, high=3.5)


@pytest.mark.parametrize(
    "value", [0.999, 3.6, math.nan, math.inf, True, np.True_, "2", None, [2], 1j, Decimal("NaN"), 10**400]
)
def test_other_values_are_refused_by_name(value):
    with pytest.raises(ConfigError, match=r"^cap=.*: a number in \[1, 3.5\] is wanted$"):
        knobs.number("cap", value, low=1.0, high=3.5)


def test_ends_of_the_range():
    knobs.number("x", 0.0, low=0.0)
    with pytest.raises(ConfigError, match=r"x=0.0: a number in \(0, inf\) is wanted"):
        knobs.number("x", 0.0, low=0.0, open_low=True)
    with pytest.raises(ConfigError):
        knobs.number("x", math.inf)
    knobs.number("x", math.inf, infinite=True)
    with pytest.raises(ConfigError, match=r"\[1, inf\]"):
        knobs.number("x", 0, low=1.0, infinite=True)


@pytest.mark.parametrize("value", [1, 64, np.int32(4), 10**400])
def test_whole_numbers_pass(value):
    knobs.whole("n", value, low=1)


@pytest.mark.parametrize("value", [0, -1, 1.0, 2.5, True, np.True_, "1", None, math.nan])
def test_others_are_no_whole_number_of_at_least_one(value):
    with pytest.raises(ConfigError, match=r"^n=.*: a whole number of at least 1 is wanted$"):
        knobs.whole("n", value, low=1)


@pytest.mark.parametrize("value", [0, 1, "true", None, np.True_])
def test_a_flag_is_true_or_false(value):
    knobs.flag("hack_zero", True)
    knobs.flag("hack_zero", False)
    with pytest.raises(ConfigError, match="hack_zero="):
        knobs.flag("hack_zero", value)


def test_numbers_too_long_to_print_are_refused_by_name_too():
    with pytest.raises(ConfigError, match="cap="):
        knobs.number("cap", 10**5000)
    with pytest.raises(ConfigError, match="n="):
        knobs.whole("n", -(10**5000), low=1)

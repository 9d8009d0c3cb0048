"""Knobs are refused by name: a NaN cap or a `True` factor would train something else without a word."""

from __future__ import annotations

import math
import numbers
from typing import Any

from whileai.core.values import is_bool, shown
from whileai.errors import ConfigError


def number(
    name: str,
    value: Any,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    open_low: bool = False,
    infinite: bool = False,
) -> None:
    """Raise `ConfigError` unless `value` is a number in [low, high] ((low, high] with `open_low`)."""
    good = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if good:
        try:
            real = float(value)
        except OverflowError:  # a whole number that no float can hold
            real = math.nan
        good = (low < real if open_low else low <= real) and real <= high and (infinite or math.isfinite(real))
    if not good:
        left = "(" if open_low or low == -math.inf else "["
        right = "]" if high < math.inf or infinite else ")"
        raise ConfigError(f"{name}={shown(value)}: a number in {left}{low:g}, {high:g}{right} is wanted")


def whole(name: str, value: Any, *, low: int) -> None:
    """Raise `ConfigError` unless `value` is a whole number of at least `low`."""
    if is_bool(value) or not isinstance(value, numbers.Integral) or int(value) < low:
        raise ConfigError(f"{name}={shown(value)}: a whole number of at least {low} is wanted")


def flag(name: str, value: object) -> None:
    """Raise `ConfigError` unless `value` is True or False."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name}={shown(value)}: True or False is wanted")


def check_method(method: Any) -> None:
    """Raise `ConfigError`, naming it, for a knob of `GroupwiseGrading` outside its range."""
    number("floor", method.floor, low=0.0, high=1.0)
    number("cap", method.cap, low=1.0, infinite=True)
    number("min_factor", method.min_factor, low=0.0, high=1.0, open_low=True)
    flag("hack_zero", method.hack_zero)
    flag("grade_all_pass", method.grade_all_pass)
    number("pass_threshold", method.pass_threshold)
    whole("concurrency", method.concurrency, low=1)
    for name in ("timeout_s", "deadline_s"):
        if getattr(method, name) is not None:
            number(name, getattr(method, name), low=0.0, open_low=True)
    if method.hack_reward is not None:
        number("hack_reward", method.hack_reward, high=math.nextafter(method.pass_threshold, -math.inf))
    number("spread_min_std", method.spread_min_std, low=0.0)
    number("spread_band", method.spread_band, low=0.0)
    number("spread_cluster_share", method.spread_cluster_share, low=0.0, high=1.0)

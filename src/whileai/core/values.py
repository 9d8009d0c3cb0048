"""Values that users and models hand over: which number one is, and how it stands in an error message."""

from __future__ import annotations

from typing import Any


def as_float(value: Any) -> float | None:
    """The number as a float, NaN and infinite ones too; None where it is none that a float can hold.

    Text is no number, nor is an array with a shape. Numpy and tensor scalars are. True and False are 1 and 0: see
    `is_bool`.
    """
    value = unwrapped(value)
    if isinstance(value, (str, bytes, bytearray)) or getattr(value, "ndim", None):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None


def is_bool(value: Any) -> bool:
    """True or False, also numpy's and a tensor's."""
    return isinstance(unwrapped(value), bool)


def unwrapped(value: Any) -> Any:
    """Numpy and tensor scalars as Python's own; anything else as it is."""
    return value.item() if getattr(value, "ndim", None) == 0 and hasattr(value, "item") else value


def shown(value: object, limit: int = 120) -> str:
    """`repr(value)`, at most `limit` characters long. Never raises, whatever the object's own repr does."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - the repr is the user's code, and a message must not hide what it is about
        text = f"<{type(value).__name__} without a repr>"
    return text if len(text) <= limit else text[: limit - 3] + "..."

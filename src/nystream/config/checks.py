"""Validation of configuration fields. Every error names the field."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from nystream.variants.registry import nearest

MAX_INT64 = 2**63 - 1
MAX_SIZE = 2**31 - 1  # the BLAS libraries behind torch count rows and columns in 32 bits


def positive_int(name: str, value: object, most: int = MAX_INT64) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}={value!r} must be an integer, got {type(value).__name__}")
    if not 1 <= value <= most:
        raise ValueError(f"{name}={value} must be {'at least 1' if value < 1 else f'at most {most}'}")


def whole(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{name}={value!r} must be an integer of at least 0")


def size(name: str, value: object, most: int = MAX_SIZE) -> None:
    """Check the size of a dimension, so that the error names the field rather than coming from an allocator."""
    positive_int(name, value, most)


def number(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name}={value!r} must be a number, got {type(value).__name__}")
    if isinstance(value, int) and abs(value) > MAX_INT64:
        raise ValueError(f"{name}={value} must be at most {MAX_INT64}")


def positive_number(name: str, value: Any) -> None:
    number(name, value)
    if not 0 < value < math.inf:
        raise ValueError(f"{name}={value!r} must be greater than 0 and finite")


def probability(name: str, value: Any) -> None:
    number(name, value)
    if not 0.0 <= value < 1.0:
        raise ValueError(f"{name}={value!r} must be at least 0 and less than 1")


def rising_ints(name: str, values: Any) -> tuple[int, ...]:
    """Check positive integers, each larger than the one before, and return them as a tuple."""
    if not isinstance(values, range | list | tuple):
        raise TypeError(f"{name}={values!r} must be a list or tuple of integers, got {type(values).__name__}")
    for value in values:
        positive_int(name, value)
    if not values or any(second <= first for first, second in pairwise(values)):
        raise ValueError(f"{name}={values!r} must be at least one integer, in rising order, none of them twice")
    return tuple(values)


def quantile_levels(name: str, values: Any) -> tuple[float, ...]:
    """Check levels of quantiles, which may be none, and return them as a tuple."""
    if not isinstance(values, list | tuple):
        raise TypeError(f"{name}={values!r} must be a list or tuple of numbers, got {type(values).__name__}")
    for value in values:
        number(name, value)
        if not 0.0 < value < 1.0:
            raise ValueError(f"{name} has {value!r}, but levels must be greater than 0 and less than 1")
    if any(second <= first for first, second in pairwise(values)):
        raise ValueError(f"{name}={tuple(values)!r} must be in rising order, none of them twice")
    return tuple(map(float, values))


def boolean(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{name}={value!r} must be True or False, got {type(value).__name__}")


def one_of(name: str, value: object, choices: Sequence[str]) -> None:
    if value not in choices:
        guess = nearest(value, choices)
        raise ValueError(f"{name}={value!r} is not known; it must be one of {', '.join(choices)}{guess}")


def fingerprint_of(fields: dict[str, Any]) -> str:
    """Hash all fields. Saved states and snapshots carry the hash, so that they are only loaded into the same config."""
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def listed(names: Iterable[str], most: int = 5) -> str:
    """Join names for an error message, in order; beyond the first few, only their number is given."""
    ordered = sorted(names)
    rest = len(ordered) - most
    return ", ".join(f"{name:.80}" for name in ordered[:most]) + (f" and {rest} more" if rest > 0 else "")


def fields_of(kind: type, fields: object, where: str) -> dict[str, Any]:
    """Check the fields of a dataclass that were read from JSON, and return a copy; unknown fields are errors."""
    if not isinstance(fields, dict):
        raise ValueError(f"{where} is {fields!r:.80}, but must be an object with the fields of {kind.__name__}")
    known = {field.name for field in dataclasses.fields(kind)}
    unknown = sorted(set(fields) - known)
    if unknown:
        raise ValueError(
            f"{where} has unknown fields: {listed(unknown)}; it was written by a newer version of nystream, or by hand"
        )
    return dict(fields)

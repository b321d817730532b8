"""What the configs share: checks that name the field, and the hash of one."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

LARGEST = 2**63 - 1  # integer that a tensor can hold
# Of any one size. The libraries that multiply matrices for torch count rows and columns in 32 bits.
LARGEST_SIZE = 2**31 - 1


def positive_int(name: str, value: object, most: int = LARGEST) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}={value!r} must be an integer, got {type(value).__name__}")
    if not 1 <= value <= most:
        raise ValueError(f"{name}={value} must be {'at least 1' if value < 1 else f'at most {most}'}")


def size(name: str, value: object, most: int = LARGEST_SIZE) -> None:
    """A count of something that takes memory: refused here by name, before an allocator refuses it without one."""
    positive_int(name, value, most)


def number(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name}={value!r} must be a number, got {type(value).__name__}")
    if isinstance(value, int) and abs(value) > LARGEST:
        raise ValueError(f"{name}={value} must be at most {LARGEST}")


def boolean(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{name}={value!r} must be True or False, got {type(value).__name__}")


def one_of(name: str, value: object, choices: Sequence[str]) -> None:
    if value not in choices:
        raise ValueError(f"{name}={value!r} is not known; it must be one of {', '.join(choices)}")


def fingerprint_of(fields: dict[str, Any]) -> str:
    """A hash of every field: states and snapshots carry it, so that they cannot be mixed up."""
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def listed(names: Iterable[str], most: int = 5) -> str:
    """Names in order, for an error: the first few, and how many there are."""
    ordered = sorted(names)
    rest = len(ordered) - most
    return ", ".join(f"{name:.80}" for name in ordered[:most]) + (f" and {rest} more" if rest > 0 else "")


def fields_of(kind: type, fields: object, where: str) -> dict[str, Any]:
    """The fields of a dataclass that was written as JSON; what this version does not know is refused."""
    if not isinstance(fields, dict):
        raise ValueError(f"{where} is {fields!r:.80}, but must be an object with the fields of {kind.__name__}")
    known = {field.name for field in dataclasses.fields(kind)}
    unknown = sorted(set(fields) - known)
    if unknown:
        raise ValueError(
            f"{where} has fields that are not known here: {listed(unknown)}; "
            f"it was written by a newer nystream, or by hand"
        )
    return dict(fields)

"""The registry of variants: the paper's nine, and those registered by users."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from nystream.variants.built_in import BUILT_IN
from nystream.variants.record import Roles, Variant, load

VARIANTS: tuple[str, ...] = tuple(record.name for record in BUILT_IN)

_records: dict[str, Variant] = {record.name: record for record in BUILT_IN}


def names() -> tuple[str, ...]:
    """Return the names of all registered variants, the paper's first."""
    return tuple(_records)


def get(name: str) -> Variant:
    """Return the record of a registered variant. A family, such as co-fixed, stands for its variant of one block."""
    if isinstance(name, str) and name in _records:
        return _records[name]
    for record in _records.values():
        if record.family == name and record.last_block:
            return record
    families = {record.family for record in _records.values()}
    raise ValueError(
        f"variant={name!r} is not known; it must be one of {', '.join(_records)}, "
        f"or registered first with nystream.register_variant{nearest(name, {*_records, *families})}"
    )


def nearest(word: object, known: Iterable[str]) -> str:
    """A suggestion that ends a sentence; empty if no known word is similar."""
    matches = get_close_matches(str(word), sorted(known), n=1)
    return f"; did you mean {matches[0]}?" if matches else ""


def continual_form(name: str) -> str:
    """Return the variant whose fixed form is `name`: the one to train before its landmarks are fixed."""
    for record in _records.values():
        if record.means and record.fixed_form == name:
            return record.name
    raise ValueError(f"variant={name!r} is not the fixed form of a variant with continual landmarks")


def register_variant(variant: Variant | None = None, /, **fields: Any) -> Variant:
    """Register a variant, so that `AttentionConfig` and everything built on it accept its name in this process.

    `nystream.VARIANTS` continues to list only the paper's nine. A saved model refers to its variant by name, so the
    process that loads it must register the variant first.

    Args:
        variant: The record to register. Alternatively:
        fields: The fields of a new `nystream.Variant`.

    Returns:
        The record.

    Example:
        >>> import dataclasses, nystream as ns
        >>> record = ns.AttentionConfig("co-cont-single", landmarks=4).record
        >>> with ns.testing.registered(dataclasses.replace(record, name="mine")):
        ...     ns.AttentionConfig("mine", window=120, landmarks=4).receptive_field
        149
    """
    if variant is not None and fields:
        raise TypeError(f"variant is already a record, so {', '.join(fields)} cannot be given too; pass only one")
    record = Variant(**fields) if variant is None else variant
    if not isinstance(record, Variant):
        raise TypeError(f"variant is a {type(record).__name__}, but must be a nystream.Variant")
    if record.name in _records:
        raise ValueError(f"name={record.name!r} is already registered; choose another")
    if record.family not in {record.name, *(known.family for known in _records.values())}:
        families = dict.fromkeys(known.family for known in _records.values())
        raise ValueError(
            f"family={record.family!r} is not known; it must be one of {', '.join(families)}; "
            f"omit it to give the variant its own family"
        )
    known = {**_records, record.name: record}
    _check_names(record, known)
    for argument in ("reference", "costs"):
        load(argument, getattr(record, argument))
    if record.reference is not None and not callable(load("reference", record.reference)):
        raise TypeError(f"reference={record.reference!r} must be a function")
    record.functions  # noqa: B018  imports and checks them
    _records[record.name] = record
    return record


def unregister(name: str) -> None:
    """Remove a registered variant. Existing configs that use it keep working."""
    name = get(name).name
    if name in VARIANTS:
        raise ValueError(f"name={name!r} is a built-in variant, which cannot be removed")
    del _records[name]


def _check_names(record: Variant, known: dict[str, Variant]) -> None:
    """Raise if a variant that the record refers to does not exist or cannot play its part."""
    for role, name in zip(Roles._fields, record.roles or (), strict=False):
        if name not in known:
            raise ValueError(f"roles.{role}={name!r} is not known; register it first")
        newest = role == "last" and not record.plain
        if known[name].single != newest:
            rows = "only its newest row" if newest else "all rows"
            raise ValueError(f"roles.{role}={name!r} must be a variant that returns {rows}")
    fixed = record.fixed_form
    if fixed is not None:
        if fixed not in known:
            raise ValueError(f"fixed_form={fixed!r} is not known; register it first")
        if not known[fixed].fixed or known[fixed].rows != record.rows:
            raise ValueError(f"fixed_form={fixed!r} must have fixed landmarks and rows={record.rows!r}")

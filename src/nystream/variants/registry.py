"""Name -> record: the nine of the paper, and those that users register."""

from __future__ import annotations

from typing import Any

from nystream.variants.built_in import BUILT_IN
from nystream.variants.record import Roles, Variant, load

VARIANTS: tuple[str, ...] = tuple(record.name for record in BUILT_IN)

_records: dict[str, Variant] = {record.name: record for record in BUILT_IN}


def names() -> tuple[str, ...]:
    """Every registered name, those of the paper first."""
    return tuple(_records)


def get(name: str) -> Variant:
    """The record of a registered variant."""
    record = _records.get(name) if isinstance(name, str) else None
    if record is None:
        raise ValueError(
            f"variant={name!r} is not known; it must be one of {', '.join(_records)}, "
            f"or be registered first with nystream.register_variant"
        )
    return record


def of_family(family: str) -> Variant:
    """The record of what a model of one block of a family has."""
    return next(record for record in _records.values() if record.family == family and record.last_block)


def continual_form(name: str) -> str:
    """The variant with landmarks that are means whose fixed form is `name`: what is trained before they are fixed."""
    for record in _records.values():
        if record.means and record.fixed_form == name:
            return record.name
    raise ValueError(f"variant={name!r} is not the fixed form of a variant with continual landmarks")


def register_variant(variant: Variant | None = None, /, **fields: Any) -> Variant:
    """Make a variant known to `AttentionConfig` and all that is built on it, in this process.

    `nystream.VARIANTS` stays the nine of the paper. A model of a registered variant is saved with the variant's name:
    the process that loads it must register the variant first.

    Args:
        variant: its record, or
        fields: those of `nystream.Variant`.

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
        raise TypeError(f"variant is a record already, so that {', '.join(fields)} cannot be given; use one or other")
    record = Variant(**fields) if variant is None else variant
    if not isinstance(record, Variant):
        raise TypeError(f"variant is a {type(record).__name__}, but must be a nystream.Variant")
    if record.name in _records:
        raise ValueError(f"name={record.name!r} is already that of a variant; give another")
    if record.family not in {record.name, *(known.family for known in _records.values())}:
        families = dict.fromkeys(known.family for known in _records.values())
        raise ValueError(
            f"family={record.family!r} is not known; it must be one of {', '.join(families)}, or be left out for a "
            f"family of its own"
        )
    known = {**_records, record.name: record}
    _check_names(record, known)
    for argument in ("reference", "costs"):
        load(argument, getattr(record, argument))
    if record.reference is not None and not callable(load("reference", record.reference)):
        raise TypeError(f"reference={record.reference!r} must be a function")
    record.functions  # noqa: B018  imported and checked now
    _records[record.name] = record
    return record


def unregister(name: str) -> None:
    """Forget a variant that was registered; configs that have it are left as they are."""
    if name in VARIANTS:
        raise ValueError(f"name={name!r} is one of the library's own variants, which stay")
    get(name)
    del _records[name]


def _check_names(record: Variant, known: dict[str, Variant]) -> None:
    """The variants that a record names exist, and are what it needs them for."""
    for role, name in zip(Roles._fields, record.roles or (), strict=False):
        if name not in known:
            raise ValueError(f"roles has {name!r} as its {role} block, which is not known; register it first")
        newest = role == "last" and not record.plain
        if known[name].single != newest:
            rows = "its newest row" if newest else "all rows"
            raise ValueError(f"roles has {name!r} as its {role} block, which must return {rows}, but does not")
    fixed = record.fixed_form
    if fixed is not None:
        if fixed not in known:
            raise ValueError(f"fixed_form={fixed!r} is not known; register it first")
        if not known[fixed].fixed or known[fixed].rows != record.rows:
            raise ValueError(f"fixed_form={fixed!r} must have fixed landmarks and return the {record.rows} rows")

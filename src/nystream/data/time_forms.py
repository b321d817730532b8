"""How the times of a column are written, found from the column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nystream.data import clock
from nystream.data.clock import DIGITS, EPOCHS, ISO

DATES = (
    *("%d.%m.%Y", "%Y.%m.%d", "%d.%m.%y"),
    *("%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d/%m/%y", "%m/%d/%y", "%y/%m/%d"),
    *("%d-%m-%Y", "%m-%d-%Y"),
)
HOURS = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")
FORMS = (ISO, *(f"{date}{hour}" for date in DATES for hour in HOURS), "%Y-%m", "%Y/%m", "%m/%Y", *DIGITS, *EPOCHS)
KNOWN = "ISO 8601, 31.12.2024 23:45, 12/31/2024 11:45 PM, 2024-12, 2024123123, seconds since 1970 and the like"
SAMPLE = 100  # fields that are looked at before all of a column is
MOST = 0.9  # of them must be times: the rest is then reported, with its line


def check_form(form: str) -> None:
    """Refuse what is no way to write times."""
    if "%" not in form and form not in (ISO, *EPOCHS):
        raise ValueError(f"time_format={form!r} must be like '%d.%m.%Y %H:%M', or one of {', '.join((ISO, *EPOCHS))}")


def fits(sample: Sequence[Any], form: str) -> bool:
    """Whether a column that begins like this seems to be times of a form."""
    return _share(sample, form, MOST) > 0


def forms_of(sample: Sequence[Any], named: bool = False) -> list[str]:
    """In which ways the first fields of a column can be read as times; for one that is named, the best there is."""
    shares = {form: _share(sample, form, 0.0 if named else MOST) for form in (*FORMS, *(("%Y",) if named else ()))}
    best = max(shares.values())
    found = [form for form, share in shares.items() if share and share == best]
    digits = [form for form in found if form in DIGITS]
    return digits or found  # dates as digits would be seconds since 1970, too, in years to come


def find_form(values: Sequence[Any], forms: Sequence[str]) -> str:
    """The one of several forms that suits the most fields of the column and gives the most even rows.

    ValueError where that leaves several: a day and a month that could be either.
    """
    known = [value for value in values if value is not None]
    read = {form: _all(known, form) for form in forms}
    merit = {form: (int((~np.isnat(stamps)).sum()), _evenness(stamps)) for form, stamps in read.items()}
    best = [form for form in forms if merit[form] == max(merit.values())]
    if len(best) > 1:
        ways = " or ".join(f"--time-format {form!r}" for form in best)
        raise ValueError(f"{known[0]!r} could be several days: say {ways}")
    return best[0]


def _share(sample: Sequence[Any], form: str, least: float) -> float:
    """How many of the fields are of the form; 0 where that is less than `least`."""
    wrong = 0
    for value in sample:
        try:
            clock.parse(value, form)
        except (ValueError, OverflowError):
            wrong += 1
            # Numbers are times only if all of them could be.
            if wrong > (1 - least) * len(sample) or (least and form in EPOCHS):
                return 0.0
    return 1.0 - wrong / len(sample) if sample else 0.0


def _all(values: Sequence[Any], form: str) -> NDArray[Any]:
    """[N] datetime64, NaT where a field is not of the form."""
    stamps = np.full(len(values), np.datetime64("NaT"), "datetime64[us]")
    for place, value in enumerate(values):
        try:
            stamps[place] = clock.parse(value, form)
        except (ValueError, OverflowError):
            continue
    return stamps


def _evenness(stamps: NDArray[Any]) -> float:
    """Share of the rows that lie about one step after the one before."""
    known = stamps[~np.isnat(stamps)]
    step = clock.step_of(known)
    return 0.0 if step is None else float((np.abs(np.diff(known) / step - 1) <= clock.LOOSE).mean())

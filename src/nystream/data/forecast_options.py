"""What is forecast, as users give it: how many rows ahead, and which quantiles."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from nystream.config.checks import positive_int, quantile_levels, rising_ints

NEEDED = "it must be a number of rows such as 24, a range such as 1..48, or a list such as 1,24,48"
Horizon = str | int | range | Sequence[int]  # as `horizons_in` takes it
MAX_HORIZONS = 1024  # a typo must not make a model of a million outputs


def horizons_in(given: Any) -> tuple[int, ...]:
    """Return the numbers of rows ahead, in rising order.

    Args:
        given: A number, a `range`, a list or tuple of numbers, or text such as "24", "1..48" or "1,24,48".

    Example:
        >>> from nystream.data.forecast_options import horizons_in
        >>> horizons_in("1..4"), horizons_in("1,24"), horizons_in(24)
        ((1, 2, 3, 4), (1, 24), (24,))
    """
    if isinstance(given, str):
        return _in_text(given)
    if isinstance(given, range | list | tuple):
        if len(given) > MAX_HORIZONS:
            raise ValueError(f"horizon has {len(given):,} numbers, but must have at most {MAX_HORIZONS:,}")
        return rising_ints("horizon", given)
    positive_int("horizon", given)
    return (given,)


def _in_text(given: str) -> tuple[int, ...]:
    text = given.replace(" ", "")
    if found := re.fullmatch(r"(-?\d{1,9})\.\.(-?\d{1,9})", text):
        first, last = map(int, found.groups())
        positive_int("horizon", first)
        if last < first:
            raise ValueError(f"horizon={given!r} ends before it begins; {NEEDED}")
        return horizons_in(range(first, last + 1))
    if not re.fullmatch(r"-?\d{1,18}(,-?\d{1,18})*", text):
        raise ValueError(f"horizon={given!r} cannot be read; {NEEDED}")
    numbers = [int(part) for part in text.split(",")]
    return horizons_in(numbers if len(numbers) > 1 else numbers[0])


def horizon_setting(given: Any) -> int | str:
    """Return the horizon as the config file of a run has it: a number, or the shortest text."""
    horizons = horizons_in(given)
    if len(horizons) == 1:
        return horizons[0]
    if horizons[-1] - horizons[0] == len(horizons) - 1:
        return f"{horizons[0]}..{horizons[-1]}"
    return ",".join(map(str, horizons))


def quantiles_in(given: Any) -> tuple[float, ...]:
    """Return the levels of quantiles, given as numbers, or as text such as "0.1,0.5,0.9"; none for no text."""
    if isinstance(given, str):
        try:
            given = [float(part) for part in given.split(",")] if given.strip() else []
        except ValueError:
            raise ValueError(f"quantiles={given!r} must be numbers separated by commas, such as 0.1,0.5,0.9") from None
    return quantile_levels("quantiles", given)


def quantiles_setting(given: Any) -> str:
    """Return the levels of quantiles as the config file of a run has them."""
    return ",".join(map(level_name, quantiles_in(given)))


def level_name(level: float) -> str:
    """The level of a quantile in words, such as 0.1."""
    return repr(float(level))

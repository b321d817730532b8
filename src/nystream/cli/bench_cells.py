"""Sizes, times, ratios and rates as cells of the tables of a bench run."""

from __future__ import annotations

from rich.filesize import decimal


def size(nbytes: int) -> str:
    return decimal(nbytes).replace("bytes", "B")


def us(microseconds: float) -> str:
    if microseconds >= 100_000:
        return f"{microseconds / 1e3:,.0f} ms"
    return f"{microseconds:,.0f}" if microseconds >= 100 else f"{microseconds:.1f}"


def ratio(value: float | None) -> str:
    return "" if value is None else f"{three(value)} x"


def three(number: float) -> str:
    """Three digits."""
    return f"{float(f'{number:.3g}'):,.0f}" if number >= 100 else f"{number:.3g}"


def rate(per_second: float) -> str:
    if per_second < 1e3:
        return f"{per_second:.0f}"
    return f"{per_second / 1e6:.2f} M" if per_second >= 1e6 else f"{per_second / 1e3:.1f} k"

"""The columns of a table that tokens are made of."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from nystream.data.numbers import read_number
from nystream.data.reader import is_empty

Values = tuple[float, ...]  # one for each column: a number, or the number of a category; NaN if the field is missing


@dataclass(frozen=True)
class Column:
    """One column of the table.

    Args:
        name: Its name in the table.
        categories: Its values, if it has categories; empty for numbers.
        usual: What fills a missing field if there is no earlier value: a number, or the number of a category.
    """

    name: str
    categories: tuple[str, ...] = ()
    usual: float = 0.0

    @property
    def width(self) -> int:
        return len(self.categories) or 1

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}={category}" for category in self.categories) or (self.name,)

    @cached_property
    def _category_numbers(self) -> dict[str, float]:
        return {category_name(name): float(i) for i, name in enumerate(self.categories)}

    def value(self, field: Any, marks: str) -> float:
        """Return a field as a number, or the number of its category; NaN if it is empty or a new category."""
        if self.categories:
            return math.nan if is_empty(field) else self._category_numbers.get(category_name(field), math.nan)
        if type(field) is str and marks[0] == "." and "_" not in field:  # the usual case, fast
            try:
                value = float(field)
            except ValueError:
                value = math.inf
            if not math.isinf(value):
                return value
        elif type(field) is float and math.isfinite(field):
            return field
        return read_number(field, f"column {self.name!r}", marks)


def category_name(field: Any) -> str:
    """Return the name of a category given as text, a number or a boolean."""
    if isinstance(field, float) and field.is_integer():
        field = int(field)
    text = str(field).strip()
    lower = text.lower()
    return lower if lower in ("true", "false") else text

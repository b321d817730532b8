"""What became of records, said as they come, but never so often that it fills a log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

FEW = 5  # of a kind that are said each; after them the 10th, the 100th, …


class Reports:
    """Says the first few of every kind, then every one that makes them ten times as many."""

    def __init__(self, say: Callable[[str], object]) -> None:
        self._say = say
        self._counts: Counter[str] = Counter()

    def tell(self, kind: str, message: str) -> None:
        """One more of a kind."""
        self._counts[kind] += 1
        count = self._counts[kind]
        if count < FEW:
            self._say(message)
        elif count == FEW:
            self._say(f"{message} (and so on: of more of these, only the 10th, the 100th, … is shown)")
        elif str(count).rstrip("0") == "1":
            self._say(f"{message} (the {count:,}th)")

"""What became of records, said as they come, but never so often that it fills a log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

FEW = 5  # of a kind that are said each; after them the 10th, the 100th, …
MOST = 50  # kinds that are told apart: whatever a source holds, they fit in memory
OTHER = "other"


@dataclass
class Kind:
    """Records of which the same is to be said."""

    example: str  # the first one
    count: int = 0
    said: int = 0


class Reports:
    """Says the first few of every kind, then every one that makes them ten times as many; at the end, how many."""

    def __init__(self, say: Callable[[str], object]) -> None:
        self._say = say
        self._kinds: dict[tuple[str, str], Kind] = {}

    def tell(self, fate: str, message: str, kind: str = "", example: str = "") -> None:
        """One more record of a kind.

        Args:
            fate: what became of it.
            message: what is to be said.
            kind: the same for records of which the same is to be said.
            example: the record and the reason, as `kinds` names them; the message unless told.
        """
        key = fate, kind if len(self._kinds) < MOST or (fate, kind) in self._kinds else OTHER
        told = self._kinds.setdefault(key, Kind(example or message))
        told.count += 1
        count = told.count
        if count < FEW:
            shown = message
        elif count == FEW:
            shown = f"{message} (and so on: of more of these, only the 10th, the 100th, … is shown)"
        elif str(count).rstrip("0") == "1":
            shown = f"{message} (the {count:,}th)"
        else:
            return
        told.said += 1
        self._say(shown)

    def kinds(self, fate: str) -> list[str]:
        """A line for every kind of records of one fate, the most frequent first: how many, and the first of them.

        None where the records are few and each was said.
        """
        found = [told for (its, _), told in self._kinds.items() if its == fate]
        if sum(told.count for told in found) <= FEW and all(told.said == told.count for told in found):
            return []
        found.sort(key=lambda told: -told.count)
        return [f"{told.count:,} {fate}{' like' if told.count > 1 else ':'} {told.example}" for told in found]

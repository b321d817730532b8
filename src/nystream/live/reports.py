"""Messages about records as they come, limited so that they do not fill a log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

MAX_EACH = 5  # messages of a kind that are all reported; after them the 10th, the 100th, …
MAX_KINDS = 50  # that are counted separately, to bound the memory
OTHER = "other"


@dataclass
class ReportKind:
    """Records with the same kind of message."""

    example: str  # the first one
    count: int = 0
    reported: int = 0


class Reports:
    """Reports the first few messages of every kind, then each time their number grows tenfold, and counts them all."""

    def __init__(self, say: Callable[[str], object]) -> None:
        self._say = say
        self._kinds: dict[tuple[str, str], ReportKind] = {}

    def tell(self, fate: str, message: str, kind: str = "", example: str = "") -> None:
        """Count a record, and report it unless there were many of its kind.

        Args:
            fate: What happened to it, such as "skipped".
            message: The report.
            kind: The same for records with the same problem.
            example: The record and the reason, for `kinds`; by default the message.
        """
        key = fate, kind if len(self._kinds) < MAX_KINDS or (fate, kind) in self._kinds else OTHER
        entry = self._kinds.setdefault(key, ReportKind(example or message))
        entry.count += 1
        if entry.count == MAX_EACH:
            message += " (further messages of this kind: only the 10th, the 100th, … are shown)"
        elif entry.count > MAX_EACH:
            if str(entry.count).rstrip("0") != "1":
                return
            message += f" (the {entry.count:,}th)"
        entry.reported += 1
        self._say(message)

    def kinds(self, fate: str) -> list[str]:
        """Return a line for every kind of records with this fate, most frequent first: their number and an example.

        Empty if there were only a few records and all were reported.
        """
        entries = [entry for (entry_fate, _), entry in self._kinds.items() if entry_fate == fate]
        if sum(entry.count for entry in entries) <= MAX_EACH and all(
            entry.reported == entry.count for entry in entries
        ):
            return []
        entries.sort(key=lambda entry: -entry.count)
        return [f"{entry.count:,} {fate}{' like' if entry.count > 1 else ':'} {entry.example}" for entry in entries]

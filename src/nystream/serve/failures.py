"""What fails while a service runs: lines in the log, but not one for each time, and whether the store is well."""

from __future__ import annotations

import logging
import math
import time

from nystream.serve.stores.store import StoreError

LOG_SECONDS = 10.0  # between two lines about the same
RECENT_SECONDS = 5.0  # after a failure of the store, nothing better is expected of it

log = logging.getLogger(__name__)


class Failures:
    """Notes failures of a service."""

    def __init__(self) -> None:
        self._store_failed = -math.inf
        self._logged: dict[str, float] = {}  # by event
        self._unsaid: dict[str, int] = {}

    @property
    def of_store(self) -> bool:
        """Whether the store has failed within the last seconds."""
        return time.monotonic() - self._store_failed < RECENT_SECONDS

    def note(self, event: str, error: Exception, **fields: object) -> None:
        """Note a failure; it is logged unless the same was logged a short time ago, which the next line then counts.

        Args:
            event: What has failed.
            error: Why; if the store is not the reason, its traceback is logged.
            fields: More about it.
        """
        now, is_store = time.monotonic(), isinstance(error, StoreError)
        if is_store:
            self._store_failed = now
        if now - self._logged.get(event, -math.inf) < LOG_SECONDS:
            self._unsaid[event] = self._unsaid.get(event, 0) + 1
            return
        fields |= {"error": str(error), "not_logged_before": self._unsaid.pop(event, 0)}
        log.error(event, exc_info=None if is_store else error, extra={"fields": fields})
        self._logged[event] = now

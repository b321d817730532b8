"""Structured logs: one JSON object per line on standard error."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

NAMES = ("nystream.serve", "uvicorn")


class JsonLines(logging.Formatter):
    """Formats a log record as one line of JSON; `extra={"fields": {...}}` adds fields."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)


def log_to_stderr() -> None:
    """Log what the service and its HTTP server have to say."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in NAMES:
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO)

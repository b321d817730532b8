"""Local times of a time zone, and the same moments in UTC; times are in microseconds since 1970.

When daylight saving time ends, an hour is repeated: its times mean two moments, and the order of the rows tells which.
When it starts, an hour is missing: its times mean none.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

import numpy as np
from numpy.typing import NDArray

_EPOCH, _MICROSECOND = datetime(1970, 1, 1), timedelta(microseconds=1)


@lru_cache
def find_zone(timezone: str) -> ZoneInfo:
    """Return a time zone by its name; ValueError if there is none."""
    try:
        return ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        known = available_timezones()
        hint = "" if known else "; this system has no time zones: pip install tzdata"
        ends = sorted(name for name in known if name.lower().endswith(timezone.lower())) if timezone else []
        similar = f", such as {ends[0]}" if ends else ", such as Europe/Berlin or UTC"
        raise ValueError(f"timezone={timezone!r} is not the name of a time zone{similar}{hint}") from error


def to_local(time: int, timezone: str) -> int:
    """Return the local time of a moment in UTC."""
    return time + _offset(_moment(time, timezone))


def to_utc(local: int, timezone: str, due: int | None = None) -> int:
    """Return the moment of a local time.

    Args:
        local: The local time.
        timezone: Its time zone.
        due: When it is expected, in UTC; of two moments in a repeated hour, the one nearest to it is returned, and the
            later one if both are as near; without it, the first.

    Raises ValueError if there is no such time, because clocks were set forward.

    Example:
        >>> import numpy as np
        >>> from nystream.data.timestamps.zone import to_utc
        >>> half = int(np.datetime64("2024-10-27T02:30", "us").astype(np.int64))
        >>> first = to_utc(half, "Europe/Berlin")
        >>> hour = 3_600_000_000
        >>> (half - first) // hour, (half - to_utc(half, "Europe/Berlin", first + hour)) // hour
        (2, 1)
    """
    first, second = _moments(local, timezone)
    if first > second:
        time = _EPOCH + local * _MICROSECOND
        raise ValueError(f"clocks in {timezone} were set forward, so there was no {time:%H:%M:%S} on {time:%Y-%m-%d}")
    return second if due is not None and abs(second - due) <= abs(first - due) else first


def shifted_to_utc(local: int, timezone: str) -> int:
    """Return the moment of a local time, the first of two; one in a missing hour is as much after it began."""
    return _moments(local, timezone)[0]


def local_times(times: NDArray[Any], timezone: str) -> NDArray[Any]:
    """Return the local times of moments [N] in UTC, both datetime64 in microseconds, without NaT."""
    local = [to_local(time, timezone) for time in times.astype("datetime64[us]").astype(np.int64).tolist()]
    return np.array(local, np.int64).view("datetime64[us]")


def local_text(time: int, timezone: str) -> str:
    """Return a moment in UTC as its local time in ISO 8601, with the offset from UTC."""
    return _moment(time, timezone).isoformat()


def _moment(time: int, timezone: str) -> datetime:
    return (_EPOCH.replace(tzinfo=UTC) + time * _MICROSECOND).astimezone(find_zone(timezone))


def _moments(local: int, timezone: str) -> tuple[int, int]:
    """The two moments of a local time: equal, except in a repeated hour, and in a missing one in reverse order."""
    moment = (_EPOCH + local * _MICROSECOND).replace(tzinfo=find_zone(timezone))
    return local - _offset(moment), local - _offset(moment.replace(fold=1))


def _offset(moment: datetime) -> int:
    offset = moment.utcoffset()
    assert offset is not None
    return offset // _MICROSECOND

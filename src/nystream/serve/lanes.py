"""Streams in groups: all streams of a lane are in the same process at a time, whichever that is."""

from __future__ import annotations

from zlib import crc32

LANES = 64  # a store of many processes has been divided into as many, so that this number must not change


def lane_of(owner: str, key: str) -> int:
    """Return the lane of a stream."""
    return crc32(f"{owner}\0{key}".encode("utf-8", "surrogatepass")) % LANES

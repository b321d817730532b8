"""All streams of `Sessions` in one file: safetensors, with the snapshots of the streams one after another.

Keys and the reader's memories are JSON in an array of their own, because a header must be short.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nystream.state as states
from nystream import files
from nystream.live.saving import require_same_info
from nystream.live.sessions import Sessions, Snapshot

Arrays = dict[str, NDArray[Any]]

FORMAT = "nystream-sessions-1"


def _plain(key: Any) -> str | int:
    """A key for JSON, which has no integers of numpy."""
    return key if isinstance(key, str) else int(key)


def save(path: Path, sessions: Sessions) -> None:
    """Write all streams atomically: an existing file is replaced only when the new one is complete."""
    from safetensors.numpy import save

    for key in sessions:
        if isinstance(key, bool) or not isinstance(key, str | int | np.integer):
            raise TypeError(
                f"key={key!r} is a {type(key).__name__}, but keys of streams to save must be text or integers"
            )
    snapshots = [sessions.snapshot(key) for key in sessions]
    arrays: Arrays = {
        "ends": np.cumsum([len(state) for state, _ in snapshots], dtype=np.int64),
        "memories": _bytes(
            json.dumps([[_plain(key), memory] for key, (_, memory) in zip(sessions, snapshots, strict=True)])
        ),
        "streams": np.frombuffer(b"".join(state for state, _ in snapshots), np.uint8),
    }
    header = {"format": FORMAT, "info": json.dumps(sessions.model.info.to_dict(), sort_keys=True)}
    blob = save(arrays, header | {"checksum": _checksum(arrays, header)})
    files.replace(path, lambda partial: partial.write_bytes(blob))


def load(path: Path, sessions: Sessions) -> dict[Hashable, Snapshot]:
    """Return the snapshots of a file, by key; ValueError if it is damaged or of another model."""
    import safetensors
    from safetensors.numpy import load

    files.sweep(path)
    blob = path.read_bytes()
    try:
        arrays, header = load(blob), states.metadata(blob)
    except (safetensors.SafetensorError, ValueError) as error:
        raise ValueError(f"{path}: it cannot be read as safetensors: {error}") from error
    if header.get("format") != FORMAT:
        raise ValueError(f"{path}: it is not a file of Sessions.save, or of another version of nystream")
    checksum = header.pop("checksum", None)
    if checksum != _checksum(arrays, header):
        raise ValueError(f"{path}: the file is damaged: its checksum is wrong")
    try:
        require_same_info(json.loads(header["info"]), sessions.model.info)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    streams, ends = arrays["streams"].tobytes(), [0, *arrays["ends"].tolist()]
    memories = json.loads(arrays["memories"].tobytes())
    return {
        key: (streams[begin:end], memory)
        for (key, memory), begin, end in zip(memories, ends[:-1], ends[1:], strict=True)
    }


def _bytes(text: str) -> NDArray[np.uint8]:
    return np.frombuffer(text.encode(), np.uint8)


def _checksum(arrays: Arrays, header: dict[str, str]) -> str:
    total = zlib.crc32(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        total = zlib.crc32(arrays[name].tobytes(), zlib.crc32(name.encode(), total))
    return f"{total:08x}"

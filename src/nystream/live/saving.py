"""A session as one file: the stream's state, the reader's memory and the place in the source, which cannot disagree.

The file is safetensors: a snapshot of the stream as one array of bytes, the rest as JSON in its header.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nystream import state as states
from nystream.live.session import Session

FORMAT = "nystream-session-1"


class Position(NamedTuple):
    """How far a source was read."""

    source: str = "-"  # its name
    items: int = 0  # lines, rows or chunks, those that were skipped too
    checksum: int = 0  # CRC-32 of them
    memory: dict[str, Any] | None = None  # what the source has found out, such as the columns of a table


def save(path: Path, session: Session, position: Position) -> None:
    """Write a session whole or not at all: what was there stays until the new file is complete."""
    blob = dump(session, position)
    states.replace(path, lambda partial: partial.write_bytes(blob))


def load(path: Path, session: Session) -> Position:
    """Put a session to where it was saved. A file of another model, or a damaged one, changes nothing."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, but a session is a file")
    try:
        return restore(path.read_bytes(), session)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path} does not exist, so there is no session to go on with") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def dump(session: Session, position: Position) -> bytes:
    """The bytes of the file."""
    from safetensors.numpy import save

    state, memory = session.snapshot()
    said = {
        "format": FORMAT,
        "reader": _reader(session),
        "memory": json.dumps(memory),
        "position": json.dumps(position._asdict()),
    }
    stream = np.frombuffer(state, np.uint8)
    return save({"stream": stream}, said | {"checksum": _checksum(stream, said)})


def restore(blob: bytes, session: Session) -> Position:
    """The inverse of `dump`."""
    import safetensors
    from safetensors.numpy import load

    try:
        tensors, said = load(blob), states.metadata(blob)
    except (safetensors.SafetensorError, ValueError) as error:
        raise ValueError(f"it cannot be read as safetensors: {error}") from error
    if said.get("format") != FORMAT:
        raise ValueError("it is not a saved session; --save-state writes them")
    given = said.pop("checksum", None)
    if set(tensors) != {"stream"} or given != _checksum(tensors["stream"], said):
        raise ValueError("its contents are not those that were saved; the file is damaged")
    if said["reader"] != _reader(session):
        raise ValueError("it was saved with a model that reads records in another way")
    position = Position(**json.loads(said["position"]))
    session.restore(tensors["stream"].tobytes(), json.loads(said["memory"]))
    return position


def same_file(one: Path | None, other: Path | None) -> bool:
    """Whether both are given and are one path, there or not."""
    return one is not None and other is not None and os.path.abspath(one) == os.path.abspath(other)


def _reader(session: Session) -> str:
    """A fingerprint of how records are read."""
    return hashlib.sha256(json.dumps(session.model.info.reader, sort_keys=True).encode()).hexdigest()


def _checksum(stream: Any, said: dict[str, str]) -> str:
    return f"{zlib.crc32(stream.tobytes(), zlib.crc32(json.dumps(said, sort_keys=True).encode())):08x}"

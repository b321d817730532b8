"""A session as one file: the stream's state, the reader's memory and the place in the source, which cannot disagree.

The file is safetensors: a snapshot of the stream as one array of bytes, the rest as JSON in its header.
"""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import nystream.state as states
from nystream import files
from nystream.live.session import Session

FORMAT = "nystream-session-2"
FORMATS = "nystream-session-"  # of all versions
LARGEST = 1 << 24  # bytes of a header


class Position(NamedTuple):
    """How far a source was read."""

    source: str = "-"  # its name
    items: int = 0  # lines, rows or chunks, those that were skipped too
    checksum: int = 0  # CRC-32 of them
    memory: dict[str, Any] | None = None  # what the source has found out, such as the columns of a table


def save(path: Path, session: Session, position: Position) -> None:
    """Write a session whole or not at all: what was there stays until the new file is complete."""
    blob = dump(session, position)
    files.replace(path, lambda partial: partial.write_bytes(blob))


def load(path: Path, session: Session) -> Position:
    """Put a session to where it was saved. A file of another model, or a damaged one, changes nothing."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, but a session is a file")
    files.sweep(path)
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
        "info": json.dumps(session.model.info.to_dict(), sort_keys=True),
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
        other = str(said.get("format", "")).startswith(FORMATS)
        raise ValueError(
            "it was saved by another version of nystream"
            if other
            else "it is not a saved session; --save-state writes them"
        )
    given = said.pop("checksum", None)
    if set(tensors) != {"stream"} or given != _checksum(tensors["stream"], said):
        raise ValueError("its contents are not those that were saved; the file is damaged")
    try:
        info, memory = dict(json.loads(said["info"])), json.loads(said["memory"])
        position = Position(**json.loads(said["position"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"its header is not that of a saved session: {error!r:.100}") from error
    _check_info(info, session)
    session.restore(tensors["stream"].tobytes(), memory)
    return position


def same_file(one: Path | None, other: Path | None) -> bool:
    """Whether both are given and are one path, there or not."""
    return one is not None and other is not None and os.path.abspath(one) == os.path.abspath(other)


def require_free(path: Path, source: str) -> None:
    """Refuse to write a session over anything but a session, or over what is being read."""
    if os.path.exists(source) and path.exists() and os.path.samefile(source, path):
        raise ValueError(f"save-state={path} is the source itself, which would be lost; give another file")
    if path.exists() and path.stat().st_size and not is_session(path):
        raise ValueError(f"save-state={path} is there and is no saved session; it would be lost, so give another file")


def is_session(path: Path) -> bool:
    """Whether a file was written by `save`, whole or damaged, by whatever version."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = file.read(size) if size <= LARGEST else b""
    try:
        said = json.loads(header)["__metadata__"]["format"]
    except (ValueError, KeyError, TypeError):
        return False
    return isinstance(said, str) and said.startswith(FORMATS)


def _check_info(theirs: dict[str, Any], session: Session) -> None:
    """Refuse a session of a model that reads or answers in other words."""
    ours = json.loads(json.dumps(session.model.info.to_dict()))
    names = [name for name in {**ours, **theirs} if theirs.get(name) != ours.get(name)]
    if names:
        raise ValueError(f"it was saved with a model of another {' and '.join(names)}")


def _checksum(stream: Any, said: dict[str, str]) -> str:
    return f"{zlib.crc32(stream.tobytes(), zlib.crc32(json.dumps(said, sort_keys=True).encode())):08x}"

"""A session in one file: the state of the stream, the reader's memory and the position in the source.

The file is safetensors: a snapshot of the stream as one array of bytes, the rest as JSON in its header. Everything is
in one file, so that the parts always belong together.
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
from nystream.config import ModelInfo
from nystream.live.session import Session

FORMAT = "nystream-session-2"
FORMAT_PREFIX = "nystream-session-"  # of all versions
MAX_HEADER = 1 << 24  # bytes


class Position(NamedTuple):
    """How far a source was read."""

    source: str = "-"  # its name
    items: int = 0  # lines, rows or chunks, including skipped ones
    checksum: int = 0  # CRC-32 of them
    memory: dict[str, Any] | None = None  # what the source remembers, such as the columns of a table


def save(path: Path, session: Session, position: Position) -> None:
    """Write a session atomically: an existing file is replaced only when the new one is complete."""
    blob = dump(session, position)
    files.replace(path, lambda partial: partial.write_bytes(blob))


def load(path: Path, session: Session) -> Position:
    """Restore a saved session. If the file is damaged or of another model, it raises and the session is unchanged."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, but a session is a file")
    files.sweep(path)
    try:
        return restore(path.read_bytes(), session)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path} does not exist, so there is no session to resume") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def dump(session: Session, position: Position) -> bytes:
    """Return the bytes of the file."""
    from safetensors.numpy import save

    state, memory = session.snapshot()
    header = {
        "format": FORMAT,
        "info": json.dumps(session.model.info.to_dict(), sort_keys=True),
        "memory": json.dumps(memory),
        "position": json.dumps(position._asdict()),
    }
    stream = np.frombuffer(state, np.uint8)
    return save({"stream": stream}, header | {"checksum": _checksum(stream, header)})


def restore(blob: bytes, session: Session) -> Position:
    """Restore a session from the bytes of `dump`."""
    import safetensors
    from safetensors.numpy import load

    try:
        tensors, header = load(blob), states.metadata(blob)
    except (safetensors.SafetensorError, ValueError) as error:
        raise ValueError(f"it cannot be read as safetensors: {error}") from error
    if header.get("format") != FORMAT:
        if str(header.get("format", "")).startswith(FORMAT_PREFIX):
            raise ValueError("it was saved by another version of nystream")
        raise ValueError("it is not a saved session, as --save-state writes them")
    checksum = header.pop("checksum", None)
    if set(tensors) != {"stream"} or checksum != _checksum(tensors["stream"], header):
        raise ValueError("the file is damaged: its checksum is wrong")
    try:
        info, memory = dict(json.loads(header["info"])), json.loads(header["memory"])
        position = Position(**json.loads(header["position"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"its header is not that of a saved session: {error!r:.100}") from error
    require_same_info(info, session.model.info)
    session.restore(tensors["stream"].tobytes(), memory)
    return position


def require_same_info(info: dict[str, Any], ours: ModelInfo) -> None:
    """Raise if a model has other inputs or outputs than another one, even if its sizes are the same."""
    expected = json.loads(json.dumps(ours.to_dict()))
    different = [name for name in {**expected, **info} if info.get(name) != expected.get(name)]
    if different:
        raise ValueError(f"it was saved with another model, which differs in: {', '.join(different)}")


def same_file(path: Path | None, other: Path | None) -> bool:
    """Whether both paths are given and are the same, existing or not."""
    return path is not None and other is not None and os.path.abspath(path) == os.path.abspath(other)


def require_free(path: Path, source: str) -> None:
    """Raise if saving a session would overwrite the source, or any file other than a session."""
    if os.path.exists(source) and path.exists() and os.path.samefile(source, path):
        raise ValueError(f"save-state={path} is the source itself, which would be overwritten; give another file")
    if path.exists() and path.stat().st_size and not is_session(path):
        raise ValueError(
            f"save-state={path} exists and is not a saved session, so it is not overwritten; give another file"
        )


def is_session(path: Path) -> bool:
    """Whether a file was written by `save`, in any version, complete or damaged."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = file.read(size) if size <= MAX_HEADER else b""
    try:
        file_format = json.loads(header)["__metadata__"]["format"]
    except (ValueError, KeyError, TypeError):
        return False
    return isinstance(file_format, str) and file_format.startswith(FORMAT_PREFIX)


def _checksum(stream: Any, header: dict[str, str]) -> str:
    return f"{zlib.crc32(stream.tobytes(), zlib.crc32(json.dumps(header, sort_keys=True).encode())):08x}"

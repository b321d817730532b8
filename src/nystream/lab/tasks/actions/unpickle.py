"""Reading pickles of numpy arrays and plain containers, and nothing else.

A pickle is a program: it may name any function and call it. Here every name is refused but the few by which numpy
writes down an array, and even those do not lead to numpy: the array's numbers are taken from its bytes.
"""

from __future__ import annotations

import pickle
import re
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

DEPTH = 16  # of containers in containers; one that contains itself is endlessly deep
PLAIN = re.compile(r"[<>=|]?[biufSU]\d{1,6}")  # truth values, numbers and texts, not Python objects or records


def read_pickle(path: Path) -> Any:
    """What a pickle of numpy arrays and plain containers holds. The arrays cannot be written to."""
    try:
        with path.open("rb") as file:
            return _arrays(_Reader(file).load())
    except _RefusedError as error:
        raise ValueError(f"{path} {error}") from None
    except OSError:
        raise
    except Exception as error:  # a damaged pickle ends in any of a dozen
        raise ValueError(f"{path} is not a pickle, or is cut short or damaged: {error!r}") from error


class _RefusedError(Exception):
    """Says of a pickle what it has that is not read."""


class _Reader(pickle.Unpickler):
    def __init__(self, file: Any) -> None:
        super().__init__(file, encoding="latin1")  # as Python 2 wrote the bytes of arrays

    def find_class(self, module: str, name: str) -> Any:
        found = KNOWN.get((module, name))
        if found is None:
            raise _RefusedError(
                f"asks for {module}.{name}, but only numpy arrays and plain containers are read from pickles"
            )
        return found if isinstance(found, type | str) else _stand_in(found)

    def persistent_load(self, pid: Any) -> Any:
        raise _RefusedError(f"asks for an object from elsewhere, {pid!r}, but must hold all of its arrays itself")


class _Dtype:
    """A dtype that is first made and then told its byte order."""

    __slots__ = ("value",)

    def __init__(self, code: Any) -> None:
        if not isinstance(code, str) or not PLAIN.fullmatch(code):
            raise _RefusedError(f"has an array of dtype {code!r}, but only numbers, truth values and texts are read")
        self.value: np.dtype[Any] = np.dtype(code)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, order, subdtype, names, fields = state[:5]
        if (subdtype, names, fields) != (None, None, None):
            raise _RefusedError("has an array of records, but only numbers, truth values and texts are read")
        self.value = self.value.newbyteorder(order)


class _Array:
    """An array that is first made and then told its numbers."""

    __slots__ = ("value",)

    def __init__(self, value: NDArray[Any] | None = None) -> None:
        self.value = value

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, fortran, data = state
        self.value = _filled(data, dtype, shape, "F" if fortran else "C")


def _filled(data: Any, dtype: Any, shape: Any, order: Any) -> NDArray[Any]:
    if not isinstance(dtype, _Dtype):
        raise _RefusedError(f"has an array of dtype {dtype!r}, but only numbers, truth values and texts are read")
    raw = data.encode("latin1") if isinstance(data, str) else data
    found = np.frombuffer(raw, dtype.value) if len(raw) else np.empty(0, dtype.value)
    found = found.reshape(shape, order=order)
    found.flags.writeable = False
    return found


def _dtype(code: Any, align: Any = False, copy: Any = False) -> _Dtype:
    return _Dtype(code)


def _unfilled(kind: Any, shape: Any, code: Any) -> _Array:
    if kind != "ndarray":
        raise _RefusedError(f"has an array of the kind {kind!r}, but only numpy.ndarray is read")
    return _Array()


def _from_buffer(data: Any, dtype: Any, shape: Any, order: Any, axes: Any = None) -> _Array:
    found = _filled(data, dtype, shape, "F" if order == "F" else "C")
    return _Array(found if axes is None else found.transpose(axes))


def _scalar(dtype: Any, data: Any) -> Any:
    return _filled(data, dtype, (1,), "C")[0].item()


def _latin1(text: Any, encoding: Any) -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise _RefusedError(f"asks for bytes in {encoding!r}, but only latin1 is read")
    return text.encode("latin1")


def _no_bytes() -> bytes:
    return b""


def _stand_in(function: Callable[..., Any]) -> Callable[..., Any]:
    """A new function that calls another: a pickle may set attributes of what it finds, and they die with this one."""
    return lambda *arguments: function(*arguments)


CORE = ("numpy.core", "numpy._core")  # numpy 1, numpy 2
KNOWN: dict[tuple[str, str], Any] = {
    ("_codecs", "encode"): _latin1,
    ("__builtin__", "bytes"): _no_bytes,  # those of an empty array, in the protocols that Python 2 could read
    ("collections", "OrderedDict"): OrderedDict,
    ("numpy", "dtype"): _dtype,
    ("numpy", "ndarray"): "ndarray",
    **{(f"{core}.multiarray", "_reconstruct"): _unfilled for core in CORE},
    **{(f"{core}.multiarray", "scalar"): _scalar for core in CORE},
    **{(f"{core}.numeric", "_frombuffer"): _from_buffer for core in CORE},
}


def _arrays(found: Any, depth: int = 0, done: dict[int, Any] | None = None) -> Any:
    """The same containers, with what was read of the arrays made into arrays."""
    done = {} if done is None else done  # one that is in many places is done once
    if depth > DEPTH:
        raise _RefusedError(f"has containers more than {DEPTH} deep")
    if found is None or isinstance(found, bool | int | float | str | bytes | bytearray):
        return found
    if id(found) not in done:
        done[id(found)] = _one(found, lambda part: _arrays(part, depth + 1, done))
    return done[id(found)]


def _one(found: Any, inner: Callable[[Any], Any]) -> Any:
    if isinstance(found, _Array) and found.value is not None:
        return found.value
    if isinstance(found, dict):
        return {key: inner(value) for key, value in dict.items(found)}
    if isinstance(found, list | tuple | set | frozenset):
        return type(found)(inner(value) for value in found)
    kind = type(found).__name__.strip("_")
    raise _RefusedError(f"holds something else ({kind}), but only whole arrays and plain containers are read")

"""Safe reading of pickles that contain only numpy arrays and plain containers.

A pickle is a program that can call any function by name. Here only the few names with which numpy pickles an array are
allowed, and even these do not call numpy: arrays are built from their bytes.
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

MAX_DEPTH = 16  # of nested containers; one may contain itself
PLAIN = re.compile(r"[<>=|]?[biufSU]\d{1,6}")  # bools, numbers and text, not Python objects or records


def read_pickle(path: Path) -> Any:
    """Read a pickle of numpy arrays and plain containers. The arrays are read-only."""
    try:
        with path.open("rb") as file:
            return _arrays(_Reader(file).load())
    except _RefusedError as error:
        raise ValueError(f"{path} {error}") from None
    except OSError:
        raise
    except Exception as error:  # many kinds for damaged pickles
        raise ValueError(f"{path} is not a pickle, or is cut short or damaged: {error!r}") from error


class _RefusedError(Exception):
    """The pickle has something that is not allowed."""


class _Reader(pickle.Unpickler):
    def __init__(self, file: Any) -> None:
        super().__init__(file, encoding="latin1")  # as Python 2 wrote the bytes of arrays

    def find_class(self, module: str, name: str) -> Any:
        known = KNOWN.get((module, name))
        if known is None:
            raise _RefusedError(
                f"asks for {module}.{name}, but only numpy arrays and plain containers are read from pickles"
            )
        return known if isinstance(known, type | str) else _stand_in(known)

    def persistent_load(self, pid: Any) -> Any:
        raise _RefusedError(f"asks for an external object, {pid!r}, but must contain all of its arrays")


class _Dtype:
    """A dtype, which gets its byte order after its creation."""

    __slots__ = ("value",)

    def __init__(self, code: Any) -> None:
        if not isinstance(code, str) or not PLAIN.fullmatch(code):
            raise _RefusedError(f"has an array of dtype {code!r}, but only numbers, booleans and strings are read")
        self.value: np.dtype[Any] = np.dtype(code)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, order, subdtype, names, fields = state[:5]
        if (subdtype, names, fields) != (None, None, None):
            raise _RefusedError("has an array of records, but only numbers, booleans and strings are read")
        self.value = self.value.newbyteorder(order)


class _Array:
    """An array, which gets its numbers after its creation."""

    __slots__ = ("value",)

    def __init__(self, value: NDArray[Any] | None = None) -> None:
        self.value = value

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, fortran, data = state
        self.value = _filled(data, dtype, shape, "F" if fortran else "C")


def _filled(data: Any, dtype: Any, shape: Any, order: Any) -> NDArray[Any]:
    if not isinstance(dtype, _Dtype):
        raise _RefusedError(f"has an array of dtype {dtype!r}, but only numbers, booleans and strings are read")
    raw = data.encode("latin1") if isinstance(data, str) else data
    array = np.frombuffer(raw, dtype.value) if len(raw) else np.empty(0, dtype.value)
    array = array.reshape(shape, order=order)
    array.flags.writeable = False
    return array


def _dtype(code: Any, align: Any = False, copy: Any = False) -> _Dtype:
    return _Dtype(code)


def _unfilled(kind: Any, shape: Any, code: Any) -> _Array:
    if kind != "ndarray":
        raise _RefusedError(f"has an array of the kind {kind!r}, but only numpy.ndarray is read")
    return _Array()


def _from_buffer(data: Any, dtype: Any, shape: Any, order: Any, axes: Any = None) -> _Array:
    array = _filled(data, dtype, shape, "F" if order == "F" else "C")
    return _Array(array if axes is None else array.transpose(axes))


def _scalar(dtype: Any, data: Any) -> Any:
    return _filled(data, dtype, (1,), "C")[0].item()


def _latin1(text: Any, encoding: Any) -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise _RefusedError(f"asks for bytes in {encoding!r}, but only latin1 is read")
    return text.encode("latin1")


def _no_bytes() -> bytes:
    return b""


def _stand_in(function: Callable[..., Any]) -> Callable[..., Any]:
    """A new function that calls another: a pickle may set attributes of it, which must not last."""
    return lambda *arguments: function(*arguments)


CORE = ("numpy.core", "numpy._core")  # numpy 1, numpy 2
KNOWN: dict[tuple[str, str], Any] = {
    ("_codecs", "encode"): _latin1,
    ("__builtin__", "bytes"): _no_bytes,  # of an empty array, in old protocols
    ("collections", "OrderedDict"): OrderedDict,
    ("numpy", "dtype"): _dtype,
    ("numpy", "ndarray"): "ndarray",
    **{(f"{core}.multiarray", "_reconstruct"): _unfilled for core in CORE},
    **{(f"{core}.multiarray", "scalar"): _scalar for core in CORE},
    **{(f"{core}.numeric", "_frombuffer"): _from_buffer for core in CORE},
}


def _arrays(item: Any, depth: int = 0, done: dict[int, Any] | None = None) -> Any:
    """The same containers, with real arrays."""
    done = {} if done is None else done  # objects that occur several times are converted once
    if depth > MAX_DEPTH:
        raise _RefusedError(f"has containers more than {MAX_DEPTH} deep")
    if item is None or isinstance(item, bool | int | float | str | bytes | bytearray):
        return item
    if id(item) not in done:
        done[id(item)] = _converted(item, lambda part: _arrays(part, depth + 1, done))
    return done[id(item)]


def _converted(item: Any, convert: Callable[[Any], Any]) -> Any:
    if isinstance(item, _Array) and item.value is not None:
        return item.value
    if isinstance(item, dict):
        return {key: convert(value) for key, value in dict.items(item)}
    if isinstance(item, list | tuple | set | frozenset):
        return type(item)(convert(value) for value in item)
    kind = type(item).__name__.strip("_")
    raise _RefusedError(f"contains something else ({kind}), but only whole arrays and plain containers are read")

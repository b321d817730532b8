"""Convert what users push to what the backends take, and explain what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from operator import countOf
from typing import Any

import numpy as np
import torch
from numpy.ma import MaskedArray  # now, because another thread must not import it while a process forks

from nystream.stream.errors import UnknownStreamError

MAX_LISTED_IDS = 5  # in a message
MAX_ID = 2**63 - 1
PADDING = -1  # instead of an id: a row that a backend with padding skips


def numbers(name: str, x: Any) -> np.ndarray:
    """`x` as an array of real numbers, in its own dtype."""
    if isinstance(x, MaskedArray):
        raise TypeError(f"{name} is a masked array; fill in the missing values first, or skip the token")
    try:
        array = _of_tensor(x) if isinstance(x, torch.Tensor) else np.asarray(x)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"{name} is a {type(x).__name__} that cannot be converted to an array of real numbers: {error}"
        ) from error
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} has dtype {array.dtype}, but must be real numbers")
    return array


def behaved(array: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """The array in `dtype`, C-contiguous, aligned and writeable, copied only if needed. Overflow becomes Inf."""
    with np.errstate(over="ignore"):
        return np.require(array, dtype, ["C", "A", "W", "E"])


def stream_id(sid: Any) -> int:
    """`sid` as a plain int."""
    if isinstance(sid, int | np.integer) and not isinstance(sid, bool):
        return int(sid)
    raise TypeError(f"sid is {sid!r:.40}, a {type(sid).__name__}, but must be an integer returned by open()")


def stream_ids(sids: Any) -> np.ndarray:
    """`sids`, a list, a tuple or an array, as int64 [S]; whether such streams exist is not checked."""
    if isinstance(sids, torch.Tensor):
        sids = sids.numpy(force=True)
    if not isinstance(sids, np.ndarray):
        if isinstance(sids, str | bytes) or not isinstance(sids, Sequence):
            raise TypeError(f"sids is a {type(sids).__name__}, but must be a list, a tuple or an array of integers")
        ids = sids if countOf(map(type, sids), int) == len(sids) else [stream_id(sid) for sid in sids]
        try:
            sids = np.fromiter(ids, np.int64, len(ids))
        except OverflowError as error:
            raise _too_large(next(sid for sid in ids if not -MAX_ID - 1 <= sid <= MAX_ID)) from error
    if isinstance(sids, MaskedArray):
        raise TypeError("sids is a masked array, but must be an array without a mask: sids.compressed()")
    if sids.dtype.kind not in "iu" or sids.ndim != 1:
        raise TypeError(f"sids is {sids.dtype} {list(sids.shape)}, but must be integers [S], one id per stream")
    if sids.dtype == np.uint64 and sids.size and sids.max() > MAX_ID:
        raise _too_large(int(sids.max()))  # converted to int64, it would be negative
    return sids if sids.dtype == np.int64 else sids.astype(np.int64)


def not_finite_error(name: str, x: Any, dtype: torch.dtype, sids: Sequence[int]) -> ValueError:
    """The error for numbers that are not finite in the model's dtype; `sids` are the streams of the rows of `x`."""
    values = torch.from_numpy(numbers(name, x).astype(np.float64)).reshape(len(sids), -1)
    bad = ~values.to(dtype).isfinite()
    too_large = bad & values.isfinite()
    streams = [sid for sid, hit in zip(sids, bad.any(1).tolist(), strict=True) if hit]
    what = "NaN or Inf" if not too_large.any() else f"too large for {str(dtype).removeprefix('torch.')}"
    if too_large.any() and (bad & ~too_large).any():
        what = f"NaN or Inf, or {what}"
    count = int(bad.sum())
    return ValueError(
        f"{name} has {count} value{'s' if count != 1 else ''} that {'is' if count == 1 else 'are'} {what}, "
        f"for {_listed(streams)}; no state was changed"
    )


def _too_large(sid: int) -> UnknownStreamError:
    return UnknownStreamError(f"stream {sid} was never opened: the largest possible id is {MAX_ID}")


def _listed(sids: Sequence[int]) -> str:
    named = ", ".join(map(str, sids[:MAX_LISTED_IDS]))
    more = f" and {len(sids) - MAX_LISTED_IDS} more" if len(sids) > MAX_LISTED_IDS else ""
    return f"stream{'s' if len(sids) != 1 else ''} {named}{more}"


def _of_tensor(x: torch.Tensor) -> np.ndarray:
    if x.is_floating_point() and x.dtype not in (torch.float16, torch.float32, torch.float64):
        x = x.float()  # numpy has no bfloat16
    return x.numpy(force=True)

"""What users push, as the backends take it; and what is wrong with it where it cannot be taken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from nystream.stream.errors import UnknownStreamError

LISTED = 5  # how many ids a message names
LARGEST = 2**63 - 1  # id that an int64 holds


def numbers(name: str, x: Any) -> np.ndarray:
    """`x` as an array of real numbers, of whatever dtype it has."""
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array; fill in what is missing first, or leave the token out")
    try:
        if isinstance(x, torch.Tensor):
            given = _of_tensor(x)
        else:
            given = np.asarray(x)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{name} is a {type(x).__name__} that is no array of real numbers: {error}") from error
    if given.dtype.kind not in "iuf":
        raise TypeError(f"{name} has dtype {given.dtype}, but must be real numbers")
    return given


def behaved(given: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """The array in `dtype`, C-contiguous, aligned and writeable; itself where it is. What is too large becomes Inf."""
    with np.errstate(over="ignore"):
        return np.require(given, dtype, ["C", "A", "W", "E"])


def stream_id(sid: Any) -> int:
    """A plain int from whatever stands for one."""
    if isinstance(sid, int | np.integer) and not isinstance(sid, bool):
        return int(sid)
    raise TypeError(f"sid is {sid!r:.40}, a {type(sid).__name__}, but must be an integer that open() gave")


def stream_ids(sids: Any) -> np.ndarray:
    """int64 [S] from a list, a tuple or an array of ids; it is not yet known whether streams have them."""
    if isinstance(sids, torch.Tensor):
        sids = sids.numpy(force=True)
    if not isinstance(sids, np.ndarray):
        if isinstance(sids, str | bytes) or not isinstance(sids, Sequence):
            raise TypeError(f"sids is a {type(sids).__name__}, but must be a list, a tuple or an array of integers")
        held = [sid if type(sid) is int else stream_id(sid) for sid in sids]
        try:
            sids = np.array(held, np.int64)
        except OverflowError as error:
            raise _beyond(next(sid for sid in held if not -LARGEST - 1 <= sid <= LARGEST)) from error
    if sids.dtype.kind not in "iu" or sids.ndim != 1:
        raise TypeError(f"sids is {sids.dtype} {list(sids.shape)}, but must be integers [S], an id for every stream")
    if sids.dtype == np.uint64 and sids.size and sids.max() > LARGEST:
        raise _beyond(int(sids.max()))  # it would come out as a small or a negative one
    return sids if sids.dtype == np.int64 else sids.astype(np.int64)


def refusal(name: str, x: Any, dtype: torch.dtype, sids: Sequence[int]) -> ValueError:
    """What to raise for numbers that are not finite in the model's dtype; `sids` has a stream for every row of `x`."""
    given = torch.from_numpy(numbers(name, x).astype(np.float64)).reshape(len(sids), -1)
    lost = ~given.to(dtype).isfinite()
    large = lost & given.isfinite()
    where = [sid for sid, hit in zip(sids, lost.any(1).tolist(), strict=True) if hit]
    what = "NaN or Inf" if not large.any() else f"beyond {str(dtype).removeprefix('torch.')}"
    if large.any() and (lost & ~large).any():
        what = f"NaN or Inf, or {what}"
    count = int(lost.sum())
    return ValueError(
        f"{name} has {count} value{'s' if count != 1 else ''} that {'is' if count == 1 else 'are'} {what}, "
        f"for {_listed(where)}; no state was touched"
    )


def _beyond(sid: int) -> UnknownStreamError:
    return UnknownStreamError(f"stream {sid} was never opened: open() gives no ids beyond {LARGEST}")


def _listed(sids: Sequence[int]) -> str:
    named = ", ".join(map(str, sids[:LISTED]))
    more = f" and {len(sids) - LISTED} more" if len(sids) > LISTED else ""
    return f"stream{'s' if len(sids) != 1 else ''} {named}{more}"


def _of_tensor(x: torch.Tensor) -> np.ndarray:
    if x.is_floating_point() and x.dtype not in (torch.float16, torch.float32, torch.float64):
        x = x.float()  # numpy has no bfloat16
    return x.numpy(force=True)

"""The contract suite of stream pools: every stream gives the outputs of the model's `step`.

A pool, wrapped as a stream module, passes the suite of `module`, except for `NOT_FOR_POOLS`. The checks here are those
of a pool itself: streams are independent, rejected input has no effect, and snapshots work everywhere.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import nystream.state as states
from nystream import times
from nystream.stream import inputs
from nystream.stream.backends import NAMES, choose
from nystream.stream.pool import StreamPool
from nystream.testing import module as modules
from nystream.testing.case import Case, prepared

NATIVE_ON_CPU = ("numba", "torch")


class PoolModule:
    """A pool as a stream module: a step restores the rows of the state as streams, pushes, and takes snapshots."""

    def __init__(self, model: Any, pool: StreamPool) -> None:
        self.model, self.pool, self.config = model, pool, model.config
        self.init_state, self.steps = model.init_state, model.steps
        self.like = model.init_state(1)

    def __call__(self, x: Tensor) -> Tensor:
        y: Tensor = self.model(x)
        return y

    def parameters(self) -> Iterator[nn.Parameter]:
        return iter(self.model.parameters())

    def step(self, x: Tensor, state: Any, *, inplace: bool = False) -> tuple[Tensor, Any]:
        rows = [states.select(state, row) for row in range(x.shape[0])]
        sids = [self.pool.restore(states.pack(row, self.model, like=self.like)) for row in rows]
        y = torch.from_numpy(self.pool.push_many(sids, x)).to(x)
        blobs = [self.pool.snapshot(sid) for sid in sids]
        new = states.stack([states.unpack(blob, self.model, like=self.like) for blob in blobs])
        for sid in sids:
            self.pool.close(sid)
        return y, states.map_state(lambda old, leaf: old.copy_(leaf), state, new) if inplace else new


@dataclass
class PoolCase:
    """A model, a backend and input streams."""

    model: Any
    backend: str
    case: Case  # of the model itself

    def pool(self, capacity: int = 4) -> StreamPool:
        return StreamPool(self.model, capacity, self.backend)

    def alone(self, row: int, groups: int | None = None) -> Tensor:
        """Return the outputs of `model.step` for a stream: [groups, output_dim], or [groups, r, output_dim]."""
        x = self.case.x[row : row + 1, : None if groups is None else groups * self.r]
        y, _ = self.case.stream(x, self.model.init_state(1))
        return y[0] if self.r == 1 else y[0].unflatten(0, (-1, self.r))

    def token(self, row: int, group: int) -> Tensor:
        """Return the input of push number `group`, counted from 0, of a stream."""
        return self.case.group(self.case.x, (group + 1) * self.r)[row]

    def feed(self, pool: StreamPool, sid: int, row: int, start: int, end: int) -> Tensor:
        """Push groups start to end of a stream one by one, and return the outputs."""
        return torch.stack([torch.from_numpy(pool.push(sid, self.token(row, g))) for g in range(start, end)])

    @property
    def r(self) -> int:
        return self.case.r

    @property
    def groups(self) -> int:
        return self.case.x.shape[1] // self.r

    @property
    def window(self) -> int:
        """The window in groups of r tokens."""
        return self.case.n // self.r


def check_streams_interleave(case: PoolCase) -> None:
    """Streams at different phases, pushed in turn, alone and together, give the outputs of `model.step`."""
    pool = case.pool(capacity=1)
    rows = range(case.case.x.shape[0])
    late = {row: row * (case.window // 2 + 1) for row in rows}  # the turn in which a stream is opened
    sids: dict[int, int] = {}
    outs: dict[int, list[Tensor]] = {row: [] for row in rows}
    for turn in range(case.groups):
        for row in rows:
            if late[row] == turn:
                sids[row] = pool.open()
        some = [row for row in sids if (turn + row) % 3]
        if turn % 2:
            some.reverse()
        if turn % 4 < 2:
            tokens = [case.token(row, len(outs[row])).tolist() for row in some]
            for row, y in zip(some, pool.push_many([sids[row] for row in some], tokens), strict=True):
                outs[row].append(torch.from_numpy(y))
        else:
            for row in some:
                outs[row].append(torch.from_numpy(pool.push(sids[row], case.token(row, len(outs[row])))))
    for row, sid in sids.items():
        count = len(outs[row])
        assert pool.time(sid) == count * case.r, f"time: stream {sid} is at {pool.time(sid)}, not {count * case.r}"
        if count:
            case.case.same(torch.stack(outs[row]), case.alone(row, count), "interleaved streams equal model.step")


def check_push_is_push_many(case: PoolCase) -> None:
    """`push_many` gives the outputs of `push`, in the order of the ids."""
    one, many, other = case.pool(), case.pool(), case.pool()
    sids = [[pool.open() for _ in range(3)] for pool in (one, many, other)]
    for group in range(case.groups):
        tokens = torch.stack([case.token(row, group) for row in range(3)])
        expected = np.stack([one.push(sid, token) for sid, token in zip(sids[0], tokens, strict=True)])
        together = many.push_many(sids[1], tokens)
        turned = other.push_many(np.array(sids[2])[[2, 0, 1]], tokens[[2, 0, 1]])
        for y, promise in ((together, "push_many equals push"), (turned[[1, 2, 0]], "the order of ids is irrelevant")):
            case.case.same(torch.from_numpy(y), torch.from_numpy(expected), promise)


def check_slots_leave_no_trace(case: PoolCase) -> None:
    """A stream that is reset, or opened in the slot of a closed one, starts from scratch; others are not affected."""
    pool, length = case.pool(), case.window + 2
    fresh = case.pool()
    blank = fresh.snapshot(fresh.open())
    a, b = pool.open(), pool.open()
    case.feed(pool, a, 0, 0, length)
    case.feed(pool, b, 1, 0, length)
    pool.reset(a)
    assert pool.snapshot(a) == blank, "reset: the stream starts from scratch"
    pool.close(a)
    c = pool.open()
    assert c not in (a, b), f"open: id {c} was used before"
    assert pool.snapshot(c) == blank, "open: a stream in the slot of a closed one starts from scratch"
    case.case.same(case.feed(pool, c, 2, 0, length), case.alone(2, length), "a stream in the slot of a closed one")
    rest = case.feed(pool, b, 1, length, case.groups)
    case.case.same(rest, case.alone(1)[length:], "other streams do not affect a stream")
    assert pool.ids == (b, c), f"ids: {pool.ids} instead of {(b, c)}"
    assert len(pool) == 2, f"len: {len(pool)} instead of 2"
    assert a not in pool, "in: a closed stream is not in the pool"
    assert b in pool, "in: an open stream is in the pool"


def check_growth(case: PoolCase) -> None:
    """Growing does not affect existing streams."""
    pool, length = case.pool(capacity=1), case.window + 1
    first = pool.open()
    case.feed(pool, first, 0, 0, length)
    before = pool.snapshot(first)
    sids = [pool.open() for _ in range(8)]
    assert pool.capacity >= 9, f"capacity: {pool.capacity} with 9 streams open"
    assert pool.snapshot(first) == before, "growth: a stream has changed"
    rest = case.feed(pool, first, 0, length, case.groups)
    case.case.same(rest, case.alone(0)[length:], "growth: a stream continues")
    case.case.same(case.feed(pool, sids[-1], 1, 0, 2), case.alone(1, 2), "growth: new streams start from scratch")


def check_refusals(case: PoolCase) -> None:
    """Invalid input raises an error, and does not change the state of any stream."""
    pool = case.pool()
    a, b, closed = pool.open(), pool.open(), pool.open()
    pool.close(closed)
    case.feed(pool, a, 0, 0, case.window + 1)
    case.feed(pool, b, 1, 0, 1)
    before = [pool.snapshot(sid) for sid in (a, b)]
    good = case.token(0, 0)
    pair = torch.stack([good, good])
    invalid: dict[str, Callable[[], object]] = {
        "an unknown id": lambda: pool.push(b + 99, good),
        "a closed id": lambda: pool.push(closed, good),
        "an id that is not an integer": lambda: pool.push("0", good),  # type: ignore[arg-type]
        "a wrong width": lambda: pool.push(a, good[..., :-1]),
        "a wrong rank": lambda: pool.push(a, pair),
        "complex numbers": lambda: pool.push(a, good.to(torch.complex64)),
        "an id twice": lambda: pool.push_many([a, a], pair),
        "a closed id among others": lambda: pool.push_many([a, closed], pair),
        "a row too few": lambda: pool.push_many([a, b], pair[:1]),
        "other widths": lambda: pool.push_many([a, b], pair[..., 1:]),
        "foreign bytes": lambda: pool.restore(b"not a snapshot"),
    }
    for value in (np.nan, np.inf, -np.inf):
        for place in (0, good.numel() - 1):
            spoiled = good.clone()
            spoiled.view(-1)[place] = value
            invalid[f"{value} at {place}"] = lambda x=spoiled: pool.push(a, x)  # type: ignore[misc]
            invalid[f"{value} at {place} of one stream of two"] = lambda x=spoiled: pool.push_many(  # type: ignore[misc]
                [a, b], torch.stack([good, x])
            )
    for name, call in invalid.items():
        try:
            call()
        except (TypeError, ValueError):
            pass
        else:
            raise AssertionError(f"{name}: no error was raised")
        assert [pool.snapshot(sid) for sid in (a, b)] == before, f"{name}: an error, but a stream has changed"
    assert pool.ids == (a, b), "after errors, the same streams are open"
    case.case.same(case.feed(pool, b, 1, 1, 3), case.alone(1, 3)[1:], "after errors, a stream continues")


def check_snapshots(case: PoolCase) -> None:
    """A stream continues from a snapshot in the same pool, in another, and with every supported backend."""
    pool = case.pool()
    for length in (0, 1, case.window // 2 + 1, case.window + 1):
        sid = pool.open()
        if length:
            case.feed(pool, sid, 0, 0, length)
        blob = pool.snapshot(sid)
        again = pool.restore(blob)
        assert pool.time(again) == length * case.r, f"restore: time is {pool.time(again)}, not {length * case.r}"
        end = min(length + case.window + 2, case.groups)
        expected = case.alone(0, end)[length:]
        case.case.same(case.feed(pool, again, 0, length, end), expected, "a restored stream continues")
        assert pool.snapshot(sid) == blob, "restore: the original stream has changed"
        for name in _supported_backends(case.model):
            other = StreamPool(case.model, 1, name)
            moved = case.feed(other, other.restore(blob), 0, length, end)
            case.case.same(moved, expected, f"a snapshot of {pool.backend!r} continues with {name!r}")
            theirs = other.open()
            if length:
                case.feed(other, theirs, 0, 0, length)
            moved = case.feed(pool, pool.restore(other.snapshot(theirs)), 0, length, end)
            case.case.same(moved, expected, f"a snapshot of {name!r} continues with {pool.backend!r}")


def check_hostile_snapshots(case: PoolCase) -> None:
    """A snapshot with an impossible token count is rejected even if its checksum is right, without any effect."""
    pool, length = case.pool(), case.window + 1
    sid = pool.open()
    case.feed(pool, sid, 0, 0, length)
    blob, r, now = pool.snapshot(sid), case.r, length * case.r
    names = [name for name, _ in states.named_leaves(states.unpack(blob, case.model)) if name.endswith("time")]
    bad = [dict.fromkeys(names, time) for time in (-r, -(2**63), (times.LIMIT // r + 1) * r, (2**63 - 1) // r * r)]
    bad += [dict.fromkeys(names, now + 1)] * (r > 1) + [{names[-1]: now + r}] * (len(names) > 1)
    for changed in bad:
        try:
            pool.restore(_tampered(blob, changed))
        except ValueError:
            pass
        else:
            raise AssertionError(f"a snapshot with {changed}: no error was raised")
        assert pool.ids == (sid,), f"a snapshot with {changed}: it was rejected, but the streams are {pool.ids}"
        assert pool.snapshot(sid) == blob, f"a snapshot with {changed}: it was rejected, but a stream has changed"
    assert pool.time(pool.restore(_tampered(blob, {}))) == now, "a snapshot that was rewritten unchanged is accepted"
    rest = case.feed(pool, sid, 0, length, case.groups)
    case.case.same(rest, case.alone(0)[length:], "after hostile snapshots, a stream continues")


def check_extremes_stay_in_their_stream(case: PoolCase) -> None:
    """Extreme finite tokens do not affect other streams, whether or not they are adjacent in memory."""
    weight = next(case.model.parameters())
    for value in (0.0, 1.0, torch.finfo(weight.dtype).max / 2):
        pool = case.pool()
        extreme, near, far = (pool.open() for _ in range(3))
        token = torch.full_like(case.token(0, 0), value)
        outs: dict[int, list[Tensor]] = {near: [], far: []}
        for group in range(2 * case.window + 1):
            together = [far, extreme, near] if group % 2 else [far, extreme]  # with and without the one between them
            rows = [token if sid == extreme else case.token(sid, group) for sid in together]
            answers = dict(zip(together, pool.push_many(together, torch.stack(rows)), strict=True))
            if near not in answers:
                answers[near] = pool.push(near, case.token(near, group))
            for sid, out in outs.items():
                out.append(torch.from_numpy(answers[sid]))
        for sid, out in outs.items():
            expected = case.alone(sid, 2 * case.window + 1)
            case.case.same(torch.stack(out), expected, f"a stream of {value:g} does not affect other streams")


def check_the_pool_has_its_own_copy(case: PoolCase) -> None:
    """Changing the model, an input array or an output array afterwards does not affect the pool."""
    model = copy.deepcopy(case.model)
    pool = StreamPool(model, 1, case.backend)
    sid = pool.open()
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
    outs = []
    for group in range(case.window + 1):
        token = np.array(inputs.numbers("x", case.token(0, group)))
        y = pool.push(sid, token)
        outs.append(torch.from_numpy(y.copy()))
        token[:], y[:] = 0, 0
    case.case.same(torch.stack(outs), case.alone(0, case.window + 1), "the pool has its own copy of all data")


POOL_CHECKS: tuple[Callable[[PoolCase], None], ...] = (
    check_streams_interleave,
    check_push_is_push_many,
    check_slots_leave_no_trace,
    check_growth,
    check_refusals,
    check_snapshots,
    check_hostile_snapshots,
    check_extremes_stay_in_their_stream,
    check_the_pool_has_its_own_copy,
)

# A pool records no graph, rejects values that are not finite, and has its own copy of the weights. It has no `steps`,
# so lengths and resets would compare the model with itself, as `check_stream_module` does.
NOT_FOR_POOLS = (
    modules.check_gradients,
    modules.check_lengths_and_resets,
    modules.check_nan_stays_in_its_row,
    modules.check_weights_are_current,
)


def check_stream_pool(
    model: Any, backend: str = "auto", tolerance: float | None = None, *, tokens: int | None = None, seed: int = 0
) -> None:
    """Run the contract suite on a pool of `model`. Raises AssertionError if a check fails.

    Args:
        model: The model of the pool.
        backend: The backend of the pool.
        tolerance: Largest error, relative to the largest output. Default: depends on the dtype.
        tokens: Length of the test streams. Default: slightly more than three windows.
        seed: Seed of the test streams.

    Example:
        >>> import nystream as ns
        >>> attention = ns.AttentionConfig("co-full-single", embed_dim=8, num_heads=2, window=6)
        >>> model = ns.StreamModel(ns.ModelConfig(input_dim=5, output_dim=3, attention=attention))
        >>> ns.testing.check_stream_pool(model, backend="torch")
    """
    model = copy.deepcopy(model).eval()
    wrapped = PoolModule(model, StreamPool(model, 4, backend))
    alone = prepared(model, None, tokens, seed, tolerance)
    with torch.no_grad():
        case = prepared(wrapped, None, tokens, seed, tolerance, alone.reference)
        for check in modules.CHECKS:
            if check not in NOT_FOR_POOLS:
                check(case)
        pool_case = PoolCase(model, backend, alone)
        for pool_check in POOL_CHECKS:
            pool_check(pool_case)


def _tampered(blob: bytes, changed: dict[str, int]) -> bytes:
    """Return the snapshot with other values in some leaves, and a matching checksum."""
    from safetensors.torch import load, save

    tensors, metadata = load(blob), states.metadata(blob)
    tensors |= {name: torch.tensor([time]) for name, time in changed.items()}
    metadata.pop("checksum")
    return save(tensors, metadata | {"checksum": states.checksum(tensors, metadata)})


def _supported_backends(model: Any) -> list[str]:
    """Return the backends that can run the model on its device; an interpreter would be far too slow."""
    names = []
    for name in NAMES if next(model.parameters()).is_cuda else NATIVE_ON_CPU:
        try:
            choose(model, name)
        except (ValueError, ImportError):
            continue
        names.append(name)
    return names

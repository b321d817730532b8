"""Many independent streams of one model, each at its own phase."""

from __future__ import annotations

import copy
import heapq
from threading import Lock
from typing import Any, NoReturn, SupportsIndex

import numpy as np
import torch

from nystream.config import AttentionConfig, EncoderConfig
from nystream.config.checks import positive_int
from nystream.layers.attention import MultiheadAttention
from nystream.layers.encoder import StreamEncoder
from nystream.models.stream_model import StreamModel
from nystream.stream import forks, inputs
from nystream.stream.backends import choose
from nystream.stream.errors import UnknownStreamError, room_for
from nystream.stream.snapshot import Snapshots

Model = StreamModel | StreamEncoder | MultiheadAttention


class StreamPool:
    """Many streams of one model in one process: numpy in, numpy out, microseconds a token.

    A stream is an id. Streams know nothing of each other and may be pushed one at a time or many together, from
    several threads. Input that cannot be taken is refused before it touches any of them.

    Args:
        model: a `StreamModel`, or a `StreamEncoder` or `MultiheadAttention` that returns its newest rows. The pool
            keeps a copy of its own: training or changing the original afterwards changes nothing here.
        capacity: how many streams there is room for at first; a full pool doubles.
        backend: "numba" (compiled, for the CPU), "torch" (any model, any device), or "auto": numba where its kernels
            can run the model, else torch.

    Example:
        >>> import numpy as np, nystream as ns
        >>> attention = ns.AttentionConfig(
        ...     "co-cont-single", embed_dim=8, num_heads=2, window=6, landmarks=3
        ... )
        >>> model = ns.StreamModel(ns.ModelConfig(input_dim=5, output_dim=3, attention=attention))
        >>> pool = ns.StreamPool(model)
        >>> a, b = pool.open(), pool.open()
        >>> pool.push(a, np.zeros(5, np.float32)).shape
        (3,)
        >>> pool.push_many([a, b], np.zeros((2, 5), np.float32)).shape
        (2, 3)
        >>> pool.time(a), pool.time(b)
        (2, 1)
        >>> c = pool.restore(pool.snapshot(a))  # goes on from where a is
        >>> pool.close(a)
        >>> pool.ids
        (1, 2)
    """

    def __init__(self, model: Model, capacity: int = 1024, backend: str = "auto") -> None:
        _check_model(model)
        positive_int("capacity", capacity)
        with room_for("the pool's copy of the model"):
            self._model: Any = _own_copy(model)
        self._backend = choose(self._model, backend)(self._model, capacity)
        self._snapshots = Snapshots(self._model)
        self._capacity = capacity
        cfg = model.config
        self._model_dtype = next(model.parameters()).dtype
        # numpy has no bfloat16: such models take and give float32.
        known = torch.float32 if self._model_dtype == torch.bfloat16 else self._model_dtype
        self._dtype: np.dtype[Any] = torch.empty(0, dtype=known, device="cpu").numpy().dtype
        self._together = cfg.update_size
        group = () if cfg.update_size == 1 else (cfg.update_size,)
        self._in: tuple[int, ...] = (*group, getattr(cfg, "input_dim", cfg.embed_dim))
        self._out: tuple[int, ...] = (*group, getattr(cfg, "output_dim", cfg.embed_dim))
        self._lock = Lock()
        self._slots: dict[int, int] = {}  # id -> slot, of every stream that can be pushed
        self._broken: dict[int, int] = {}  # likewise, of those that a failed push has spoiled
        self._free: list[int] = []  # a heap of slots that were used and closed
        self._used = 0  # slots from here on were never used
        self._next = 0  # the next id
        self._last: tuple[bytes, np.ndarray] = (b"", np.empty(0, np.int64))  # ids and slots of the last push_many
        forks.enter(self)

    def open(self) -> int:
        """A new stream; its id is never given out again, so that one which is out of date is always noticed."""
        with self._lock:
            slot = self._take()
            try:
                self._backend.clear(slot)
            except BaseException:
                heapq.heappush(self._free, slot)
                raise
            return self._enter(slot)

    def push(self, sid: int, x: Any) -> np.ndarray:
        """Take in one stream's next token, or the r tokens that arrive together.

        Args:
            sid: the stream.
            x: [input_dim], or [r, input_dim] where r = `update_size` > 1: an array, a tensor or a list of numbers.

        Returns:
            [output_dim] or [r, output_dim] in the model's dtype, in memory of its own.
        """
        token = x
        if type(x) is not np.ndarray or x.dtype is not self._dtype or x.shape != self._in or not x.flags.carray:
            token = self._token(x)
        y = np.empty(self._out, self._dtype)
        with self._lock:
            slot = self._slots.get(sid) if type(sid) is int else None
            if slot is None:
                slot = self._slot(sid)
            try:
                taken = self._backend.push(slot, token, y)
            except BaseException:
                self._set_aside()
                raise
        if not taken:
            raise inputs.refusal("x", x, self._model_dtype, [sid])
        return y

    def push_many(self, sids: Any, X: Any) -> np.ndarray:
        """Take in the next tokens of several streams at once: the numbers of `push`, for much less time a stream.

        Args:
            sids: the streams, in any order, each once: a list, a tuple or an array of S integers.
            X: [S, input_dim], or [S, r, input_dim], a row for each of them.

        Returns:
            [S, output_dim] or [S, r, output_dim], in the order of `sids`.
        """
        ids = inputs.stream_ids(sids)
        tokens = self._tokens(X, len(ids))
        y = np.empty((len(ids), *self._out), self._dtype)
        if not len(ids):
            return y
        r = self._together
        with self._lock:
            slots = self._slots_of(ids)
            try:
                if len(ids) == 1:
                    taken = self._backend.push(int(slots[0]), tokens[0], y[0])
                else:
                    taken = self._backend.push_many(slots, tokens.reshape(len(ids), r, -1), y.reshape(len(ids), r, -1))
            except BaseException:
                self._set_aside()
                raise
        if not taken:
            raise inputs.refusal("X", X, self._model_dtype, ids.tolist())
        return y

    def reset(self, sid: int) -> None:
        """The stream begins again, with the same id."""
        with self._lock:
            slot = self._slot(sid, broken=True)
            self._backend.clear(slot)
            sid = inputs.stream_id(sid)
            if self._broken.pop(sid, None) is not None:
                self._slots[sid] = slot

    def close(self, sid: int) -> None:
        """The stream ends and its memory can be used by others."""
        with self._lock:
            slot = self._slot(sid, broken=True)
            for held in (self._slots, self._broken):
                held.pop(inputs.stream_id(sid), None)
            self._forget_last()
            heapq.heappush(self._free, slot)

    def snapshot(self, sid: int) -> bytes:
        """The stream as it is now, for `restore`, or for a file that `nystream.load_state` reads.

        Safetensors, the same from every backend: the state, the config and a fingerprint of the weights.
        """
        with self._lock:
            state = self._backend.read(self._slot(sid))
        return self._snapshots.dump(state)

    def restore(self, blob: bytes) -> int:
        """A new stream that goes on from a snapshot, of this pool or of another with the same config and weights.

        What `nystream.save_state` wrote of one stream will do too; it does not say with which weights it began.
        """
        state = self._snapshots.load(blob)
        with self._lock:
            slot = self._take()
            try:
                self._backend.write(slot, state)
            except BaseException:
                heapq.heappush(self._free, slot)
                raise
            return self._enter(slot)

    def time(self, sid: int) -> int:
        """How many tokens the stream has taken in."""
        with self._lock:
            return self._backend.time(self._slot(sid))

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids of the streams that are open, oldest first."""
        with self._lock:
            return tuple(sorted((*self._slots, *self._broken)))

    @property
    def capacity(self) -> int:
        """How many streams there is room for before the pool grows."""
        return self._capacity

    @property
    def backend(self) -> str:
        """The name of the backend that was picked."""
        return self._backend.name

    @property
    def bytes_per_stream(self) -> int:
        """What one more stream costs in memory."""
        return self._backend.bytes_per_stream

    @property
    def config(self) -> AttentionConfig | EncoderConfig:
        """The model's."""
        config: AttentionConfig | EncoderConfig = self._model.config
        return config

    def __len__(self) -> int:
        """How many streams are open."""
        return len(self._slots) + len(self._broken)

    def __contains__(self, sid: object) -> bool:
        """Whether a stream with this id is open."""
        if isinstance(sid, bool) or not isinstance(sid, int | np.integer):
            return False
        return int(sid) in self._slots or int(sid) in self._broken

    def __repr__(self) -> str:
        return (
            f"StreamPool({type(self._model).__name__} of {_variant(self.config)!r}, {len(self)} of {self.capacity} "
            f"streams open, backend={self.backend!r}, {self.bytes_per_stream:,} bytes a stream)"
        )

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(
            "a StreamPool cannot be copied or pickled: its streams are being pushed; make another StreamPool of the "
            "model and restore(pool.snapshot(sid)) there for every sid in pool.ids"
        )

    def _take(self) -> int:
        """A slot that is free, the lowest: neighbours are the quickest to step together."""
        if self._free:
            return heapq.heappop(self._free)
        if self._used == self._capacity:
            self._backend.grow(2 * self._capacity)
            self._capacity *= 2
        self._used += 1
        return self._used - 1

    def _enter(self, slot: int) -> int:
        sid = self._next
        self._next += 1
        self._slots[sid] = slot
        return sid

    def _slot(self, sid: Any, broken: bool = False) -> int:
        """Where a stream is, or why there is none."""
        sid = inputs.stream_id(sid)
        if sid in self._slots:
            return self._slots[sid]
        if sid in self._broken:
            if broken:
                return self._broken[sid]
            raise RuntimeError(
                f"stream {sid} was broken off by an error inside a push, which left its state half-written; "
                f"reset({sid}), or close it and restore a snapshot"
            )
        if 0 <= sid < self._next:
            raise UnknownStreamError(f"stream {sid} is closed; open() begins a new one, with an id of its own")
        given = f"has given the ids 0 to {self._next - 1}" if self._next else "has not been called yet"
        raise UnknownStreamError(f"stream {sid} was never opened in this pool: open() {given}")

    def _slots_of(self, ids: np.ndarray) -> np.ndarray:
        """The slots of several streams. Whoever pushes the same ones again and again has them looked up once."""
        key = ids.tobytes()
        if key == self._last[0]:
            return self._last[1]
        sids = ids.tolist()
        slots = list(map(self._slots.get, sids))
        if None in slots:
            self._slot(sids[slots.index(None)])  # says why
        if len(set(slots)) < len(slots):
            twice = next(sid for place, sid in enumerate(sids) if sid in sids[:place])
            raise ValueError(f"sids has stream {twice} more than once; a stream takes one push at a time")
        self._last = key, np.array(slots, np.int64)
        return self._last[1]

    def _forget_last(self) -> None:
        self._last = b"", np.empty(0, np.int64)

    def _set_aside(self) -> None:
        """Keep streams that a failed push has spoiled from being pushed again."""
        for sid in [sid for sid, slot in self._slots.items() if slot in self._backend.spoiled]:
            self._broken[sid] = self._slots.pop(sid)
        self._forget_last()

    def _token(self, x: Any) -> np.ndarray:
        """`x` of `push`, as backends take it."""
        given = inputs.numbers("x", x)
        if given.shape != self._in:
            many = "; push_many takes several streams at once" if given.shape[1:] == self._in else ""
            raise ValueError(f"x is {list(given.shape)}, but push needs {list(self._in)} ({self._sizes()}){many}")
        return inputs.behaved(given, self._dtype)

    def _tokens(self, X: Any, count: int) -> np.ndarray:
        """`X` of `push_many`, as backends take it."""
        if type(X) is np.ndarray and X.dtype is self._dtype and X.shape == (count, *self._in) and X.flags.carray:
            return X
        given = inputs.numbers("X", X)
        if not count and given.shape == (0,):  # an empty list has no width
            given = given.reshape(0, *self._in)
        if given.shape[1:] != self._in:
            need = f"[S, {', '.join(map(str, self._in))}]"
            raise ValueError(f"X is {list(given.shape)}, but push_many needs {need} (S streams, {self._sizes()})")
        if given.shape[0] != count:
            raise ValueError(f"sids has {count} ids, but X has {given.shape[0]} rows; every stream needs a row")
        return inputs.behaved(given, self._dtype)

    def _sizes(self) -> str:
        """What the numbers in a shape are."""
        width = "input_dim" if hasattr(self.config, "input_dim") else "embed_dim"
        group = f"update_size={self._in[0]}, " if len(self._in) == 2 else ""
        return f"{group}{width}={self._in[-1]}"


def _variant(cfg: AttentionConfig | EncoderConfig) -> str:
    return cfg.variant if isinstance(cfg, AttentionConfig) else cfg.blocks[-1].variant


def _check_model(model: object) -> None:
    """Refuse what has no streams, or none with one answer a token."""
    if not isinstance(model, Model):
        raise TypeError(
            f"model is a {type(model).__name__}, but must be a StreamModel, a StreamEncoder or a MultiheadAttention"
        )
    if not model.config.single:
        raise ValueError(
            f"model is a {type(model).__name__} of variant {_variant(model.config)!r}, which returns all "
            f"{model.config.window} rows of its window at every step; a pool needs the newest alone: use a variant "
            f"that ends in -single, or a StreamModel"
        )
    if any(x.is_meta for x in model.parameters()):
        raise ValueError("model has weights on the meta device, which have no values; load them first")


def _own_copy(model: Model) -> Model:
    """The model as it is now, ready to stream; what happens to the original does not reach it."""
    with torch.inference_mode(False), torch.no_grad():
        own = copy.deepcopy(model).eval().requires_grad_(False)
        own.zero_grad()
        for part in own.modules():
            if isinstance(part, MultiheadAttention):
                if part.config.fixed:
                    part.learn_landmarks(False)  # as buffers they keep their Γ†; parameters compute it at every step
                part.require_landmarks()
    return own

"""`StreamPool`: many independent streams of one model, each at its own time."""

from __future__ import annotations

from threading import Lock
from typing import Any, NoReturn, SupportsIndex, cast

import numpy as np
import torch

from nystream import times
from nystream.config import AttentionConfig, EncoderConfig
from nystream.config.checks import positive_int
from nystream.stream import forks, inputs
from nystream.stream.backends import choose
from nystream.stream.errors import room_for
from nystream.stream.ids import Ids
from nystream.stream.owned import Model, check_model, own_copy, variant_of
from nystream.stream.replay import replayed
from nystream.stream.snapshot import Snapshots
from nystream.stream.tokens import Tokens


class StreamPool:
    """Many streams of one model in one process: numpy in, numpy out, microseconds per token; on a GPU, tensors.

    A stream is identified by an integer. Streams are independent of each other, and can be pushed one at a time or
    together, from several threads. Invalid input raises an error before any stream changes.

    Args:
        model: A `StreamModel`, or a `StreamEncoder` or `MultiheadAttention` that returns its newest rows. The pool
            keeps its own copy: training or changing the original later has no effect on the pool.
        capacity: Number of streams to make room for at first; a full pool doubles its capacity.
        backend: "numba" (compiled, for the CPU), "triton" (compiled, for a model on an NVIDIA GPU), "torch" (any model,
            any device), or "auto": numba for a model on the CPU; triton for one on an NVIDIA GPU, if Triton 3.6 or
            newer, a C compiler and the header files of Python are installed; torch otherwise.
        weights: How the numba backend stores the weights of dense layers. "float32", the default, keeps those of the
            model. "bfloat16" is up to twice as fast for one stream, and outputs change by less than 1 % of the
            largest. "int8" rounds the inputs of layers to 8 bits, too: it is about two to three times as fast, and
            outputs change by less than 3 %. It keeps the layers that would lose most, the input projection, queries,
            keys and the head, in bfloat16. Everything else is float32, so streams can move between pools with
            different weights. These bounds, and that of `ring_dtype`, were measured in random models with a width of
            at least 32; a narrow model can lose more.
        ring_dtype: How a compiled backend stores the keys and values of the window: "float32", or "bfloat16" in half
            the memory; on a GPU, a bfloat16 model always uses bfloat16, which loses nothing. Logits, sums and
            landmarks are float32 in either case. Rounding keys and values to bfloat16 changes outputs by less than 1 %.
            Snapshots have the model's dtype, so streams can move between the two.

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
        >>> c = pool.restore(pool.snapshot(a))  # continues from where a is
        >>> pool.close(a)
        >>> pool.ids
        (1, 2)
    """

    def __init__(
        self,
        model: Model,
        capacity: int = 1024,
        backend: str = "auto",
        weights: str = "float32",
        ring_dtype: str = "float32",
    ) -> None:
        check_model(model)
        positive_int("capacity", capacity)
        with room_for("the pool's copy of the model"):
            self._model: Any = own_copy(model)
        self._backend = choose(self._model, backend, weights, ring_dtype)(self._model, capacity)
        self._weights, self._ring_dtype = weights, ring_dtype
        self._snapshots = Snapshots(self._model)
        self._capacity = capacity
        cfg = model.config
        weight = next(self._model.parameters())
        self._model_dtype, self._model_device = weight.dtype, weight.device
        # numpy has no bfloat16: such models take and return float32.
        numpy_dtype = torch.float32 if self._model_dtype == torch.bfloat16 else self._model_dtype
        self._dtype: np.dtype[Any] = torch.empty(0, dtype=numpy_dtype, device="cpu").numpy().dtype
        self._update_size = cfg.update_size
        self._tokens = Tokens(cfg, self._dtype)
        self._in_shape = self._tokens.shape
        self._out_shape: tuple[int, ...] = (*self._in_shape[:-1], getattr(cfg, "output_dim", cfg.embed_dim))
        self._lock = Lock()
        self._ids = Ids(padding=self._backend.pads)
        forks.register(self)

    def open(self, *, time: int = 0) -> int:
        """Start a new stream and return its id. Ids are never reused, so an outdated id always raises an error.

        Args:
            time: The number of tokens that the stream has read so far, of which it knows nothing, as in the model's
                `init_state`: outputs are those of a stream that has read them once its window is full.
        """
        times.check_start(time, self._update_size)
        if time:
            with torch.no_grad():
                return self._adopted(self._model.init_state(1, time=time))
        with self._lock:
            self._backend.clear(self._free_slot())
            return self._ids.open()

    def push(self, sid: int, x: Any) -> np.ndarray:
        """Push the next token of a stream, or its next r tokens if they arrive together.

        Args:
            sid: The id of the stream.
            x: [input_dim], or [r, input_dim] if r = `update_size` > 1: an array, a tensor or a list of numbers.

        Returns:
            [output_dim] or [r, output_dim] in the model's dtype, a new array.
        """
        token = x
        if type(x) is not np.ndarray or x.dtype is not self._dtype or x.shape != self._in_shape or not x.flags.carray:
            token = self._tokens.one(x)
        y = np.empty(self._out_shape, self._dtype)
        with self._lock:
            slot = self._ids.slots.get(sid) if type(sid) is int else None
            if slot is None:
                slot = self._ids.slot(sid)
            try:
                accepted = self._backend.push(slot, token, y)
            except BaseException:
                self._ids.set_aside(self._backend.spoiled)
                raise
        if not accepted:
            raise inputs.not_finite_error("x", x, self._model_dtype, [sid])
        return y

    def push_many(self, sids: Any, X: Any) -> Any:
        """Push the next tokens of several streams. The outputs are those of `push`, in much less time per stream.

        Args:
            sids: The ids of S different streams, in any order: a list, a tuple or an array of integers. With
                the triton backend, −1 is padding: such rows are skipped, and their outputs are zero.
            X: [S, input_dim] or [S, r, input_dim], one row per stream.

        Returns:
            [S, output_dim] or [S, r, output_dim], in the order of `sids`: a new array, or, with the triton backend and
            a tensor `X` on the GPU of the model, a new tensor there, in the model's dtype. Such a call copies no
            tokens through the host, but waits for the device, to learn whether the tokens were finite.
        """
        ids = inputs.stream_ids(sids)
        if self.backend == "triton" and isinstance(X, torch.Tensor) and X.is_cuda:
            return self._push_tensor(ids, X)
        tokens = self._tokens.many(X, len(ids))
        y = np.empty((len(ids), *self._out_shape), self._dtype)
        if not len(ids):
            return y
        r = self._update_size
        with self._lock:
            slots = self._ids.slots_of(ids)
            try:
                if len(ids) == 1:
                    accepted = self._backend.push(int(slots[0]), tokens[0], y[0])
                else:
                    accepted = self._backend.push_many(
                        slots, tokens.reshape(len(ids), r, -1), y.reshape(len(ids), r, -1)
                    )
            except BaseException:
                self._ids.set_aside(self._backend.spoiled)
                raise
        if not accepted:
            self._raise_not_finite(ids, X)
        return y

    def reset(self, sid: int) -> None:
        """Restart a stream, keeping its id."""
        with self._lock:
            try:
                self._backend.clear(self._ids.slot(sid, broken=True))
            except BaseException:
                self._ids.set_aside(self._backend.spoiled)
                raise
            self._ids.restart(int(sid))

    def close(self, sid: int) -> None:
        """End a stream; another one can use its memory."""
        with self._lock:
            self._ids.close(sid)

    def snapshot(self, sid: int) -> bytes:
        """The current state of a stream as bytes, for `restore` or, in a file, for `nystream.load_state`.

        Safetensors, in the same layout for every backend: the state, the config and a fingerprint of the weights.
        """
        with self._lock:
            state = self._backend.read(self._ids.slot(sid))
        return self._snapshots.dump(state)

    def restore(self, blob: bytes) -> int:
        """Start a new stream from a snapshot of this pool, or of another one with the same config and weights.

        The contents of a file written by `nystream.save_state` for one stream work as well, but without a check of the
        weights.
        """
        return self._adopted(self._snapshots.load(blob))

    def restore_from_tokens(self, tokens: Any, position: int) -> int:
        """Start a stream as it is after its last tokens: what it will say depends only on these, and on its time.

        Args:
            tokens: [T, input_dim], the last tokens of the stream, oldest first. All that it has read, or at least as
                many as the model's `replay_length`.
            position: The number of tokens that the stream has read so far, these included.

        Returns:
            The id of the stream. Its outputs are those of a stream that has read all tokens, up to rounding.
        """
        return self._adopted(replayed(self._model, tokens, position, self._dtype))

    def time(self, sid: int) -> int:
        """Number of tokens that a stream has read."""
        with self._lock:
            return self._backend.time(self._ids.slot(sid))

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids of all open streams, oldest first."""
        with self._lock:
            return tuple(self._ids)

    @property
    def capacity(self) -> int:
        """Number of streams that fit before the pool grows."""
        return self._capacity

    @property
    def backend(self) -> str:
        """The name of the backend in use."""
        return self._backend.name

    @property
    def weights(self) -> str:
        """How the weights of dense layers are stored; for the torch and triton backends, the model's dtype."""
        return self._weights if self.backend == "numba" else _name(self._model_dtype)

    @property
    def ring_dtype(self) -> str:
        """How the keys and values of the windows are stored; for the torch backend, in the model's dtype."""
        lossless = self.backend == "torch" or self._model_dtype == torch.bfloat16
        return _name(self._model_dtype) if lossless else self._ring_dtype

    @property
    def bytes_per_stream(self) -> int:
        """Memory of one more stream."""
        return self._backend.bytes_per_stream

    @property
    def config(self) -> AttentionConfig | EncoderConfig:
        """The config of the model."""
        config: AttentionConfig | EncoderConfig = self._model.config
        return config

    def __len__(self) -> int:
        """Number of open streams."""
        return len(self._ids)

    def __contains__(self, sid: object) -> bool:
        """Whether a stream with this id is open."""
        if isinstance(sid, bool) or not isinstance(sid, int | np.integer):
            return False
        return int(sid) in self._ids

    def __repr__(self) -> str:
        return (
            f"StreamPool({type(self._model).__name__} of {variant_of(self.config)!r}, {len(self)} of {self.capacity} "
            f"streams open, backend={self.backend!r}, weights={self.weights!r}, ring_dtype={self.ring_dtype!r}, "
            f"{self.bytes_per_stream:,} bytes per stream)"
        )

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(
            "a StreamPool cannot be copied or pickled, as its streams may be in use; make another StreamPool of its "
            "model and call its restore(pool.snapshot(sid)) for every sid in pool.ids"
        )

    def _adopted(self, state: Any) -> int:
        """The id of a new stream with this state."""
        with self._lock:
            self._backend.write(self._free_slot(), state)
            return self._ids.open()

    def _free_slot(self) -> int:
        """The slot of the next stream, for which there is room."""
        if self._ids.free_slot == self._capacity:
            self._backend.grow(2 * self._capacity)
            self._capacity *= 2
        return self._ids.free_slot

    def _push_tensor(self, ids: np.ndarray, X: torch.Tensor) -> torch.Tensor:
        """`push_many` for a tensor on a GPU, with the triton backend."""
        if X.dtype == torch.bool or X.is_complex():
            raise TypeError(f"X has dtype {X.dtype}, but must be real numbers")
        device = self._model_device
        if X.device != device:
            raise ValueError(f"X is on {X.device}, but the model of the pool is on {device}: use X.to({str(device)!r})")
        self._tokens.check(X, len(ids))
        if not len(ids):
            return X.new_empty(0, *self._out_shape, dtype=self._model_dtype)
        with self._lock:
            slots, backend = self._ids.slots_of(ids), cast(Any, self._backend)
            try:
                y = backend.push_tensor(slots, X.reshape(len(ids), self._update_size, -1))
            except BaseException:
                self._ids.set_aside(self._backend.spoiled)
                raise
        if y is None:
            self._raise_not_finite(ids, X)
        return y.reshape(len(ids), *self._out_shape)

    def _raise_not_finite(self, ids: np.ndarray, X: Any) -> NoReturn:
        real = np.ones(len(ids), np.bool_) if not self._backend.pads else ids != inputs.PADDING
        raise inputs.not_finite_error("X", inputs.numbers("X", X)[real], self._model_dtype, ids[real].tolist())


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")

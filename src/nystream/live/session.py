"""One stream: a model, the reader of its records, and the state of both."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nystream.data.reader import LiveReader, Policy, RecordError, Token, reader_from_dict, reject_gaps
from nystream.data.vectors import LiveVectors
from nystream.live.answers import Answer, Interpreter
from nystream.models import StreamModel
from nystream.stream import StreamPool


class Session:
    """Takes in records one at a time and answers each in the user's units.

    Args:
        model: A trained model.
        reader: Turns records into tokens; by default `live_reader(model)`.
        backend: The backend of its `StreamPool`.

    Attributes:
        tokens: The number of tokens taken in.
        whole: Whether every record was taken in completely; if not, the state is not valid.

    Example:
        >>> import nystream as ns
        >>> from nystream.live import Session
        >>> attention = ns.AttentionConfig(
        ...     "co-cont-single", embed_dim=8, num_heads=2, window=6, landmarks=3
        ... )
        >>> info = ns.ModelInfo(inputs=("a", "b"), labels=("sum",))
        >>> config = ns.ModelConfig(input_dim=2, output_dim=1, attention=attention)
        >>> session = Session(ns.StreamModel(config, info))
        >>> records = [1, 2], {"b": 4, "a": 3}
        >>> [answer.token for record in records for answer in session.take(record)]
        [1, 2]
    """

    def __init__(self, model: StreamModel, reader: LiveReader | None = None, backend: str = "auto") -> None:
        self.model = model
        self.reader = live_reader(model) if reader is None else reader
        self._pool = StreamPool(model, capacity=1, backend=backend)
        self._stream = self._pool.open()
        self._interpreter = Interpreter(
            model.info, model.config.output_dim, self.reader.ahead, self.reader.zoned, self.reader.timezone
        )
        self._fresh = self.reader.state
        self._together = model.config.update_size
        self._dtype = next(model.parameters()).dtype
        self.tokens = 0
        self.whole = True

    @property
    def backend(self) -> str:
        """The backend of the pool."""
        return self._pool.backend

    @property
    def note(self) -> str:
        """A remark about the last record: why it was dropped, or how its time jumped."""
        return self.reader.note

    @property
    def lost(self) -> int:
        """The number of records that were dropped by the last call: the record itself, or one held back before."""
        return self.reader.lost

    def take(self, record: Any) -> list[Answer]:
        """Return the answers to a record: none if its reader drops it, several if it fills a gap.

        Raises RecordError if the record cannot be taken in; the session is then unchanged.
        """
        before = self.reader.state
        self.whole = False
        try:
            groups = self._groups(self.reader.read(record))
            if len(groups) > 1:  # the pool rejects a single bad group itself, without any change
                self._require_finite([x for _, x in groups])
        except Exception:
            self.reader.state = before
            self.whole = True
            raise
        try:
            answers = [answer for group in groups for answer in self._push(*group)]
        except ValueError:
            if len(groups) > 1:
                raise
            self.reader.state = before
            self.whole = True
            self._require_finite([groups[0][1]])
            raise
        self.whole = True
        return answers

    def restart(self) -> None:
        """Start a new stream."""
        self._pool.reset(self._stream)
        self.reader.state, self.tokens, self.whole = self._fresh, 0, True

    def snapshot(self) -> tuple[bytes, dict[str, Any]]:
        """Return the stream's state and the reader's memory, for `restore`."""
        if not self.whole:
            raise RuntimeError("the session was interrupted within a record; resume the last one that was saved")
        return self._pool.snapshot(self._stream), self.reader.memory()

    def restore(self, state: bytes, memory: dict[str, Any]) -> None:
        """Continue from a snapshot. If it is of another model, this raises and the session is unchanged."""
        stream, before = self._pool.restore(state), self.reader.state
        try:
            self.reader.remember(memory)
        except (KeyError, TypeError, ValueError) as error:
            self._pool.close(stream)
            self.reader.state = before
            raise ValueError(f"the reader's memory does not fit this reader: {error!r}") from error
        self._pool.close(self._stream)
        self._stream, self.tokens, self.whole = stream, self._pool.time(stream), True

    def _groups(self, tokens: Sequence[Token]) -> list[tuple[list[Token], NDArray[Any]]]:
        """Tokens that are pushed together, with the array to push."""
        if not tokens:
            return []
        r, width = self._together, self.model.config.input_dim
        if len(tokens) % r:
            raise RecordError(f"{len(tokens)} tokens, but the model takes {r} at a time", "together")
        for token in tokens:
            if token.x.shape != (width,):
                raise RecordError(f"a token is {list(token.x.shape)}, but the model takes [{width}]")
        x = tokens[0].x[None] if len(tokens) == 1 else np.stack([token.x for token in tokens])  # [tokens, input_dim]
        if x.dtype != np.float32:
            with np.errstate(over="ignore"):
                x = x.astype(np.float32)
        return [(list(tokens[at : at + r]), x[at] if r == 1 else x[at : at + r]) for at in range(0, len(tokens), r)]

    def _require_finite(self, pushes: Sequence[NDArray[Any]]) -> None:
        """Raise before anything is taken in, if the pool would reject a part of it."""
        x = np.concatenate([push.reshape(-1, self.model.config.input_dim) for push in pushes])
        # Half precision has a smaller range than float32.
        bad = ~torch.from_numpy(x).to(self._dtype).isfinite().all(0).numpy()
        if bad.any():
            place = int(bad.argmax())
            name = self.model.info.inputs[place] if self.model.info.inputs else f"number {place + 1}"
            raise RecordError(f"{name!r} is NaN, Inf or too large for {str(self._dtype).removeprefix('torch.')}")

    def _push(self, tokens: list[Token], x: NDArray[Any]) -> list[Answer]:
        """Push tokens that arrive together; x is [input_dim], or [r, input_dim]."""
        began = time.perf_counter_ns()
        y = self._pool.push(self._stream, x).reshape(len(tokens), -1)
        took = (time.perf_counter_ns() - began) / 1000
        first = self.tokens + 1
        self.tokens += len(tokens)
        return [self._interpreter.answer(first + place, token, y[place], took) for place, token in enumerate(tokens)]


def live_reader(model: StreamModel, missing: Policy | None = None, gaps: Policy | None = None) -> LiveReader:
    """Return the reader of a model's records: the one it was trained with, or one of plain vectors if it has none.

    Example:
        >>> import nystream as ns
        >>> from nystream.live import Session, live_reader
        >>> attention = ns.AttentionConfig("co-full-single", embed_dim=8, num_heads=2, window=6)
        >>> info = ns.ModelInfo(inputs=("a", "b"))
        >>> config = ns.ModelConfig(input_dim=2, output_dim=1, attention=attention)
        >>> model = ns.StreamModel(config, info)
        >>> session = Session(model, live_reader(model, missing="fill"))
        >>> [answer.filled for answer in session.take({"a": 1.0, "b": 2.0})]
        [()]
        >>> [answer.filled for answer in session.take({"a": 1.5})]
        [('b',)]
    """
    if model.info.reader is None:
        reject_gaps(gaps)
        config = model.config
        return LiveVectors(config.input_dim, model.info.inputs, config.update_size, missing or "fail")
    reader = reader_from_dict(model.info.reader)
    if len(reader.names) != model.config.input_dim:
        raise ValueError(
            f"the model's reader makes tokens of {len(reader.names)} numbers, but its input_dim is "
            f"{model.config.input_dim}"
        )
    return reader.live(missing, gaps)

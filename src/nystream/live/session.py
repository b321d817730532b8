"""One stream: a model, what reads its records, and where both are."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nystream.data.reader import LiveReader, Policy, RecordError, Token, no_gaps, reader_from_dict
from nystream.data.vectors import VectorReader
from nystream.live.answers import Answer, Interpreter
from nystream.models import StreamModel
from nystream.stream import StreamPool


class Session:
    """Takes in records one after another and answers each in the user's units.

    Args:
        model: a trained model.
        reader: what turns records into tokens; `live_reader(model)` unless told.
        backend: of the `StreamPool` that steps it.

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
        self._interpreter = Interpreter(model.info, model.config.output_dim, self.reader.ahead, self.reader.zoned)
        self._fresh = self.reader.state
        self._together = model.config.update_size
        self._dtype = next(model.parameters()).dtype
        self._tokens = 0
        self._whole = True  # False where a record was broken off half-way

    @property
    def tokens(self) -> int:
        """How many were taken in."""
        return self._tokens

    @property
    def whole(self) -> bool:
        """Whether every record was taken in all of it; if not, the state is that of no stream."""
        return self._whole

    @property
    def backend(self) -> str:
        """That of the pool."""
        return self._pool.backend

    @property
    def note(self) -> str:
        """What there is to say of the last record: why it was left out, how its time has jumped."""
        return self.reader.note

    @property
    def note_kind(self) -> str:
        """The same for all notes that say the same of other records."""
        return self.reader.note_kind

    @property
    def lost(self) -> int:
        """How many records the last one has left out for good: itself, or one that waited for it."""
        return self.reader.lost

    def take(self, record: Any) -> list[Answer]:
        """The answers to a record: none where its reader leaves it out, several where it fills a gap.

        RecordError where it cannot be taken, and the session is as it was.
        """
        before = self.reader.state
        self._whole = False
        try:
            groups = self._groups(self.reader.read(record))
            if len(groups) > 1:  # a bad one by itself is refused by the pool, which is then as it was
                self._refuse([x for _, x in groups])
        except Exception:
            self.reader.state = before
            self._whole = True
            raise
        try:
            answers = [answer for group in groups for answer in self._push(*group)]
        except ValueError:
            if len(groups) > 1:
                raise
            self.reader.state = before
            self._whole = True
            self._refuse([groups[0][1]])
            raise
        self._whole = True
        return answers

    def restart(self) -> None:
        """Begin another stream: nothing of what was taken in is left."""
        self._pool.reset(self._stream)
        self.reader.state, self._tokens, self._whole = self._fresh, 0, True

    def snapshot(self) -> tuple[bytes, dict[str, Any]]:
        """The stream's state and the reader's memory, for `restore`."""
        if not self._whole:
            raise RuntimeError("the session was broken off within a record; go on from the last one that was saved")
        return self._pool.snapshot(self._stream), self.reader.memory()

    def restore(self, state: bytes, memory: dict[str, Any]) -> None:
        """Go on from a snapshot, of this model; of another it is refused, and the session is as it was."""
        stream, before = self._pool.restore(state), self.reader.state
        try:
            self.reader.remember(memory)
        except (KeyError, TypeError, ValueError) as error:
            self._pool.close(stream)
            self.reader.state = before
            raise ValueError(f"the reader's memory is not one of this reader: {error!r}") from error
        self._pool.close(self._stream)
        self._stream, self._tokens, self._whole = stream, self._pool.time(stream), True

    def _groups(self, tokens: Sequence[Token]) -> list[tuple[list[Token], NDArray[Any]]]:
        """Tokens that are pushed together, with what is pushed."""
        if not tokens:
            return []
        r, width = self._together, self.model.config.input_dim
        if len(tokens) % r:
            raise RecordError(f"{len(tokens)} tokens, but the model takes {r} together", "together")
        for token in tokens:
            if token.x.shape != (width,):
                raise RecordError(f"a token {list(token.x.shape)}, but the model takes [{width}]")
        x = tokens[0].x[None] if len(tokens) == 1 else np.stack([token.x for token in tokens])  # [tokens, input_dim]
        if x.dtype != np.float32:
            with np.errstate(over="ignore"):
                x = x.astype(np.float32)
        return [(list(tokens[at : at + r]), x[at] if r == 1 else x[at : at + r]) for at in range(0, len(tokens), r)]

    def _refuse(self, pushes: Sequence[NDArray[Any]]) -> None:
        """Refuse, before any is taken in, what the pool would refuse."""
        x = np.concatenate([one.reshape(-1, self.model.config.input_dim) for one in pushes])
        # A model of half precision holds less than float32 does.
        lost = ~torch.from_numpy(x).to(self._dtype).isfinite().all(0).numpy()
        if lost.any():
            place = int(lost.argmax())
            name = self.model.info.inputs[place] if self.model.info.inputs else f"number {place + 1}"
            raise RecordError(f"{name!r} is NaN, Inf or beyond {str(self._dtype).removeprefix('torch.')}")

    def _push(self, tokens: list[Token], x: NDArray[Any]) -> list[Answer]:
        """Of tokens that arrive together; x is [input_dim], or [r, input_dim]."""
        began = time.perf_counter_ns()
        y = self._pool.push(self._stream, x).reshape(len(tokens), -1)
        took = (time.perf_counter_ns() - began) / 1000
        first = self._tokens + 1
        self._tokens += len(tokens)
        return [self._interpreter.answer(first + place, token, y[place], took) for place, token in enumerate(tokens)]


def live_reader(model: StreamModel, missing: Policy | None = None, gaps: Policy | None = None) -> LiveReader:
    """What reads the records of a model: the reader it was trained with, or one of plain vectors if there was none.

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
        no_gaps(gaps)
        config = model.config
        return VectorReader(config.input_dim, model.info.inputs, config.update_size, missing or "fail")
    reader = reader_from_dict(model.info.reader)
    if len(reader.names) != model.config.input_dim:
        raise ValueError(
            f"the model's reader makes tokens of {len(reader.names)} numbers, but its input_dim is "
            f"{model.config.input_dim}"
        )
    return reader.live(missing, gaps)

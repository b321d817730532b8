"""One stream: a model, what reads its records, and where both are."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nystream.data.reader import LiveReader, Policy, RecordError, Token, reader_from_dict
from nystream.live.answers import Answer, Interpreter
from nystream.live.vectors import VectorReader
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
        >>> attention = ns.AttentionConfig("co-cont-single", embed_dim=8, num_heads=2, window=6, landmarks=3)
        >>> info = ns.ModelInfo(inputs=("a", "b"), labels=("sum",))
        >>> model = ns.StreamModel(ns.ModelConfig(input_dim=2, output_dim=1, attention=attention), info).eval()
        >>> session = Session(model)
        >>> [answer.token for record in ([1, 2], {"b": 4, "a": 3}) for answer in session.take(record)]
        [1, 2]
    """

    def __init__(self, model: StreamModel, reader: LiveReader | None = None, backend: str = "auto") -> None:
        self.model = model
        self.reader = live_reader(model) if reader is None else reader
        self._pool = StreamPool(model, capacity=1, backend=backend)
        self._stream = self._pool.open()
        self._interpreter = Interpreter(model.info, model.config.output_dim)
        self._together = model.config.update_size
        self._dtype = next(model.parameters()).dtype
        # Whether a token may be made of several records, as of chunks of sound.
        self.gathers = model.info.reader is not None and model.info.reader["kind"] == "audio"
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

    def take(self, record: Any) -> list[Answer]:
        """The answers to a record: none where its reader skips it, several where it fills a gap.

        RecordError where it cannot be taken, and the session is as it was.
        """
        before = self.reader.memory()
        self._whole = False
        try:
            groups = self._groups(self.reader.read(record))
        except Exception:
            self.reader.remember(before)
            self._whole = True
            raise
        answers = [answer for group in groups for answer in self._push(*group)]
        self._whole = True
        return answers

    def snapshot(self) -> tuple[bytes, dict[str, Any]]:
        """The stream's state and the reader's memory, for `restore`."""
        if not self._whole:
            raise RuntimeError("the session was broken off within a record; go on from the last one that was saved")
        return self._pool.snapshot(self._stream), self.reader.memory()

    def restore(self, state: bytes, memory: dict[str, Any]) -> None:
        """Go on from a snapshot, of this model; of another it is refused, and the session is as it was."""
        stream, before = self._pool.restore(state), self.reader.memory()
        try:
            self.reader.remember(memory)
        except (KeyError, TypeError, ValueError) as error:
            self._pool.close(stream)
            self.reader.remember(before)
            raise ValueError(f"the reader's memory is not one of this reader: {error!r}") from error
        self._pool.close(self._stream)
        self._stream, self._tokens, self._whole = stream, self._pool.time(stream), True

    def _groups(self, tokens: Sequence[Token]) -> list[tuple[list[Token], NDArray[Any]]]:
        """Tokens that are pushed together, with what is pushed: all of it checked, so that no push fails half-way."""
        if not tokens:
            return []
        r, width = self._together, self.model.config.input_dim
        if len(tokens) % r:
            raise RecordError(f"{len(tokens)} tokens, but the model takes {r} together")
        for token in tokens:
            if token.x.shape != (width,):
                raise RecordError(f"a token {list(token.x.shape)}, but the model takes [{width}]")
        with np.errstate(over="ignore"):
            x = np.stack([token.x for token in tokens], dtype=np.float32)  # [tokens, input_dim]
        # A model of half precision holds less than float32 does.
        held = np.isfinite(x).all() and (self._dtype == torch.float32 or _finite_in(x, self._dtype))
        if not held:
            raise RecordError(f"a value is NaN, Inf or beyond {str(self._dtype).removeprefix('torch.')}")
        return [(list(tokens[at : at + r]), x[at] if r == 1 else x[at : at + r]) for at in range(0, len(tokens), r)]

    def _push(self, tokens: list[Token], x: NDArray[Any]) -> list[Answer]:
        """Of tokens that arrive together; x is [input_dim], or [r, input_dim]."""
        began = time.perf_counter_ns()
        y = self._pool.push(self._stream, x).reshape(len(tokens), -1)
        took = (time.perf_counter_ns() - began) / 1000
        first = self._tokens + 1
        self._tokens += len(tokens)
        return [self._interpreter.answer(first + place, token, y[place], took) for place, token in enumerate(tokens)]


def _finite_in(x: NDArray[Any], dtype: torch.dtype) -> bool:
    return bool(torch.from_numpy(x).to(dtype).isfinite().all())


def live_reader(model: StreamModel, missing: Policy = "fail", gaps: Policy = "fail") -> LiveReader:
    """What reads the records of a model: the reader it was trained with, or one of plain vectors if there was none."""
    if model.info.reader is None:
        if gaps != "fail":
            raise ValueError(f"gaps={gaps!r}: the model's records have no time, so gaps in it cannot be seen")
        return VectorReader(model.config, model.info, missing)
    reader = reader_from_dict(model.info.reader)
    if len(reader.names) != model.config.input_dim:
        raise ValueError(
            f"the model's reader makes tokens of {len(reader.names)} numbers, but its input_dim is "
            f"{model.config.input_dim}"
        )
    return reader.live(missing, gaps)

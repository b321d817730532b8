"""Sound of a file, in chunks, at the rate that the model was trained with."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nystream.data.audio_file import require
from nystream.live.sources.source import Raw, Source

SECONDS = 0.1  # of a chunk


class SoundSource(Source):
    """Each chunk of samples is a record."""

    unit = "chunk"

    def __init__(self, name: str, rate: int) -> None:
        self.name, self.rate = name, rate
        self.chunk = max(1, round(SECONDS * rate))  # samples

    def record(self, raw: Raw) -> Raw:
        return raw


class SoundFile(SoundSource):
    """What soundfile can read, mixed to mono and resampled as it goes."""

    def __init__(self, path: Path, rate: int) -> None:
        require()
        super().__init__(os.fspath(path.resolve()), rate)
        self.path = path

    def items(self) -> Iterator[Raw]:
        """float32 chunks of `chunk` samples; the last may be shorter."""
        held = np.zeros(0, np.float32)
        for piece in self._resampled():
            held = np.concatenate([held, piece])
            while len(held) >= self.chunk:
                yield held[: self.chunk]
                held = held[self.chunk :]
        if len(held):
            yield held

    def _resampled(self) -> Iterator[NDArray[np.float32]]:
        import soundfile
        import soxr

        try:
            with soundfile.SoundFile(self.path) as file:
                given = file.samplerate
                stream = soxr.ResampleStream(given, self.rate, 1, dtype="float32", quality="HQ")
                for block in file.blocks(max(1, round(SECONDS * given)), dtype="float32", always_2d=True):
                    mono = block.mean(1, dtype=np.float32)  # [T, channels] -> [T]
                    yield mono if given == self.rate else stream.resample_chunk(mono)
                if given != self.rate:
                    yield stream.resample_chunk(np.zeros(0, np.float32), last=True)
        except soundfile.SoundFileError as error:
            reason = str(getattr(error, "error_string", error)).rstrip(".")  # without the path
            raise ValueError(f"{self.path} cannot be read as sound: {reason}") from error

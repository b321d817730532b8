"""Audio as chunks of samples, from a file or the microphone, at the sampling rate of the model."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nystream import extras
from nystream.data import audio_file
from nystream.live.reports import Reports
from nystream.live.sources.source import Raw, Source

CHUNK_SECONDS = 0.1

log = logging.getLogger("nystream")


class SoundSource(Source):
    """Each chunk of samples is a record."""

    unit = "chunk"

    def __init__(self, name: str, rate: int) -> None:
        self.name, self.rate = name, rate
        self.chunk = max(1, round(CHUNK_SECONDS * rate))  # samples

    def record(self, raw: Raw) -> Raw:
        return raw


class SoundFile(SoundSource):
    """Any file that soundfile can read, mixed to mono and resampled while it is read."""

    def __init__(self, path: Path, rate: int) -> None:
        audio_file.require()
        super().__init__(os.fspath(path.resolve()), rate)
        self.path = path

    def items(self) -> Iterator[Raw]:
        """Yield float32 chunks of `chunk` samples; the last one may be shorter."""
        samples = np.zeros(0, np.float32)
        for piece in self._resampled():
            samples = np.concatenate([samples, piece])
            while len(samples) >= self.chunk:
                yield samples[: self.chunk]
                samples = samples[self.chunk :]
        if len(samples):
            yield samples

    def _resampled(self) -> Iterator[NDArray[np.float32]]:
        import soundfile
        import soxr

        try:
            with soundfile.SoundFile(self.path) as file:
                file_rate = file.samplerate
                stream = soxr.ResampleStream(file_rate, self.rate, 1, dtype="float32", quality="HQ")
                for block in file.blocks(max(1, round(CHUNK_SECONDS * file_rate)), dtype="float32", always_2d=True):
                    mono = block.mean(1, dtype=np.float32)  # [T, channels] -> [T]
                    yield mono if file_rate == self.rate else stream.resample_chunk(mono)
                if file_rate != self.rate:
                    yield stream.resample_chunk(np.zeros(0, np.float32), last=True)
        except soundfile.SoundFileError as error:
            raise ValueError(f"{self.path} cannot be read as audio: {audio_file.reason(error)}") from error


class Microphone(SoundSource):
    """The default audio input, from now on."""

    again = False

    def __init__(self, rate: int) -> None:
        super().__init__("mic", rate)
        self._device = _sounddevice()

    def items(self) -> Iterator[Raw]:
        reports = Reports(log.warning)
        try:
            stream = self._device.InputStream(samplerate=self.rate, channels=1, dtype="float32", blocksize=self.chunk)
        except self._device.PortAudioError as error:
            raise OSError(f"no microphone provides {self.rate} samples per second: {error}") from error
        with stream:
            while True:
                try:
                    samples, overflow = stream.read(self.chunk)  # [chunk, 1]
                except self._device.PortAudioError as error:
                    raise OSError(f"the microphone has stopped: {error}") from error
                if overflow:
                    reports.tell("lost", "samples were lost: the microphone is faster than the model")
                yield samples[:, 0].copy()


def _sounddevice() -> Any:
    try:
        return extras.require("the microphone", "sounddevice")
    except OSError as error:
        raise OSError(
            f"the microphone needs the PortAudio library, such as the package libportaudio2: {error}"
        ) from error

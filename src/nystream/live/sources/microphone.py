"""The microphone, through sounddevice."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from nystream.live.reports import Reports
from nystream.live.sources.sound import SoundSource
from nystream.live.sources.source import Raw

log = logging.getLogger("nystream")


class Microphone(SoundSource):
    """What the default input hears, from now on."""

    again = False

    def __init__(self, rate: int) -> None:
        super().__init__("mic", rate)
        self._device = _sounddevice()

    def items(self) -> Iterator[Raw]:
        reports = Reports(log.warning)
        try:
            stream = self._device.InputStream(samplerate=self.rate, channels=1, dtype="float32", blocksize=self.chunk)
        except self._device.PortAudioError as error:
            raise OSError(f"there is no microphone that gives {self.rate} samples a second: {error}") from error
        with stream:
            while True:
                try:
                    samples, lost = stream.read(self.chunk)  # [chunk, 1]
                except self._device.PortAudioError as error:
                    raise OSError(f"the microphone has stopped: {error}") from error
                if lost:
                    reports.tell("lost", "the microphone was faster than the model: samples were lost")
                yield samples[:, 0].copy()


def _sounddevice() -> Any:
    try:
        import sounddevice
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("the microphone needs sounddevice", name="sounddevice") from error
    except OSError as error:
        raise OSError(
            f"the microphone needs the PortAudio library, such as the package libportaudio2: {error}"
        ) from error
    return sounddevice

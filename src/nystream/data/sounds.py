"""Folders of audio files, with one subfolder per class: audio as log-mel tokens.

A token covers several frames of 10 ms: the mean of each log-mel band over them, and its standard deviation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from nystream.config.checks import positive_int
from nystream.data import audio_file
from nystream.data.audio_file import SAMPLE_RATE
from nystream.data.clips import UNKNOWN_CLASS, Clip, Clips, read_files
from nystream.data.mel import BANDS, FRAME, HOP, YAMNET_OFFSET, LogMel
from nystream.data.reader import LiveReader, Policy, Reader, RecordError, Token, check_policy, reject_gaps

MAX_SECONDS = 86400.0  # recorded as the length used of a file, if that is unlimited
SUFFIXES = (".wav", ".flac", ".ogg", ".mp3", ".au", ".aif", ".aiff")


@dataclass(frozen=True)
class SoundReader(Reader):
    """Reads records that are chunks of mono samples, of any length.

    Args:
        frames: Frames of 10 ms per token.
        rate: Samples per second.
    """

    kind: ClassVar[str] = "audio"

    frames: int = 10
    rate: int = SAMPLE_RATE

    def __post_init__(self) -> None:
        positive_int("frames", self.frames)
        if self.rate != SAMPLE_RATE:
            raise ValueError(f"rate={self.rate!r} must be {SAMPLE_RATE}, the rate of the mel bands")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{what} of band {i}" for what in ("mean", "deviation") for i in range(BANDS))

    @property
    def hop(self) -> int:
        """Samples from one token to the next."""
        return self.frames * HOP

    @property
    def length(self) -> int:
        """Samples of a token; the last ones are also part of the next token."""
        return (self.frames - 1) * HOP + FRAME

    @property
    def seconds(self) -> float:
        """Seconds from one token to the next."""
        return self.hop / self.rate

    @cached_property
    def _mel(self) -> LogMel:
        return LogMel(YAMNET_OFFSET)

    def tokens(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return tokens [T, input_dim] of samples [N], as many as fit completely."""
        if len(samples) < self.length:
            return np.zeros((0, len(self.names)), np.float32)
        with torch.no_grad():
            chunks = torch.from_numpy(samples).unfold(0, self.length, self.hop)  # [T, length]
            mel = self._mel(chunks)  # [T, frames, bands]
            return torch.cat([mel.mean(1), mel.std(1, correction=0)], 1).numpy()

    def live(self, missing: Policy | None = None, gaps: Policy | None = None) -> LiveSound:
        reject_gaps(gaps)
        return LiveSound(self, missing or "fail")


class LiveSound(LiveReader):
    """Collects samples until a token is complete."""

    state: NDArray[np.float32]  # samples that are not part of a complete token yet

    def __init__(self, reader: SoundReader, missing: Policy) -> None:
        check_policy("missing", missing)
        self.reader, self.missing = reader, missing
        self.state = np.zeros(0, np.float32)

    def read(self, record: Any) -> list[Token]:
        self.note, self.lost = "", 0
        try:
            with np.errstate(over="ignore"):
                samples = np.asarray(record, np.float32)
        except (TypeError, ValueError, OverflowError):
            raise RecordError("a record must be samples, numbers from -1 to 1") from None
        if samples.ndim != 1:
            raise RecordError(f"a record is {list(samples.shape)}, but must be mono samples [N]", "shape")
        bad = ~np.isfinite(samples)
        if bad.any():
            if self.missing == "fail":
                raise RecordError(f"sample {int(bad.argmax()) + 1} of a record is not finite", "not finite")
            if self.missing == "skip":
                self.note, self.note_kind, self.lost = (
                    f"{int(bad.sum())} of its samples are not finite",
                    "not finite",
                    1,
                )
                return []
            samples = np.where(bad, np.float32(0), samples)
        samples = np.concatenate([self.state, samples])
        tokens = self.reader.tokens(samples)
        self.state = samples[len(tokens) * self.reader.hop :].copy()
        filled = ("samples",) if bad.any() else ()
        return [Token(x, filled=filled) for x in tokens]

    def memory(self) -> dict[str, Any]:
        return {"samples": self.state.tolist()}

    def remember(self, memory: dict[str, Any]) -> None:
        samples = np.array(memory["samples"], np.float32)
        if samples.ndim != 1 or len(samples) >= self.reader.length:
            raise ValueError(f"the memory has samples {list(samples.shape)}, but must have fewer than one token")
        self.state = samples

    def check(self, columns: Sequence[str] | None, width: int) -> None:
        if columns is not None:
            raise ValueError("records have names, but the model reads audio: give it a file, mic, or lines of samples")


def read_sounds(folder: Path, seconds: float, classes: Sequence[str] = (), show: bool | None = None) -> Clips:
    """Read the audio files of a folder with one subfolder per class, at most `seconds` of each."""
    audio_file.require()
    if not seconds > 0:
        raise ValueError(f"seconds={seconds!r} must be greater than 0")
    paths = sound_files(folder)
    if not paths:
        raise ValueError(f"{folder} has no audio files in subfolders, one per class")
    reader, bad = SoundReader(), dict[str, str]()
    names = tuple(classes) or tuple(sorted({path.parent.name for path in paths}))

    def read(path: Path, name: str) -> tuple[Clip, NDArray[Any]]:
        samples = audio_file.read(path, max(1, int(min(audio_file.duration(path), seconds) * SAMPLE_RATE)))
        x = reader.tokens(samples)
        if not len(x):
            raise ValueError(f"too short: {len(samples) / SAMPLE_RATE:.2f} s")
        if path.parent.name not in names:
            raise ValueError(f"{UNKNOWN_CLASS} {path.parent.name!r} is not one of {', '.join(names)}")
        return Clip(name, x, np.full(len(x), names.index(path.parent.name))), samples

    clips = tuple(read_files(folder, paths, read, bad, show))
    used_seconds = min(seconds, MAX_SECONDS)
    return Clips(folder, clips, names, "classification", reader, bad, reader.seconds, used_seconds)


def sound_files(folder: Path) -> list[Path]:
    """Return the audio files in the subfolders of a folder."""
    return sorted(p for p in folder.glob("*/*") if p.suffix.lower() in SUFFIXES and not p.name.startswith("."))

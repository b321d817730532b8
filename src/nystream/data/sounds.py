"""Folders of audio files, one for each class: sound as log-mel tokens.

A token is made of some frames of 10 ms each: the mean of every band's logarithm over them, and its deviation.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from nystream.config.checks import fields_of, positive_int
from nystream.data.audio_file import SAMPLE_RATE, read, require
from nystream.data.clips import Bad, Clip, Clips, refuse_none
from nystream.data.mel import BANDS, FRAME, HOP, YAMNET_OFFSET, LogMel
from nystream.data.reader import LiveReader, Policy, Reader, RecordError, Token, check_policy, no_gaps
from nystream.progress import track

DAY = 86400.0  # seconds: as good as all of a file
SUFFIXES = (".wav", ".flac", ".ogg", ".mp3", ".au", ".aif", ".aiff")


@dataclass(frozen=True)
class SoundReader(Reader):
    """A chunk of samples a record, of any length: mono, at `rate` samples a second.

    Args:
        frames: of 10 ms, in a token.
    """

    kind: ClassVar[str] = "audio"

    frames: int = 10
    rate: int = SAMPLE_RATE

    def __post_init__(self) -> None:
        positive_int("frames", self.frames)
        if self.rate != SAMPLE_RATE:
            raise ValueError(f"rate={self.rate!r} must be {SAMPLE_RATE}, that of the mel bands")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{what} of band {i}" for what in ("mean", "deviation") for i in range(BANDS))

    @property
    def hop(self) -> int:
        """Samples from one token to the next."""
        return self.frames * HOP

    @property
    def length(self) -> int:
        """Samples that a token is made of; the last of them are in the next one too."""
        return (self.frames - 1) * HOP + FRAME

    @property
    def seconds(self) -> float:
        """Between two tokens."""
        return self.hop / self.rate

    @cached_property
    def _mel(self) -> LogMel:
        return LogMel(YAMNET_OFFSET)

    def tokens(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """[T, input_dim] of samples [N]: as many tokens as fit in whole."""
        if len(samples) < self.length:
            return np.zeros((0, len(self.names)), np.float32)
        with torch.no_grad():
            pieces = torch.from_numpy(samples).unfold(0, self.length, self.hop)  # [T, length]
            mel = self._mel(pieces)  # [T, frames, bands]
            return torch.cat([mel.mean(1), mel.std(1, correction=0)], 1).numpy()

    def live(self, missing: Policy | None = None, gaps: Policy | None = None) -> LiveSound:
        no_gaps(gaps)
        return LiveSound(self, missing or "fail")

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, **dataclasses.asdict(self)}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> SoundReader:
        return cls(**fields_of(cls, {name: value for name, value in fields.items() if name != "kind"}, "reader"))


class LiveSound(LiveReader):
    """Collects samples until a token is complete."""

    def __init__(self, reader: SoundReader, missing: Policy) -> None:
        check_policy("missing", missing)
        self.reader, self.missing = reader, missing
        self.state = np.zeros(0, np.float32)  # samples of the token that is to come

    def read(self, record: Any) -> list[Token]:
        self.note, self.lost = "", 0
        try:
            with np.errstate(over="ignore"):
                samples = np.asarray(record, np.float32)
        except (TypeError, ValueError, OverflowError):
            raise RecordError("a record must be samples, numbers from -1 to 1") from None
        if samples.ndim != 1:
            raise RecordError(f"a record is {list(samples.shape)}, but must be mono samples [N]", "shape")
        lacking = ~np.isfinite(samples)
        if lacking.any() and self.missing == "fail":
            raise RecordError(f"sample {int(lacking.argmax()) + 1} of a record is not finite", "not finite")
        if lacking.any() and self.missing == "skip":
            self.note, self.note_kind, self.lost = (
                f"{int(lacking.sum())} of its samples are not finite",
                "not finite",
                1,
            )
            return []
        filled = ("samples",) if lacking.any() else ()
        held = np.concatenate([self.state, np.where(lacking, np.float32(0), samples)])
        found = self.reader.tokens(held)
        self.state = held[len(found) * self.reader.hop :].copy()
        return [Token(x, filled=filled) for x in found]

    def memory(self) -> dict[str, Any]:
        return {"samples": self.state.tolist()}

    def remember(self, memory: dict[str, Any]) -> None:
        held = np.array(memory["samples"], np.float32)
        if held.ndim != 1 or len(held) >= self.reader.length:
            raise ValueError(f"the memory has {list(held.shape)} samples, but must have less than a token's")
        self.state = held

    def check(self, columns: Sequence[str] | None, width: int) -> None:
        if columns is not None:
            raise ValueError("records have names, but the model reads sound: give it a file, mic, or lines of samples")


def read_sounds(folder: Path, seconds: float, classes: Sequence[str] = (), show: bool | None = None) -> Clips:
    """The audio files of a folder with a subfolder for each class, each cut at `seconds`."""
    require()
    if not seconds > 0:
        raise ValueError(f"seconds={seconds!r} must be greater than 0")
    paths = files_of(folder)
    if not paths:
        raise ValueError(f"{folder} has no audio files in subfolders, one for each class")
    reader, clips, bad, seen = SoundReader(), list[Clip](), list[Bad](), dict[bytes, str]()
    names = tuple(classes) or tuple(sorted({path.parent.name for path in paths}))
    with track("reading", len(paths), show) as advance:
        for path in paths:
            name = path.relative_to(folder).as_posix()
            try:
                samples = read(path, _samples(path, seconds))
                digest = hashlib.sha256(samples.tobytes()).digest()
                if digest in seen:
                    raise ValueError(f"it is a copy of {seen[digest]}")
                x = reader.tokens(samples)
                if not len(x):
                    raise ValueError(f"too short: {len(samples) / SAMPLE_RATE:.2f} s")
                if path.parent.name not in names:
                    raise ValueError(f"class {path.parent.name!r} is not one of {', '.join(names)}")
                seen[digest] = name
                clips.append(Clip(name, x, np.full(len(x), names.index(path.parent.name))))
            except ValueError as error:
                bad.append(Bad(name, str(error)))
            advance()
    refuse_none(folder, clips, bad)
    return Clips(folder, tuple(clips), names, "classification", reader, tuple(bad), reader.seconds, min(seconds, DAY))


def files_of(folder: Path) -> list[Path]:
    """The audio files in the subfolders of a folder."""
    return sorted(p for p in folder.glob("*/*") if p.suffix.lower() in SUFFIXES and not p.name.startswith("."))


def _samples(path: Path, seconds: float) -> int:
    """How many samples to take of a file, at 16 kHz."""
    import soundfile

    try:
        held = soundfile.info(path).duration
    except (soundfile.SoundFileError, OSError) as error:
        reason = str(getattr(error, "error_string", error))
        raise ValueError(f"broken: {reason.rstrip('.')}") from error
    return max(1, int(min(held, seconds) * SAMPLE_RATE))


READER = SoundReader

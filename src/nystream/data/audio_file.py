"""Audio files, read as mono at 16 kHz."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nystream import extras

SAMPLE_RATE = 16000  # of the mel bands
MIN_SHARE = 0.9  # of the requested length; the rest is padded with silence


def read(path: Path, length: int) -> NDArray[Any]:
    """Read `length` samples of a file at 16 kHz in mono; ValueError with the reason if it cannot be used."""
    import soundfile
    import soxr

    try:
        samples, rate = soundfile.read(path, dtype="float32", always_2d=True)  # [T, channels]
    except (soundfile.SoundFileError, OSError) as error:
        raise ValueError(f"broken: {reason(error)}") from error
    if not len(samples):
        raise ValueError("empty: it has no samples")
    if not np.isfinite(samples).all():
        raise ValueError("broken: it has samples that are not finite")
    mono = samples.mean(1, dtype=np.float32)
    if rate != SAMPLE_RATE:
        mono = soxr.resample(mono, rate, SAMPLE_RATE, quality="HQ")
    if len(mono) < MIN_SHARE * length:
        raise ValueError(
            f"too short: {len(mono) / SAMPLE_RATE:.2f} s of {length / SAMPLE_RATE:g} s, and {MIN_SHARE:.0%} are needed"
        )
    return np.pad(mono[:length], (0, max(0, length - len(mono))))


def duration(path: Path) -> float:
    """Return the seconds of a file."""
    import soundfile

    try:
        return float(soundfile.info(path).duration)
    except (soundfile.SoundFileError, OSError) as error:
        raise ValueError(f"broken: {reason(error)}") from error


def reason(error: Exception) -> str:
    """Return why soundfile cannot read a file, without its path."""
    return str(getattr(error, "error_string", error)).rstrip(".")


def require() -> None:
    """Raise early if a package that reads audio is missing."""
    for name in ("soundfile", "soxr"):
        extras.require("reading audio", name)

"""Sound from a file: mono, at 16 kHz."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SAMPLE_RATE = 16000  # that of the mel bands
ENOUGH = 0.9  # of the length that is asked for; the little that may be missing is filled with silence


def read(path: Path, length: int) -> NDArray[Any]:
    """`length` samples of a file at 16 kHz in mono; ValueError with the reason if it cannot be used."""
    import soundfile
    import soxr

    try:
        samples, rate = soundfile.read(path, dtype="float32", always_2d=True)  # [T, channels]
    except (soundfile.SoundFileError, OSError) as error:
        reason = str(getattr(error, "error_string", error))  # without the path
        raise ValueError(f"broken: {reason.rstrip('.')}") from error
    if not len(samples):
        raise ValueError("empty: it has no samples")
    if not np.isfinite(samples).all():
        raise ValueError("broken: it has samples that are not finite")
    mono = samples.mean(1, dtype=np.float32)
    if rate != SAMPLE_RATE:
        mono = soxr.resample(mono, rate, SAMPLE_RATE, quality="HQ")
    if len(mono) < ENOUGH * length:
        raise ValueError(
            f"too short: {len(mono) / SAMPLE_RATE:.2f} s of {length / SAMPLE_RATE:g} s, and {ENOUGH:.0%} are needed"
        )
    return np.pad(mono[:length], (0, max(0, length - len(mono))))


def require() -> None:
    """Fail early if a package that reads audio is missing."""
    for name in ("soundfile", "soxr"):
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"reading audio needs {error.name}: pip install 'nystream[audio]'", name=error.name
            ) from error

"""Metrics of a run: one line of JSON per epoch, and scalars for TensorBoard."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from nystream import extras, files

METRICS = "metrics.jsonl"


class Log:
    """Writes metrics to the folder of a run, if it has one."""

    def __init__(self, folder: Path | None, tensorboard: bool, history: list[dict[str, Any]], step: int) -> None:
        self.folder, self.writer = folder, None
        if folder is None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        # Lines that were written after the checkpoint a run resumes from are dropped.
        files.write_text(folder / METRICS, "".join(_json(line) for line in history))
        if tensorboard:
            self.writer = _writer(folder / "tensorboard", step)

    def epoch(self, line: dict[str, Any]) -> None:
        if self.folder is None:
            return
        with (self.folder / METRICS).open("a", encoding="utf-8") as file:
            file.write(_json(line))
        if self.writer is not None:
            for group in ("train_loss", "valid"):
                for member, values in enumerate(line.get(group) or []):
                    named = values.items() if isinstance(values, dict) else [("", values)]
                    for name, value in named:
                        suffix = f"/{member}" if len(line[group]) > 1 else ""
                        self.writer.add_scalar(f"{group}{'/' if name else ''}{name}{suffix}", value, line["step"])
            self.writer.flush()

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()


def plain_numbers(value: Any) -> Any:
    """The value with None for NaN and infinity, which JSON does not have."""
    if isinstance(value, dict):
        return {name: plain_numbers(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain_numbers(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _json(line: dict[str, Any]) -> str:
    return json.dumps(plain_numbers(line), allow_nan=False) + "\n"


def _writer(folder: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise extras.missing("tensorboard=True", "tensorboard", ", or pass tensorboard=False") from error
    # Keep the scalars up to the checkpoint; purge_step itself would be purged too.
    return SummaryWriter(str(folder), purge_step=step + 1 if step else None)

"""`config.json`: what a model is, and what its numbers mean."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nystream.config import ModelConfig, ModelInfo
from nystream.config.checks import listed
from nystream.config.json_text import parse
from nystream.version import __version__

FORMAT = 1
LARGEST = 2**24  # bytes


def text(config: ModelConfig, info: ModelInfo) -> str:
    """What is written to the file."""
    fields = {"format": FORMAT, "nystream": __version__, "config": config.to_dict(), "info": info.to_dict()}
    written = json.dumps(fields, indent=2, ensure_ascii=False) + "\n"
    if len(written.encode()) > LARGEST:
        raise ValueError(f"info is too long: config.json would have more than {LARGEST} bytes")
    return written


def read(path: Path) -> tuple[ModelConfig, ModelInfo]:
    """What the file says; errors name it."""
    if path.stat().st_size > LARGEST:
        raise ValueError(f"{path} has {path.stat().st_size} bytes, but the config of a model has at most {LARGEST}")
    try:
        written = parse(path.read_text(encoding="utf-8"))
    except ValueError as error:  # broken JSON, or not text at all
        raise ValueError(f"{path} cannot be read as JSON: {error}") from error
    _check_format(path, written)
    try:
        config: ModelConfig = ModelConfig.from_dict(written.get("config"))
        info = ModelInfo.from_dict(written.get("info", {}))
        info.check(config.input_dim, config.output_dim)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error
    return config, info


def _check_format(path: Path, written: Any) -> None:
    if not isinstance(written, dict) or type(written.get("format")) is not int or written["format"] < 1:
        raise ValueError(f"{path} is not the config of a nystream model; save_pretrained writes them")
    if written["format"] > FORMAT:
        version = str(written.get("nystream", "of a newer version"))
        raise ValueError(
            f"{path} was written by nystream {version:.40} in format {written['format']}, "
            f"but this version reads formats up to {FORMAT}: pip install --upgrade nystream"
        )
    unknown = set(written) - {"format", "nystream", "config", "info"}
    if unknown:
        raise ValueError(f"{path} has unknown fields: {listed(unknown)}")

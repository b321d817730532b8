"""Reading and writing `config.json`: a model's architecture and metadata."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nystream.config import ModelConfig, ModelInfo
from nystream.config.checks import listed
from nystream.config.json_text import parse
from nystream.version import __version__

FORMAT = 1
MAX_BYTES = 2**24


def text(config: ModelConfig, info: ModelInfo) -> str:
    """Return the content of the file."""
    fields = {"format": FORMAT, "nystream": __version__, "config": config.to_dict(), "info": info.to_dict()}
    content = json.dumps(fields, indent=2, ensure_ascii=False) + "\n"
    if len(content.encode()) > MAX_BYTES:
        raise ValueError(f"info is too long: config.json would have more than {MAX_BYTES} bytes")
    return content


def read(path: Path) -> tuple[ModelConfig, ModelInfo]:
    """Read the file. Every error names it."""
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"{path} has {path.stat().st_size} bytes, but the config of a model has at most {MAX_BYTES}")
    try:
        fields = parse(path.read_text(encoding="utf-8"))
    except ValueError as error:  # includes UnicodeDecodeError
        raise ValueError(f"{path} cannot be read as JSON: {error}") from error
    _check_format(path, fields)
    try:
        config: ModelConfig = ModelConfig.from_dict(fields.get("config"))
        info = ModelInfo.from_dict(fields.get("info", {}))
        info.check(config.input_dim, config.output_dim)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error
    return config, info


def _check_format(path: Path, fields: Any) -> None:
    if not isinstance(fields, dict) or type(fields.get("format")) is not int or fields["format"] < 1:
        raise ValueError(f"{path} is not the config of a nystream model, as written by save_pretrained")
    if fields["format"] > FORMAT:
        version = str(fields.get("nystream", "of a newer version"))
        raise ValueError(
            f"{path} was written by nystream {version:.40} in format {fields['format']}, "
            f"but this version reads formats up to {FORMAT}: install a newer version"
        )
    unknown = set(fields) - {"format", "nystream", "config", "info"}
    if unknown:
        raise ValueError(f"{path} has unknown fields: {listed(unknown)}")

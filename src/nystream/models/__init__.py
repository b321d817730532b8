"""Whole models: from input tokens to outputs."""

from nystream.models.stream_model import StreamModel

__all__ = ["StreamModel"]

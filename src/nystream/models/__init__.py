"""Whole models."""

from nystream.models.stream_model import StreamModel

__all__ = ["StreamModel"]

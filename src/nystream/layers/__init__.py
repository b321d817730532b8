"""Modules with parameters."""

from nystream.layers.attention import MultiheadAttention

__all__ = ["MultiheadAttention"]

"""Modules with parameters: attention, encoder blocks and their stacks, positions, scalers."""

from nystream.layers.attention import MultiheadAttention

__all__ = ["MultiheadAttention"]

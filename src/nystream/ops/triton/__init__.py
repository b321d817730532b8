"""Kernels for a GPU, in Triton: `steps` of the variants whose windows slide over a piece, forward and backward.

`ops.fused` says when they are used, and imports them only then.
"""

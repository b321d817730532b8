"""Kernels for the CPU, in Numba: the step of a whole model, for one stream or many.

Read `plan` first (where everything lies), then `simd`, `sliding` (the window), `attention`, and `step` (the model).
"""

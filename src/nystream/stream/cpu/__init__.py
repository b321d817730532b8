"""CPU kernels written with Numba: one step of a whole model, for one stream or for many.

Start with `plan` (what the kernels know about a model and where its numbers are in memory), then read `memory` and
`simd`, `sums` and `sliding` (the window), `attention`, and `step` (the model).
"""

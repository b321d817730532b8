"""The step of a whole model on a GPU, for many streams at once: `nystream.stream.backends.triton`.

Attention, norms and sums run in Triton kernels (`kernels`), the matrix products of the layers in torch. The states of
all streams stay on the device.
"""

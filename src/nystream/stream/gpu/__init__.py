"""The step of a whole model on a GPU, for many streams at once: `nystream.stream.backends.triton`.

Attention runs in Triton kernels (`kernels`), everything else in torch. The states of all streams stay on the device.
"""

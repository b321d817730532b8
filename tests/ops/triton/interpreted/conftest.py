import numpy as np
import pytest
import triton.language as tl
from triton.runtime import interpreter

from nystream.ops import fused
from nystream.ops.triton import full, landmarks
from nystream.ops.triton.launch import Tile

_patch, _dot = interpreter._patch_lang_tensor, interpreter.InterpreterBuilder.create_dot


def _patch_with_index(tensor, scope):
    """As Triton 3.6 does, but bounds of loops are read in a way that NumPy 2.4 and later allow."""
    _patch(tensor, scope)
    scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())


def _dot_of_floats(self, a, b, *rest):
    """As Triton 3.6 does, which takes the bits of bfloat16 numbers for integers."""
    a, b = (
        interpreter.TensorHandle((x.data.astype(np.uint32) << 16).view(np.float32), tl.float32)
        if x.dtype.scalar == tl.bfloat16
        else x
        for x in (a, b)
    )
    return _dot(self, a, b, *rest)


interpreter._patch_lang_tensor = _patch_with_index
interpreter.InterpreterBuilder.create_dot = _dot_of_floats


@pytest.fixture(autouse=True)
def _kernels(monkeypatch):
    """The smallest tiles, unequal where a kernel allows it: a few tokens are several tiles."""
    monkeypatch.setattr(
        full, "tile", lambda kernel, *_: Tile(16, 32, 4) if kernel == "key_gradients" else Tile(32, 16, 4)
    )
    monkeypatch.setattr(landmarks, "tile", lambda *_: Tile(16, 16, 4))
    with fused.kernels("always"):
        yield

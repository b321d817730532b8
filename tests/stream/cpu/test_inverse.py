"""Γ† in lanes, compared with `nystream.ops.pinv`."""

import numpy as np
import pytest
import torch
from numba import njit

from nystream.ops.pinv import pinv
from nystream.stream.cpu import inverse, plan
from nystream.stream.cpu.memory import block_at, pointer_to


@njit
def _invert(block, gamma, out, scratch):
    inverse.invert(block_at(block), pointer_to(gamma), pointer_to(out), pointer_to(scratch))


@pytest.mark.parametrize("m", [1, 2, 4, 5, 8, 19])
@pytest.mark.parametrize("heads", [1, 3, 8, 16])
@pytest.mark.parametrize(("kind", "name"), [(plan.NEWTON, "newton"), (plan.RIDGE, "ridge"), (plan.NONE, "none")])
def test_every_kind(m, heads, kind, name):
    gamma = torch.randn(heads, m, m, dtype=torch.float64).mul(2).softmax(-1).float()
    tile = plan.tile_size(heads)
    block = plan.BlockPlan(landmarks=m, heads=heads, tile=tile, pinv=kind, pinv_iters=6, pinv_ridge=0.1)
    z = plan.spread(gamma.permute(1, 2, 0).numpy()).copy()
    out = np.empty_like(z)
    record = np.array([block], plan.BLOCK)
    _invert(record.ctypes.data, z, out, np.full(inverse.doubles(m), np.nan))
    expected = pinv(gamma.double(), name, 6, 0.1).permute(1, 2, 0).numpy()
    # Computed in float64 from the same float32 Γ: only the last rounding differs.
    np.testing.assert_allclose(out, plan.spread(expected), rtol=1e-6, atol=1e-6 * np.abs(expected).max())

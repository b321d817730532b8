"""Models of any shape, and streams at different phases. Kernels run in Triton's interpreter, at about 50 ms a step.

The interpreter does not round when it converts float32 to bfloat16. So the last digit of bfloat16 models is tested in
benchmarks/gpu.py, everything else here.
"""

import copy
from importlib.util import find_spec

import numpy as np
import pytest
import torch

import nystream as ns

collect_ignore_glob = [] if find_spec("triton") else ["test_*.py"]  # there is no Triton for some systems


@pytest.fixture
def products_of_bfloat16(monkeypatch):
    """The interpreter would multiply the bits of bfloat16 numbers, as integers."""
    import triton.language as tl
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    dot = InterpreterBuilder.create_dot

    def widened(x):
        if x.dtype.scalar != tl.bfloat16:
            return x
        return TensorHandle((x.data.astype(np.uint32) << 16).view(np.float32), tl.float32)

    monkeypatch.setattr(
        InterpreterBuilder, "create_dot", lambda self, a, b, *rest: dot(self, widened(a), widened(b), *rest)
    )


@pytest.fixture(scope="session")
def shaped():
    """A model that is ready to stream: shaped("co-fixed-single", window=12, layers=2, decay=True, ...)."""

    def shaped(variant="co-fixed-single", dtype=torch.float32, *, layers=1, linear=None, norm="pre", seed=0, **options):
        torch.manual_seed(seed)
        sizes = {"embed_dim": 8, "num_heads": 2, "window": 6, "landmarks": 3, "pinv": "ridge"} | options
        cfg = ns.ModelConfig(
            input_dim=5,
            output_dim=3,
            ff_dim=12,
            attention=ns.AttentionConfig(variant, **sizes),
            layers=layers,
            stack="deep",
            linear=linear,
            norm=norm,
        )
        model = ns.StreamModel(cfg, dtype=dtype).eval()
        if linear is not None:
            torch.nn.init.normal_(model.linear.weight)  # it would be zero
        for block in model.encoder.blocks:
            own = block.attention.config
            if own.fixed:
                shape = (own.num_heads, own.m, own.head_dim)
                block.attention.set_landmarks(torch.randn(shape), torch.randn(shape))
        return model

    return shaped


@pytest.fixture(scope="session")
def in_float64():
    """Outputs of `steps` in float64 for one stream [T, input_dim] or [T, r, input_dim]."""

    def in_float64(model, x):
        double = copy.deepcopy(model).double()
        rows = torch.as_tensor(x).to(next(model.parameters()).dtype).double().reshape(1, -1, x.shape[-1])
        with torch.no_grad():
            y = double.steps(rows, double.init_state(1))[0]
        return y.reshape(*x.shape[:-1], -1).numpy()

    return in_float64


@pytest.fixture(scope="session")
def agree(in_float64):
    """agree(pool, model, x, late): streams x [S, T, ...], opened after `late` [S] turns, say what float64 says."""

    def agree(pool, model, x, late, tolerance=2e-5):
        sids: dict[int, int] = {}
        outs = [[] for _ in x]
        for turn in range(max(late) + x.shape[1]):
            sids |= {row: pool.open() for row in range(len(x)) if late[row] == turn}
            some = [row for row in sids if turn < late[row] + x.shape[1]]
            tokens = np.stack([x[row, turn - late[row]] for row in some])
            for row, y in zip(some, pool.push_many([sids[row] for row in some], tokens), strict=True):
                outs[row].append(y)
        for row, out in enumerate(outs):
            expected = in_float64(model, x[row])
            error = np.abs(np.stack(out) - expected).max() / np.abs(expected).max()
            assert error < tolerance, f"stream {row}: {error:.1e}"
        return [sids[row] for row in range(len(x))]

    return agree

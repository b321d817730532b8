"""The linear path in compiled pools, against a plain computation and against the torch backend."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import nystream as ns
from nystream import extras
from nystream import state as states
from nystream.stream.backends.numba import NumbaBackend
from nystream.stream.cpu.path import columns, runs

segments = st.lists(st.integers(1, 20), max_size=5).map(lambda rest: (1, *rest))


def model(linear, input_dim=3, output_dim=2, embed_dim=4):
    attention = ns.AttentionConfig("co-full-single", embed_dim, 2, 4)
    config = ns.ModelConfig(
        input_dim=input_dim, output_dim=output_dim, attention=attention, ff_dim=4, stack="deep", linear=linear
    )
    made = ns.StreamModel(config).eval().requires_grad_(False)
    torch.nn.init.normal_(made.linear.weight)
    made.input_scaler.set(torch.randn(input_dim), torch.rand(input_dim) + 0.5)
    return made


@settings(max_examples=20)
@given(segments, st.integers(1, 20), st.integers(1, 20), st.integers(1, 40), st.booleans(), st.integers(0, 90))
def test_a_path_of_any_shape(segments, inputs, input_dim, output_dim, embedded, seed):
    torch.manual_seed(seed)
    linear = ns.LinearConfig(segments=segments, inputs=min(inputs, input_dim), embedded=embedded)
    made = model(linear, input_dim, output_dim)
    x = torch.randn(3, 2 * linear.tokens + 3, input_dim)
    exact = ns.StreamModel(made.config, dtype=torch.float64).eval().requires_grad_(False)
    exact.load_state_dict(made.state_dict())
    expected = exact.steps(x.double(), exact.init_state(3))[0]
    pool = ns.StreamPool(made, backend="numba")
    sids = [pool.open() for _ in range(3)]
    outs = [pool.push_many(sids, x[:, t]) for t in range(x.shape[1] - 1)]
    outs.append(np.stack([pool.push(sid, x[row, -1]) for row, sid in enumerate(sids)]))
    # float32, and up to a hundred features
    error = np.abs(np.stack(outs, 1) - expected.numpy()).max() / expected.abs().max()
    assert error < 1e-5


@pytest.mark.parametrize("time", [0, 1, 5, 11, 12, 13, 40])
def test_snapshots_of_both_backends_are_equal(time):
    made = model(ns.LinearConfig(segments=(1, 1, 1, 4, 5), inputs=2))
    x, leaves = torch.randn(time, 3), []
    for backend in ("torch", "numba"):
        pool = ns.StreamPool(made, backend=backend)
        sid = pool.open()
        for token in x:
            pool.push(sid, token)
        leaves.append(dict(states.named_leaves(states.unpack(pool.snapshot(sid), made))))
    assert leaves[0].keys() == leaves[1].keys()
    for name, leaf in leaves[0].items():
        torch.testing.assert_close(leaves[1][name], leaf, rtol=1e-5, atol=1e-6)
    assert leaves[0]["encoder.blocks.0.time"].tolist() == [time]
    torch.testing.assert_close(leaves[1]["recent"], leaves[0]["recent"], rtol=1e-6, atol=0)


@pytest.mark.parametrize("backend", ["torch", "numba"])
def test_slots_without_a_token_do_not_count(backend):
    """A state that someone has made may have anything there."""
    made = model(ns.LinearConfig(segments=(1, 1, 4)))
    x = torch.randn(1, 4, 3)
    state = made.advance(x[:, :3], made.init_state(1))
    state.recent[:, 3:] = 1e6
    pool = ns.StreamPool(made, backend=backend)
    y = pool.push(pool.restore(states.pack(state, made)), x[0, 3])
    np.testing.assert_allclose(y, made.steps(x, made.init_state(1))[0][0, 3], rtol=1e-5, atol=1e-6)


def test_an_extreme_token_leaves_no_trace():
    made = model(ns.LinearConfig(segments=(1, 2, 6)))
    pool = ns.StreamPool(made, backend="numba")
    a, b = pool.open(), pool.open()
    x = torch.randn(14, 3)
    pool.push(a, torch.full((3,), 1e30))
    pool.push(b, x[0])
    for token in x[1:]:
        last = [pool.push(sid, token) for sid in (a, b)]
    np.testing.assert_array_equal(*last)


def test_the_order_of_features():
    linear = ns.LinearConfig(segments=(1, 1, 4, 4), inputs=2)
    assert columns(linear, 3).tolist() == [7, 8, 5, 6, 3, 4, 0, 1, 2]
    assert runs(linear).tolist() == [[4, 2], [1, 1]]
    assert columns(ns.LinearConfig(), 3).tolist() == [0, 1, 2]
    assert runs(ns.LinearConfig()).shape == (0, 2)


def test_weights_of_a_path_are_counted():
    made = model(ns.LinearConfig(segments=336, inputs=1), 60, 1)
    without = ns.StreamModel(dataclasses.replace(made.config, linear=None))
    with_path, alone = (NumbaBackend(each, 1).weight_bytes for each in (made, without))
    assert with_path - alone == 4 * 400  # 395 features in whole cache lines


def test_a_path_that_is_not_ours_runs_with_torch():
    made = model(ns.LinearConfig(segments=3))
    made.linear.register_forward_hook(lambda *_: None)
    with pytest.raises(ValueError, match="its linear has a hook"):
        ns.StreamPool(made, backend="numba")
    extras.warn_if_slower.cache_clear()
    with pytest.warns(UserWarning, match="a pool uses backend='torch', .* its linear has a hook"):
        assert ns.StreamPool(made).backend == "torch"

"""A stream can be rebuilt from its last `replay_length` tokens and its position, for every variant and stack."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nystream as ns
from nystream import variants


def build(variant, n, m, r=1, layers=1, stack="paper", dtype=torch.float64, **options):
    torch.manual_seed(0)
    cfg = ns.AttentionConfig(variant, embed_dim=8, num_heads=2, window=n, landmarks=m, update_size=r)
    config = ns.ModelConfig(
        input_dim=5, output_dim=3, attention=cfg, layers=layers, stack=stack, ff_dim=8, num_positions=5, **options
    )
    model = ns.StreamModel(config, dtype=dtype).eval().requires_grad_(False)
    for block in model.encoder.blocks:
        if block.attention.config.fixed:
            block.attention.set_landmarks(*torch.randn(2, 2, m, 4, dtype=dtype))
    return model


def stacks(variant):
    """Numbers of blocks and kinds of stacks that a variant can have."""
    record = variants.get(variant)
    return [(1, "paper"), *([(2, "paper")] if record.roles else []), *([(3, "deep")] if record.single else [])]


CASES = [(variant, *stack) for variant in ns.VARIANTS for stack in stacks(variant)]


@pytest.mark.parametrize(("variant", "layers", "stack"), CASES)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(groups=st.integers(1, 9), m=st.integers(1, 5), r=st.integers(1, 2), more=st.integers(0, 30))
def test_replay_equals_the_whole_stream(variant, layers, stack, groups, m, r, more):
    n = groups * r
    model = build(variant, n, min(m, n), r, layers, stack)
    length = model.replay_length
    position = length + more * r
    x = torch.randn(1, position + 3 * r, 5, dtype=torch.float64)
    whole, _ = model.steps(x, model.init_state(1))
    state = model.advance(x[:, position - length : position], model.init_state(1, time=position - length))
    rest, _ = model.steps(x[:, position:], state)
    torch.testing.assert_close(rest, whole[:, position:], rtol=0, atol=1e-10)


@pytest.mark.parametrize("backend", ["numba", "torch"])
@pytest.mark.parametrize("position", [0, 3, 12, 13, 50])
def test_pools_continue_from_tokens(backend, position):
    model = build("co-cont-single", 7, 3, layers=2, stack="deep", dtype=torch.float32)
    pool = ns.StreamPool(model, 2, backend)
    x = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
    usual = pool.open()
    for token in x[:position]:
        pool.push(usual, token)
    rebuilt = pool.restore_from_tokens(x[max(0, position - model.replay_length) : position], position)
    assert pool.time(rebuilt) == position
    for token in x[position : position + 10]:
        np.testing.assert_allclose(pool.push(rebuilt, token), pool.push(usual, token), atol=1e-5)


def test_autocast_does_not_matter():
    model = build("co-fixed-single", 7, 3, layers=2, stack="deep", dtype=torch.float32)
    x = np.random.default_rng(0).normal(size=(30, 5)).astype(np.float32)
    pool = ns.StreamPool(model, 2, "torch")
    usual = pool.restore_from_tokens(x, 30)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        other = pool.restore_from_tokens(x, 30)
    assert pool.snapshot(other) == pool.snapshot(usual)


def test_a_linear_path_is_part_of_it():
    model = build("co-fixed-single", 6, 2, linear=ns.LinearConfig(segments=(1, 2, 3)), stack="deep")
    x = torch.randn(1, 40, 5, dtype=torch.float64)
    start = 30 - model.replay_length
    state = model.advance(x[:, start:30], model.init_state(1, time=start))
    whole, _ = model.steps(x, model.init_state(1))
    torch.testing.assert_close(model.steps(x[:, 30:], state)[0], whole[:, 30:], rtol=0, atol=1e-10)


def test_bad_arguments():
    model = build("co-full-single", 6, 2, r=2, dtype=torch.float32)
    pool = ns.StreamPool(model)
    with pytest.raises(ValueError, match=r"time=3 must be .* a multiple of update_size=2"):
        model.init_state(1, time=3)
    with pytest.raises(ValueError, match="time=-2 must be between 0"):
        model.init_state(1, time=-2)
    with pytest.raises(TypeError, match=r"time=2\.0 must be an int, got float"):
        model.init_state(1, time=2.0)
    with pytest.raises(ValueError, match=r"tokens is \[4\], but must be \[T, 5\]"):
        pool.restore_from_tokens(np.zeros(4), 10)
    with pytest.raises(ValueError, match="tokens has 4 rows, but a stream at position=10 needs at least its last 6"):
        pool.restore_from_tokens(np.zeros((4, 5)), 10)
    with pytest.raises(ValueError, match="has no more than 4"):
        pool.restore_from_tokens(np.zeros((6, 5)), 4)
    with pytest.raises(ValueError, match="not finite"):
        pool.restore_from_tokens(np.full((6, 5), np.nan), 10)
    drifting = ns.AttentionConfig("co-fixed-single", 8, 2, 6, 2, sums="subtract")
    attn = ns.MultiheadAttention(drifting)
    attn.set_landmarks(*torch.randn(2, 2, 2, 4))
    with pytest.raises(ValueError, match="keeps traces of all tokens"):
        ns.StreamPool(attn, backend="torch").restore_from_tokens(np.zeros((6, 8)), 10)
    assert len(pool) == 0

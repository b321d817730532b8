"""A model, compared with a plain float64 implementation of its definition at every time of a stream."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import nystream as ns
from nystream import testing, variants

TOLERANCE = testing.TOLERANCE[torch.float64]
SINGLE = tuple(v for v in ns.VARIANTS if variants.get(v).single)
PLAIN = ("full", "nystrom", "nystrom-fixed")


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def close(actual, expected, tolerance=TOLERANCE):
    assert testing.relative_error(actual, expected) <= tolerance


def loop(model, x, state, **options):
    """`step` over x [B, T, input_dim]: all outputs, and the last state."""
    r, outs = model.config.update_size, []
    for t in range(0, x.shape[1], r):
        y, state = model.step(x[:, t : t + r], state, **options)
        outs.append(y)
    return torch.cat(outs, 1), state


def linear(layer, x):
    return x @ layer.weight.T + layer.bias


def normal(layer, x, eps):
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt() * layer.weight + layer.bias


def gelu(x):
    return x * (1 + torch.erf(x / math.sqrt(2))) / 2


def one_block(block, cfg, x, t):
    """The rows that a block returns at time t of the stream x, without those of places that have no token."""
    pre, eps = cfg.norm == "pre", cfg.norm_eps
    rows = testing.reference_outputs(block.attention, normal(block.norm1, x, eps) if pre else x, times=[t])
    if not block.attention.config.single:
        rows = rows[:, 0, max(block.attention.config.window - t, 0) :]
    h = x[:, t - rows.shape[1] : t] + rows
    if not pre:
        h = normal(block.norm1, h, eps)
    fed = linear(block.linear2, gelu(linear(block.linear1, normal(block.norm2, h, eps) if pre else h)))
    return h + fed if pre else normal(block.norm2, h + fed, eps)


def oracle(model, x, offset=0, times=None):
    """The definition of the model: outputs of the newest rows [B, T, output_dim] of the stream x, or at `times`."""
    cfg, r = model.config, model.config.update_size
    places = (offset + torch.arange(x.shape[1])) % cfg.num_positions
    e = linear(model.input_proj, (x - model.input_scaler.mean) / model.input_scaler.scale)
    if cfg.positions != "none":
        e = e + model.positions.table[places]
    groups = range(r, x.shape[1] + 1, r)
    if cfg.stack == "deep":
        for block in model.encoder.blocks:
            e = torch.cat([one_block(block, cfg, e, t) for t in groups], 1)
        rows = [e[:, t - r : t] for t in (times or groups)]
    else:
        rows = []
        for t in times or groups:
            window = one_block(model.encoder.blocks[0], cfg, e, t)
            for block in model.encoder.blocks[1:]:
                window = one_block(block, cfg, window, window.shape[1])
            rows.append(window[:, -r:])
    y = linear(model.head, normal(model.encoder.norm, torch.cat(rows, 1), cfg.norm_eps))
    return y * model.output_scaler.scale + model.output_scaler.mean


@st.composite
def configs(draw):
    """A model of one to three blocks of any families, and the number of tokens to test it with."""
    r, heads, stack = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.sampled_from(("paper", "deep")))
    groups, width = draw(st.integers(1, 5)), heads * draw(st.integers(1, 3))
    blocks = []
    for _ in range(draw(st.integers(1, 3))):
        window = r * (draw(st.integers(1, 5)) if stack == "deep" else groups)
        blocks.append(
            ns.AttentionConfig(
                draw(st.sampled_from(SINGLE if stack == "deep" else ns.VARIANTS)),
                embed_dim=width,
                num_heads=heads,
                window=window,
                landmarks=draw(st.integers(1, window)),
                update_size=r,
                pinv=draw(st.sampled_from(("newton", "ridge"))),
            )
        )
    options = {
        "norm": draw(st.sampled_from(("pre", "post"))),
        "positions": draw(st.sampled_from(("learned", "sinusoidal", "none"))),
        "num_positions": draw(st.none() | st.integers(1, 3 * r * groups)),
        "ff_dim": draw(st.integers(1, 9)),
        "stack": stack,
    }
    return blocks, options, r * draw(st.integers(1, 3 * groups + 2))


@settings(max_examples=50)
@given(case=configs(), cut=st.floats(0, 1))
def test_every_face_is_the_oracle_at_every_time(build, case, cut):
    blocks, options, length = case
    torch.manual_seed(length)
    model = build(blocks, **options).requires_grad_(False)
    model.input_scaler.set(randn(5), randn(5).exp())
    model.output_scaler.set(randn(3), randn(3).exp())
    x, r = randn(2, length, 5), model.config.update_size
    want = oracle(model, x)
    close(loop(model, x, model.init_state(2))[0], want)
    close(model.steps(x, model.init_state(2))[0], want)
    first = round(cut * (length // r)) * r
    if 0 < first < length:  # a loop that goes on after a piece, and a piece after a loop
        _, state = model.steps(x[:, :first], model.init_state(2))
        close(loop(model, x[:, first:], state)[0], want[:, first:])
        _, state = loop(model, x[:, :first], model.init_state(2))
        close(model.steps(x[:, first:], state)[0], want[:, first:])
    for t in {r, first, min(length, model.config.window)} - {0}:
        if t <= model.config.window or model.config.stack == "deep":
            y = model(x[:, :t])
            close(y[:, None] if r == 1 else y, want[:, t - r : t])


@given(case=configs(), offset=st.integers(-9, 30))
def test_forward_is_the_oracle_at_every_offset(build, case, offset):
    blocks, options, _ = case
    torch.manual_seed(offset + 10)
    model = build(blocks, **options).requires_grad_(False)
    n, r = model.config.window, model.config.update_size
    for length in {n, r * (n // r // 2 + 1)} if model.config.stack == "paper" else {n, 2 * n + r}:
        x = randn(2, length, 5)
        want = oracle(model, x, offset, times=[length])
        y = model(x, offset)
        close(y[:, None] if r == 1 else y, want)


def aligned(cfg, t):
    """Whether a step equals the window's forward at t: always, but for landmarks of the first block that lag."""
    first = cfg.blocks[0]
    if first.record.landmarks != "stream":
        return True
    return t % (first.window // first.m if first.window % first.m == 0 else first.window) == 0


@pytest.mark.parametrize("num_positions", [None, 4, 17], ids=["as many as tokens", "fewer", "more"])
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("variant", ns.VARIANTS)
def test_a_stream_gives_what_the_window_gives(build, variant, layers, num_positions):
    model = build(variant, layers, num_positions=num_positions).requires_grad_(False)
    n, positions, x = 6, num_positions or 6, randn(2, 30, 5)
    y, _ = model.steps(x, model.init_state(2))
    met = set()
    for t in range(n, 31):
        window = model(x[:, t - n : t], offset=(t - n) % positions)
        if aligned(model.config, t):
            close(y[:, t - 1], window)
            met.add((t - n) % positions)
        else:
            assert testing.relative_error(y[:, t - 1], window) > 1e-6  # the landmarks do lag here
    assert len(met) > 1 or model.config.blocks[0].record.landmarks == "stream"


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("landmarks", [4, 5])
def test_continual_landmarks_of_two_sizes_are_aligned_once_a_round(build, landmarks, layers):
    model, x = build("co-cont-single", layers, landmarks=landmarks).requires_grad_(False), randn(2, 25, 5)
    y, _ = model.steps(x, model.init_state(2))
    for t in range(6, 26):
        error = testing.relative_error(y[:, t - 1], model(x[:, t - 6 : t], offset=t))
        assert error <= TOLERANCE if t % 6 == 0 else error > 1e-6


@pytest.mark.parametrize("second", ["co-cont-single", "nystrom", "full"])
def test_only_landmarks_of_the_first_block_lag(build, second):
    sizes = {"embed_dim": 8, "num_heads": 2, "window": 6, "landmarks": 3}
    model = build([ns.AttentionConfig(v, **sizes) for v in ("co-fixed-single", second)]).requires_grad_(False)
    x = randn(2, 20, 5)
    y, _ = model.steps(x, model.init_state(2))
    for t in range(6, 21):
        close(y[:, t - 1], model(x[:, t - 6 : t], offset=t - 6))


@pytest.mark.parametrize("variant", ["co-fixed-single", "full"])
@pytest.mark.parametrize("layers", [1, 2])
def test_groups_stream_as_their_window(build, variant, layers):
    model, x = build(variant, layers, update_size=3, num_positions=5).requires_grad_(False), randn(2, 30, 5)
    y, _ = model.steps(x, model.init_state(2))
    for t in range(6, 31, 3):
        window = model(x[:, t - 6 : t], offset=t - 6)
        assert window.shape == (2, 3, 3)
        close(y[:, t - 3 : t], window)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_an_offset_is_a_number_or_one_for_each_row(build, positions):
    model, x = build("full", positions=positions, num_positions=4), randn(3, 6, 5)
    each = model(x, offset=torch.tensor([0, 3, -6]))
    for row, offset in enumerate((0, 3, -6)):
        close(each[row : row + 1], model(x[row : row + 1], offset))
    same = model(x, 3)
    for offset in (torch.tensor(3), torch.tensor([3, 7, -1]), torch.tensor([3, 3, 3], dtype=torch.int32), -5, 4003):
        assert torch.equal(model(x, offset), same)
    assert not torch.allclose(same, model(x, 2))


def test_without_positions_no_rotation_is_special(build):
    model, x = build("full", positions="none"), randn(2, 6, 5)
    assert torch.equal(model(x, offset=0), model(x, offset=torch.tensor([1, 2])))
    assert not [name for name, _ in model.named_parameters() if "positions" in name]


@pytest.mark.parametrize("variant", ns.VARIANTS)
@pytest.mark.parametrize("layers", [1, 2])
def test_windows_that_are_not_full(build, variant, layers):
    model, x = build(variant, layers, num_positions=5), randn(4, 6, 5)
    x[1, :4], x[2, :5], x[3] = torch.nan, torch.inf, torch.nan
    lengths = torch.tensor([6, 2, 1, 0])
    y = model(x, offset=torch.tensor([0, 1, 2, 3]), lengths=lengths)
    for row in range(3):
        first = 6 - int(lengths[row])
        close(y[row], model(x[row : row + 1, first:], offset=row + first)[0])
    assert not bool(y[3].any())
    y.sum().backward()
    assert all(p.grad is None or bool(p.grad.isfinite().all()) for p in model.parameters())


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("variant", SINGLE)
@pytest.mark.parametrize("update_size", [1, 2])
def test_deep_forward_is_the_last_of_steps(build, variant, layers, update_size):
    model = build(variant, layers, stack="deep", update_size=update_size).requires_grad_(False)
    x = randn(2, 26, 5)
    for length in (2, 4, 6, 8, 26):
        y, _ = model.steps(x[:, :length], model.init_state(2))
        close(model(x[:, :length]), y[:, -1] if update_size == 1 else y[:, -2:])


def fields(model, tokens, value):
    """The receptive field, measured by changing one token of a long stream, at every phase."""
    r, x = model.config.update_size, randn(1, tokens, 5)
    start = r * (2 * model.receptive_field // r)  # every window is full
    rows = x.repeat(model.config.window * 2, 1, 1)
    places = start + torch.arange(rows.shape[0])
    rows[torch.arange(rows.shape[0]), places] = value
    want, _ = model.steps(x, model.init_state(1))
    y, _ = model.steps(rows, model.init_state(rows.shape[0]))
    touched = ~torch.isclose(y, want, rtol=1e-12, atol=1e-14).all(-1)  # [rows, tokens]
    assert not bool(touched[:, :start].any())
    last = torch.where(touched, torch.arange(tokens), -1).amax(1)
    assert bool((last < tokens - 1).all())  # the stream is long enough to see the end of it
    return last - places + 1


@pytest.mark.parametrize("value", [3.0, torch.nan])
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize(("variant", "stack"), [*((v, "paper") for v in ns.VARIANTS), *((v, "deep") for v in SINGLE)])
def test_the_receptive_field_is_exact(build, variant, stack, layers, value):
    """A token that far back changes the output at some phase; one further back never does, not even as a NaN."""
    model = build(variant, layers, stack=stack, pinv="ridge").requires_grad_(False)  # segments of 2: a lag of 1
    field = model.receptive_field
    assert int(fields(model, 4 * field + 24, value).max()) == field


@pytest.mark.parametrize("stack", ["paper", "deep"])
@pytest.mark.parametrize(("window", "landmarks", "update_size"), [(6, 2, 1), (7, 2, 1), (6, 2, 2), (6, 4, 3)])
@pytest.mark.parametrize("variant", SINGLE)
def test_nothing_beyond_the_receptive_field_is_seen(build, variant, stack, window, landmarks, update_size):
    sizes = {"window": window, "landmarks": landmarks, "update_size": update_size}
    model = build(variant, 2, stack=stack, **sizes).requires_grad_(False)
    field = model.receptive_field
    tokens = (4 * field + 6 * window) // update_size * update_size
    seen = int(fields(model, tokens, torch.nan).max())
    assert seen <= field
    if update_size == 1 and (stack == "paper" or variant != "co-cont-single"):
        assert seen == field

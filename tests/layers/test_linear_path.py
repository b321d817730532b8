"""The linear path against a plain loop in float64, alone and in a model."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nystream as ns
from nystream import state as states
from nystream.layers.linear_path import LinearPath, ModelState
from nystream.ops.trailing import trailing_sums

INPUTS, OUTPUTS = 3, 2

segments = st.lists(st.integers(1, 5), max_size=4).map(lambda rest: (1, *rest))


def model(linear, variant="co-full-single", stack="deep", dtype=torch.float64, **options):
    options = {"window": 4, "landmarks": 2, "layers": 1} | options
    own = {name: options.pop(name) for name in ("window", "landmarks", "update_size") if name in options}
    attention = ns.AttentionConfig(variant, embed_dim=4, num_heads=2, **own)
    config = ns.ModelConfig(
        input_dim=INPUTS, output_dim=OUTPUTS, attention=attention, ff_dim=6, stack=stack, linear=linear, **options
    )
    made = ns.StreamModel(config, dtype=dtype).eval()
    for block in made.encoder.blocks:
        if block.attention.config.fixed:
            block.attention.set_landmarks(*torch.randn(2, 2, block.attention.config.m, 2))
    with torch.no_grad():
        made.linear.weight.normal_()
        made.input_scaler.set(torch.tensor([1.0, -2.0, 0.5]), torch.tensor([2.0, 0.5, 1.0]))
        made.output_scaler.set(torch.tensor([3.0, -1.0]), torch.tensor([0.5, 4.0]))
    return made


def only_path(made):
    """The model with the Transformer's contribution at zero."""
    with torch.no_grad():
        made.head.weight.zero_()
        made.head.bias.zero_()
    return made


def plain(linear, tokens):
    """Features at the last of the tokens of one stream, each a list of scaled numbers."""
    inputs = INPUTS if linear.inputs is None else linear.inputs
    features, age = list(tokens[-1]), 1
    for length in linear.lengths[1:]:
        members = [tokens[-1 - a][:inputs] for a in range(age, age + length) if a < len(tokens)]
        features += [sum(column) / len(members) for column in zip(*members, strict=True)] if members else [0.0] * inputs
        age += length
    return features


def scaled(made, x):
    return [[made.input_scaler(token).tolist() for token in row] for row in x]


def expected(made, x):
    """Features [B, T, F] of new streams."""
    rows = scaled(made, x)
    return torch.tensor(
        [[plain(made.config.linear, row[: t + 1]) for t in range(len(row))] for row in rows], dtype=torch.float64
    )


def close(actual, wanted):
    torch.testing.assert_close(actual, wanted, rtol=1e-10, atol=1e-12)


@given(segments, st.integers(1, INPUTS), st.integers(1, 20))
def test_features_are_those_of_a_plain_loop(segments, inputs, length):
    made, x = model(ns.LinearConfig(segments=segments, inputs=inputs)), torch.randn(2, length, INPUTS).double()
    close(made.linear_features(x), expected(made, x))


@given(segments, st.integers(1, INPUTS), st.lists(st.integers(1, 7), min_size=1, max_size=4), st.booleans())
def test_pieces_and_steps_agree(segments, inputs, cuts, in_place):
    made = only_path(model(ns.LinearConfig(segments=segments, inputs=inputs))).requires_grad_(False)
    x = torch.randn(2, sum(cuts) + 3, INPUTS).double()
    wanted = made.output_scaler.restore(expected(made, x) @ made.linear.weight.mT)
    state, outs, features = made.init_state(2), [], []
    for piece in x[:, : sum(cuts)].split(cuts, 1):
        features.append(made.linear_features(piece, state))
        close(made.outputs(piece, state), made.steps(piece, state)[0])
        advanced = made.advance(piece, state)
        y, state = made.steps(piece, state)
        for (_, leaf), (_, other) in zip(states.named_leaves(advanced), states.named_leaves(state), strict=True):
            assert torch.equal(leaf, other)
        outs.append(y)
    for t in range(sum(cuts), x.shape[1]):
        y, state = made.step(x[:, t], state, inplace=in_place)
        outs.append(y[:, None])
    close(torch.cat(outs, 1), wanted)
    close(torch.cat(features, 1), expected(made, x)[:, : sum(cuts)])


@given(
    segments,
    st.lists(st.integers(0, 9), min_size=3, max_size=3),
    st.lists(st.lists(st.booleans(), min_size=9, max_size=9), min_size=3, max_size=3),
    st.integers(0, 8),
)
def test_lengths_and_resets_are_separate_streams(segments, lengths, reset, before):
    made = only_path(model(ns.LinearConfig(segments=segments))).requires_grad_(False)
    x, past = torch.randn(3, 9, INPUTS).double(), torch.randn(3, max(before, 1), INPUTS).double()
    state = made.advance(past, made.init_state(3)) if before else made.init_state(3)
    y, after = made.steps(x, state, lengths=torch.tensor(lengths), reset=torch.tensor(reset))
    for row in range(3):
        stream = scaled(made, past[row : row + 1])[0] if before else []
        for t, token in enumerate(scaled(made, x[row : row + 1, : lengths[row]])[0]):
            stream = [token] if reset[row][t] else [*stream, token]
            out = torch.tensor(plain(made.config.linear, stream), dtype=torch.float64) @ made.linear.weight.mT
            close(y[row, t], made.output_scaler.restore(out))
        assert not y[row, lengths[row] :].any()
        wanted = made.init_state(1)
        if stream:
            units = torch.tensor(stream, dtype=torch.float64) * made.input_scaler.scale + made.input_scaler.mean
            wanted = made.advance(units[None], wanted)
        token = torch.randn(1, INPUTS).double()
        close(made.step(token, states.select(after, row))[0], made.step(token, wanted)[0])


@pytest.mark.parametrize("embedded", [False, True])
@pytest.mark.parametrize(
    ("variant", "layers", "stack", "segments"),
    [
        ("co-full-single", 1, "paper", (1, 1, 2)),
        ("co-fixed-single", 2, "paper", (1, 3)),
        ("co-cont-single", 2, "paper", (1, 1, 2)),
        ("full", 2, "paper", 4),
        ("nystrom", 1, "paper", (1, 2)),
        ("co-full-single", 1, "deep", (1, 3, 5)),
        ("co-fixed-single", 2, "deep", (1, 3, 5)),
    ],
)
def test_forward_is_the_last_step(variant, layers, stack, segments, embedded):
    segments = 1 if embedded and stack == "paper" else segments
    made = model(ns.LinearConfig(segments=segments, embedded=embedded), variant, stack, layers=layers)
    x = torch.randn(2, 12, INPUTS).double()
    y, _ = made.steps(x, made.init_state(2))
    for t in (1, 3, 4, 12):
        if stack == "paper" and t > 4:
            close(made(x[:, t - 4 : t], offset=t - 4), y[:, t - 1])  # in the middle of a stream, at an aligned phase
        else:
            close(made(x[:, :t]), y[:, t - 1])
    if layers == 1 or stack == "paper":
        lengths = torch.tensor([2, 4])
        rows = torch.stack([torch.cat([torch.full((2, INPUTS), torch.nan), x[0, :2]]), x[1, :4]])
        close(made(rows, torch.tensor([2, 0]), lengths=lengths), torch.stack([y[0, 1], y[1, 3]]))


def test_a_model_starts_as_a_linear_regression():
    made = model(ns.LinearConfig(segments=3, inputs=1))
    features, target = torch.randn(500, 5).double(), torch.randn(500, OUTPUTS).double()
    x = torch.randn(1, 500, INPUTS).double()
    features = made.linear_features(x)[0]
    weight = torch.linalg.lstsq(features, target).solution.mT
    only_path(made)
    with torch.no_grad():
        made.linear.weight.copy_(weight)
        y, _ = made.steps(x, made.init_state(1))
    close(y[0], made.output_scaler.restore(features @ weight.mT))


def test_a_path_is_silent_until_it_is_fitted():
    config = ns.ModelConfig(
        input_dim=3, output_dim=2, attention=ns.AttentionConfig("co-full-single", 4, 2, 4), linear=ns.LinearConfig()
    )
    assert not ns.StreamModel(config).linear.weight.any()


@pytest.mark.parametrize("face", ["steps", "step"])
@pytest.mark.parametrize("spoil", [float("nan"), 1e30])
def test_a_token_leaves_no_trace(spoil, face):
    """Once a token has left its segment, its features are what they would have been without it, to the bit."""
    path = LinearPath(ns.LinearConfig(segments=(1, 1, 2, 5, 3)), 1, 1, dtype=torch.float32)
    x = torch.randn(1, 40, 1)
    spoiled = x.clone()
    spoiled[0, 10] = spoil
    before, time = torch.zeros(1, 11, 1), torch.arange(1, 41)[None]
    if face == "steps":
        clean, dirty = (path.piece(tokens, before, time) for tokens in (x, spoiled))
    else:
        padded = [torch.cat([before, tokens], 1) for tokens in (x, spoiled)]
        clean, dirty = (
            torch.stack([path.newest(p[:, 11 + t], p[:, t : t + 11].flip(1), time[:, t]) for t in range(40)], 1)
            for p in padded
        )
    ages = torch.arange(40) - 10
    first = torch.tensor([0, 1, 2, 4, 9])
    last = torch.tensor([0, 1, 3, 8, 11])
    inside = (ages[:, None] >= first) & (ages[:, None] <= last)
    assert torch.equal(torch.where(inside, 0.0, dirty[0]), torch.where(inside, 0.0, clean[0]))
    assert not torch.equal(dirty[0].nan_to_num(7.0)[inside], clean[0][inside])


@given(st.integers(1, 20), st.integers(1, 30), st.integers(0, 1000))
def test_trailing_sums(length, tokens, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(2, tokens, 2, dtype=torch.float64, generator=generator)
    time = torch.ones(2, tokens, dtype=torch.long)
    for t in range(1, tokens):
        time[:, t] = torch.where(torch.rand(2, generator=generator) < 0.1, 1, time[:, t - 1] + 1)
    sums = trailing_sums(x, time, length)
    for row in range(2):
        for t in range(tokens):
            close(sums[row, t], x[row, t + 1 - min(length, int(time[row, t])) : t + 1].sum(0))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_features_of_half_precision_are_sums_in_float32(dtype):
    made = model(ns.LinearConfig(segments=(1, 300)), dtype=dtype)
    made.input_scaler.set(torch.zeros(3), torch.ones(3))
    x = torch.randn(1, 400, INPUTS).to(dtype) + 10
    features = made.linear_features(x)
    assert features.dtype == torch.float32
    # Half precision would lose the mean of 300 tokens beside their sum of 3000; float32 keeps six digits of it.
    torch.testing.assert_close(features[0, -1, 3:].double(), x[0, -301:-1].double().mean(0), rtol=1e-6, atol=0)
    y, state = made.steps(x, made.init_state(1))
    assert y.dtype == dtype
    assert state.recent.dtype == dtype
    assert made.step(x[:, 0], state)[0].dtype == dtype


def test_autocast_leaves_the_path_alone():
    made = only_path(model(ns.LinearConfig(segments=(1, 3)), dtype=torch.float32)).requires_grad_(False)
    x = torch.randn(2, 9, INPUTS)
    expected, _ = made.steps(x, made.init_state(2))
    with torch.autocast("cpu", torch.bfloat16):
        y, _ = made.steps(x, made.init_state(2))
    assert torch.equal(y, expected)


def test_the_state_is_as_small_as_the_path_allows():
    one, several = model(ns.LinearConfig()), model(ns.LinearConfig(segments=(1, 4), inputs=2))
    assert type(one.init_state(2)) is type(one.encoder.init_state(2))
    state = several.init_state(2)
    assert isinstance(state, ModelState)
    assert state.recent.shape == (2, 4, 2)
    assert state.time.tolist() == [0, 0]
    assert [name for name, _ in states.named_leaves(state)][-1] == "recent"


def test_a_step_in_place_writes_one_slot():
    made = model(ns.LinearConfig(segments=6)).requires_grad_(False)
    state = made.advance(torch.randn(2, 7, INPUTS).double(), made.init_state(2))
    before, place = state.recent.clone(), state.recent.data_ptr()
    _, after = made.step(torch.randn(2, INPUTS).double(), state, inplace=True)
    assert after.recent.data_ptr() == place
    changed = (after.recent != before).any(-1)
    assert changed.tolist() == [[False, False, True, False, False]] * 2


def test_states_of_another_path_are_refused():
    made, other = model(ns.LinearConfig(segments=3)), model(ns.LinearConfig(segments=4))
    token, piece = torch.randn(1, INPUTS).double(), torch.randn(1, 2, INPUTS).double()
    with pytest.raises(ValueError, match=r"state.recent is torch.float64 \[1, 3, 3\], but must be .* \[1, 2, 3\]"):
        made.step(token, other.init_state(1))
    with pytest.raises(ValueError, match=r"state.recent is torch.float64 \[2, 2, 3\]"):
        made.steps(piece, made.init_state(2))
    with pytest.raises(TypeError, match="state is a CascadeState, but a model with a linear path over 3 tokens needs"):
        made.advance(piece, made.encoder.init_state(1))
    with pytest.raises(TypeError, match=r"state is a ModelState.* needs a CascadeState"):
        model(ns.LinearConfig()).step(token, made.init_state(1))
    with pytest.raises(ValueError, match=r"the blob belongs to another config: linear.segments is 4 there and 3 here"):
        states.unpack(states.pack(other.init_state(1), other), made)


def test_features_need_a_path():
    config = ns.ModelConfig(input_dim=3, output_dim=1, attention=ns.AttentionConfig("co-full-single", 4, 2, 4))
    with pytest.raises(ValueError, match="linear_features needs a model with a linear path"):
        ns.StreamModel(config).linear_features(torch.randn(1, 2, 3))


def test_gradients_reach_everything():
    made = model(ns.LinearConfig(segments=(1, 1, 3), inputs=2, embedded=True), layers=2)
    x = torch.randn(1, 6, INPUTS).double().requires_grad_()

    def outputs(x, weight, embed):
        names = {"linear.weight": weight, "linear_embed.weight": embed}
        state = made.init_state(1)
        return torch.func.functional_call(Steps(made), {f"model.{k}": v for k, v in names.items()}, (x, state))

    weights = [w.detach().clone().requires_grad_() for w in (made.linear.weight, made.linear_embed.weight)]
    assert torch.autograd.gradcheck(outputs, (x, *weights))


class Steps(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, state):
        return self.model.outputs(x, state)


def test_a_long_piece_of_many_lags_fits_in_memory():
    made = model(ns.LinearConfig(segments=336, inputs=1), dtype=torch.float32)
    x = torch.randn(1, 17_000, INPUTS)
    features = made.linear_features(x)
    assert features.shape == (1, 17_000, 338)
    lags = made.input_scaler(x)[0, :, 0]
    assert torch.equal(features[0, 400, 3:], lags[65:400].flip(0))

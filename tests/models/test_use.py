"""Using models: ragged and concatenated streams, training, units, memory, other precisions."""

import copy

import pytest
import torch

import nystream as ns
from nystream import state as states
from nystream import testing

TOLERANCE = testing.TOLERANCE[torch.float64]

# One of each kind of state: a single block, the paper's stack, a stack of plain blocks, a deep one.
KINDS = [
    ("co-fixed-single", 1, "paper"),
    ("co-cont-single", 2, "paper"),
    ("full", 2, "paper"),
    ("co-full-single", 2, "deep"),
]


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def close(actual, expected, tolerance=TOLERANCE):
    assert testing.relative_error(actual, expected) <= tolerance


def loop(model, x, state, **options):
    outs = []
    for t in range(x.shape[1]):
        y, state = model.step(x[:, t], state, **options)
        outs.append(y)
    return torch.stack(outs, 1), state


def same(a, b):
    pairs = zip(states.named_leaves(a), states.named_leaves(b), strict=True)
    return all(torch.equal(x, y) for (_, x), (_, y) in pairs)


@pytest.fixture(params=KINDS, ids=lambda kind: " ".join(map(str, kind)))
def kind(request):
    variant, layers, stack = request.param
    return {"attention": variant, "layers": layers, "stack": stack}


@pytest.fixture
def model(build, kind):
    return build(**kind, num_positions=4)  # not the window: a position that is off by n would show


def test_a_step_is_shaped_as_its_token(model, build):
    x = randn(2, 6, 5)
    assert model.step(x[:, 0], model.init_state(2))[0].shape == (2, 3)
    assert model.step(x[:, :1], model.init_state(2))[0].shape == (2, 1, 3)
    assert model.steps(x, model.init_state(2))[0].shape == (2, 6, 3)
    assert model(x).shape == (2, 3)
    pairs = build(update_size=2)
    assert pairs.step(x[:, :2], pairs.init_state(2))[0].shape == (2, 2, 3)
    assert pairs(x).shape == (2, 2, 3)


def test_what_is_beyond_the_lengths_of_a_piece_does_not_matter(model):
    x = randn(3, 9, 5)
    garbage = x.clone()
    garbage[1, 4:], garbage[2] = torch.nan, torch.inf
    lengths, state = torch.tensor([9, 4, 0]), model.init_state(3)
    y, after = model.steps(x, state, lengths=lengths)
    other, also = model.steps(garbage, state, lengths=lengths)
    assert torch.equal(y, other)
    assert same(after, also)
    assert not bool(y[1, 4:].any())
    assert not bool(y[2].any())
    assert after.time.tolist() == [9, 4, 0]
    other.sum().backward()
    assert all(p.grad is None or bool(p.grad.isfinite().all()) for p in model.parameters())


@torch.no_grad()
def test_streams_laid_end_to_end_begin_at_position_0(model):
    x, reset = randn(2, 20, 5), torch.zeros(2, 20, dtype=torch.bool)
    reset[0, 7] = reset[0, 8] = reset[1, 0] = True
    _, state = model.steps(randn(2, 3, 5), model.init_state(2))
    y, after = model.steps(x, state, reset=reset)
    close(y[:1, :7], model.steps(x[:1, :7], states.select(state, 0))[0])
    close(y[:1, 7:8], model.steps(x[:1, 7:8], model.init_state(1))[0])
    close(y[:1, 8:], model.steps(x[:1, 8:], model.init_state(1))[0])
    close(y[1:], model.steps(x[1:], model.init_state(1))[0])
    assert after.time.tolist() == [12, 20]
    close(loop(model, x, after)[0][1:], loop(model, x[1:], model.steps(x[1:], model.init_state(1))[1])[0])


@torch.no_grad()
def test_ragged_streams_may_open_inside_a_piece(model):
    """A reset after a row's last token has no effect."""
    x, reset = randn(3, 9, 5), torch.zeros(3, 9, dtype=torch.bool)
    reset[0, 4] = reset[1, 6] = reset[2, 0] = True
    _, state = model.steps(randn(3, 7, 5), model.init_state(3))
    y, after = model.steps(x, state, lengths=torch.tensor([9, 4, 0]), reset=reset)
    before, first = model.steps(x[:1, :4], states.select(state, 0))
    first_rows, first = model.steps(x[:1, 4:], model.init_state(1))
    second_rows, second = model.steps(x[1:2, :4], states.select(state, 1))
    close(y[:1], torch.cat([before, first_rows], 1))
    close(y[1:2, :4], second_rows)
    assert after.time.tolist() == [5, 11, 7]
    wanted = states.stack([first, second, states.select(state, 2)])
    close(loop(model, x, after)[0], loop(model, x, wanted)[0])


@torch.no_grad()
def test_reset_renews_some_rows(model):
    x = randn(3, 9, 5)
    _, state = model.steps(x, model.init_state(3))
    renewed = model.reset(state, [1])
    assert renewed.time.tolist() == [9, 0, 9]
    y, _ = model.steps(x, renewed)
    close(y[1:2], model.steps(x[1:2], model.init_state(1))[0])
    close(y[::2], model.steps(x, state)[0][::2])


@torch.no_grad()
def test_advance_gives_the_state_of_steps(model):
    x, reset = randn(3, 9, 5), torch.zeros(3, 9, dtype=torch.bool)
    reset[0, 4] = True
    options = {"lengths": torch.tensor([9, 4, 0]), "reset": reset}
    _, state = model.steps(x, model.init_state(3))
    for given in ({}, options):
        after = model.advance(x, state, **given)
        close(loop(model, x, after)[0], loop(model, x, model.steps(x, state, **given)[1])[0])


def test_in_place_steps_write_into_the_state_and_record_no_graph(model):
    x, state = randn(2, 15, 5), model.init_state(2)
    want, _ = loop(model, x, model.init_state(2))
    places = [leaf.data_ptr() for _, leaf in states.named_leaves(state)]
    for t in range(15):
        y, state = model.step(x[:, t], state, inplace=True)
        assert torch.equal(y, want[:, t])
        assert not y.requires_grad
    leaves = [leaf for _, leaf in states.named_leaves(state)]
    assert [leaf.data_ptr() for leaf in leaves] == places
    assert not any(leaf.requires_grad for leaf in leaves)
    assert torch.is_grad_enabled()


def test_states_hold_windows_and_no_more(model):
    """The size of the state does not change, whatever was streamed."""
    size = states.nbytes(model.init_state(1))
    _, state = model.steps(randn(1, 100, 5), model.init_state(1))
    assert states.nbytes(state) == size
    # Nor does a leaf keep the whole piece alive.
    assert sum(leaf.untyped_storage().nbytes() for _, leaf in states.named_leaves(state)) <= 2 * size


def test_a_nan_ends_with_the_receptive_field(model):
    x = randn(1, 60, 5)
    x[0, 20] = torch.nan
    y, _ = model.steps(x, model.init_state(1))
    assert bool(y[0, 20].isnan().all())
    assert bool(y[0, 20 + model.receptive_field :].isfinite().all())


def test_training_through_pure_steps(model):
    x = randn(2, 15, 5).requires_grad_()
    given = [x, *model.parameters()]
    ours, theirs = (
        torch.autograd.grad(y.square().sum(), given)
        for y in (loop(model, x, model.init_state(2))[0], model.steps(x, model.init_state(2))[0])
    )
    largest = max(float(g.abs().max()) for g in theirs)
    # A gradient sums over tokens and rows: a digit more than an output is lost.
    assert all(float((a - b).abs().max()) <= 10 * TOLERANCE * largest for a, b in zip(ours, theirs, strict=True))


def test_truncated_back_propagation(model):
    x, state = randn(2, 24, 5), model.init_state(2)
    want, _ = model.steps(x, state)
    for piece in x.split(6, 1):
        y, state = model.steps(piece, states.detach(state))
        y.sum().backward()
    close(y, want[:, -6:])


def test_dropout_drops_in_training_only(build, kind):
    model, plain = build(**kind, dropout=0.5), build(**kind)
    plain.load_state_dict(model.state_dict())
    x = randn(2, 6, 5)
    faces = {
        "forward": lambda m: m(x),
        "step": lambda m: m.step(x[:, 0], m.init_state(2))[0],
        "steps": lambda m: m.steps(x, m.init_state(2))[0],
    }
    for face in faces.values():
        assert torch.equal(face(model), face(plain))
    model.train()
    for face in faces.values():
        assert not torch.allclose(face(model), face(model))
    assert torch.equal(model.eval()(x), plain(x))


def test_dropout_of_attention_weights_is_for_windows_alone(build):
    attention = ns.AttentionConfig("full", embed_dim=8, num_heads=2, window=6, dropout=0.5)
    model, x = build(attention, layers=2).train(), randn(2, 6, 5)
    assert not torch.allclose(model(x), model(x))
    for call in (lambda: model.step(x[:, 0], model.init_state(2)), lambda: model.steps(x, model.init_state(2))):
        with pytest.raises(RuntimeError, match=r"dropout=0\.5 .* is not supported by step.*; call eval\(\)"):
            call()
    assert torch.equal(model.eval()(x), model(x))


def test_a_model_speaks_the_users_units(build, kind):
    model = build(**kind)
    plain, x = copy.deepcopy(model), 300 + 40 * randn(2, 12, 5)
    mean, scale, low, high = randn(5), randn(5).exp(), randn(3), randn(3).exp()
    model.input_scaler.set(mean, scale)
    model.output_scaler.set(low, high)
    scaled = (x - mean) / scale
    close(model(x[:, :6]), plain(scaled[:, :6]) * high + low)
    close(model.steps(x, model.init_state(2))[0], plain.steps(scaled, plain.init_state(2))[0] * high + low)
    close(loop(model, x, model.init_state(2))[0], loop(plain, scaled, plain.init_state(2))[0] * high + low)
    y, _ = model.steps(x, model.init_state(2), lengths=torch.tensor([12, 3]))
    assert not bool(y[1, 3:].any())  # no token, no number, whatever the units


def test_scalers_change_nothing_until_they_are_set(build):
    model, x = build(), randn(2, 6, 5)
    assert torch.equal(model.input_scaler(x), x)
    assert torch.equal(model.output_scaler.restore(model.output_scaler(x[..., :3])), x[..., :3])
    assert {"input_scaler.mean", "output_scaler.scale"} <= set(model.state_dict())
    assert not any("scaler" in name for name, _ in model.named_parameters())


@torch.no_grad()
@pytest.mark.parametrize("stack", ["paper", "deep"])
def test_tokens_are_what_the_attentions_see(build, stack):
    model, x, heard = build("co-fixed-single", 2, stack=stack), randn(2, 15, 5), ([], [])
    seen = [model.tokens(x, layer) for layer in (0, 1)]
    for block, into in zip(model.encoder.blocks, heard, strict=True):
        block.attention.k_proj.register_forward_pre_hook(lambda layer, given, into=into: into.append(given[0]))
    if stack == "deep":
        model.steps(x, model.init_state(2))
    for start in (0, 6, 12) if stack == "paper" else ():  # windows side by side, the last of which is not full
        model(x[:, start : start + 6], offset=start)
    for ours, theirs in zip(seen, heard, strict=True):
        some = [part[:, -min(6, 15 - 6 * i) :] if stack == "paper" else part for i, part in enumerate(theirs)]
        theirs = torch.cat([part.flatten(0, 1) for part in some])
        close(ours[ours[:, 0].argsort()], theirs[theirs[:, 0].argsort()])  # in any order


@torch.no_grad()
def test_inputs_need_not_be_contiguous(model):
    x = randn(5, 30, 2).permute(2, 1, 0)[:, ::2]
    close(model.steps(x, model.init_state(2))[0], model.steps(x.contiguous(), model.init_state(2))[0])
    close(loop(model, x, model.init_state(2))[0], loop(model, x.contiguous(), model.init_state(2))[0])
    close(model(x[:, :6]), model(x[:, :6].contiguous()))


@torch.no_grad()
def test_autocast(build, kind):
    model, x = build(**kind, dtype=torch.float32, pinv="ridge"), torch.randn(2, 12, 5)
    want, _ = model.steps(x, model.init_state(2))
    window = model(x[:, :6])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        tolerance = testing.TOLERANCE[torch.bfloat16]
        close(model.steps(x, model.init_state(2))[0], want, tolerance)
        out, state = loop(model, x, model.init_state(2))
        close(out, want, tolerance)
        close(model(x[:, :6]), window, tolerance)
    assert all(leaf.dtype in (torch.float32, torch.int64) for _, leaf in states.named_leaves(state))


@torch.no_grad()
def test_a_model_made_without_memory_can_be_filled(build, kind):
    for positions in ("learned", "sinusoidal"):
        model, x = build(**kind, positions=positions), randn(2, 6, 5)
        other = ns.StreamModel(model.config, device="meta", dtype=torch.float64).to_empty(device="cpu").eval()
        other.load_state_dict(model.state_dict())
        assert torch.equal(other(x), model(x))


@torch.no_grad()
def test_functional_call_with_other_weights(build, kind):
    model, other, x = build(**kind), build(**kind), randn(2, 6, 5)
    close(torch.func.functional_call(model, other.state_dict(), (x,)), other(x))


@torch.no_grad()
def test_a_copy_streams_on(model):
    x = randn(2, 12, 5)
    _, state = model.steps(x, model.init_state(2))
    twin = copy.deepcopy(model)
    assert torch.equal(twin.step(x[:, 0], state)[0], model.step(x[:, 0], state)[0])


@torch.no_grad()
def test_states_go_through_a_file(model, tmp_path):
    x, path = randn(2, 9, 5), tmp_path / "state.safetensors"
    for state in (loop(model, x, model.init_state(2))[1], model.steps(x, model.init_state(2))[1]):
        ns.save_state(path, state, model)
        assert same(ns.load_state(path, model), state)


def test_a_state_of_another_model_is_not_loaded(build, kind, tmp_path):
    model, path = build(**kind), tmp_path / "state.safetensors"
    ns.save_state(path, model.init_state(1), model)
    with pytest.raises(ValueError, match=r"belongs to another config: num_positions is 6 there and 7 here$"):
        ns.load_state(path, build(**kind, num_positions=7))


def test_the_fields_that_differ_are_named_where_every_block_has_its_own_config(build, tmp_path):
    sizes, path = {"embed_dim": 8, "num_heads": 2}, tmp_path / "state.safetensors"
    blocks = [ns.AttentionConfig("co-full-single", window=n, **sizes) for n in (4, 6)]
    model = build(blocks, stack="deep")
    ns.save_state(path, model.init_state(1), model)
    with pytest.raises(ValueError, match=r"belongs to another config: ff_dim is 12 there and 8 here$"):
        ns.load_state(path, build(blocks, stack="deep", ff_dim=8))

"""Edge cases of layers: unusual inputs, half precision, training through `steps`, unusual uses of states."""

import pytest
import torch
from torch._subclasses import FakeTensorMode

import nystream as ns
from nystream import state as states
from nystream import testing, variants

FIXED = tuple(v for v in ns.VARIANTS if variants.get(v).fixed)
FORMS = [(v, s) for v in ns.VARIANTS for s in variants.get(v).forms if s != "auto"] + [("co-full-retro", "auto")]
TOLERANCE = testing.TOLERANCE[torch.float64]


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def close(actual, expected, tolerance=TOLERANCE):
    assert testing.relative_error(actual, expected) <= tolerance


def loop(attn, x, state, **options):
    outs = []
    for t in range(x.shape[1]):
        y, state = attn.step(x[:, t], state, **options)
        outs.append(y)
    return torch.stack(outs, 1), state


@pytest.fixture(params=ns.VARIANTS)
def attn(request, build):
    return build(request.param)


def test_inputs_need_not_be_contiguous(attn):
    x = randn(8, 30, 2).permute(2, 1, 0)[:, ::2]
    with torch.no_grad():
        want, _ = attn.steps(x.contiguous(), attn.init_state(2))
        close(attn.steps(x, attn.init_state(2))[0], want)
        out, _ = loop(attn, x, attn.init_state(2))
        close(out if attn.config.single else out[:, -1], want)
        close(attn(x[:, :6]), attn(x[:, :6].contiguous()))


def test_a_pure_step_takes_a_state_that_shares_memory_between_rows(attn):
    one, x = attn.init_state(1), randn(3, 9, 8)
    shared = states.map_state(lambda leaf: leaf.expand(3, *leaf.shape[1:]), one)
    with torch.no_grad():
        for face in (lambda s: loop(attn, x, s)[0], lambda s: attn.steps(x, s)[0]):
            assert torch.equal(face(shared), face(attn.init_state(3)))


def test_a_row_is_the_same_alone_and_among_thousands(attn):
    x = randn(2000, 9, 8)
    with torch.no_grad():
        whole, state = attn.steps(x, attn.init_state(2000))
        alone, single = attn.steps(x[-1:], attn.init_state(1))
        close(whole[-1:], alone)
        close(attn.step(x[:, 0], state)[0][-1:], attn.step(x[-1:, 0], single)[0])


def test_an_in_place_step_consumes_its_state(attn):
    """The given state is overwritten and returned, so the old name refers to the new state."""
    x, state = randn(2, 9, 8), attn.init_state(2)
    with torch.no_grad():
        want, _ = loop(attn, x, attn.init_state(2))
        for t in range(9):
            y, new = attn.step(x[:, t], state, inplace=True)
            assert all(leaf is held for leaf, held in zip(new, state, strict=True))
            assert torch.equal(y, want[:, t])


@pytest.mark.parametrize("pinv", ["newton", "exact", "ridge", "none"])
@pytest.mark.parametrize("variant", [v for v in ns.VARIANTS if variants.get(v).landmarks == "stream"])
def test_in_place_steps_go_on_from_steps(build, variant, pinv):
    attn, x = build(variant, pinv=pinv), randn(2, 20, 8)
    with torch.no_grad():
        _, state = attn.steps(x[:, :8], attn.init_state(2))
        want, _ = loop(attn, x[:, 8:], state)
        out, _ = loop(attn, x[:, 8:], state, inplace=True)
    assert torch.equal(out, want)


@pytest.mark.parametrize(("variant", "sums"), FORMS)
def test_training_through_pure_steps(build, variant, sums):
    attn, x = build(variant, sums=sums), randn(2, 15, 8).requires_grad_()
    given = [x, *attn.parameters()]
    out, _ = loop(attn, x, attn.init_state(2))
    gradients = torch.autograd.grad(out.square().sum(), given)
    want = torch.autograd.grad(testing.reference_outputs(attn, x).square().sum(), given)
    largest = max(float(g.abs().max()) for g in want)
    assert all(float((a - b).abs().max()) <= 10 * TOLERANCE * largest for a, b in zip(gradients, want, strict=True))


@pytest.mark.parametrize(("variant", "sums"), FORMS)
def test_in_place_steps_record_no_graph(build, variant, sums):
    """Otherwise a stream whose user forgot no_grad would grow with every token."""
    attn, x = build(variant, sums=sums), randn(2, 9, 8)
    out, state = loop(attn, x, attn.init_state(2), inplace=True)
    assert not out.requires_grad
    assert not any(leaf.requires_grad for leaf in state)


@pytest.mark.parametrize("variant", [v for v in ns.VARIANTS if "partials" in variants.get(v).sums])
def test_training_after_a_first_use_in_inference_mode(build, variant):
    """Cached tensors must not depend on the mode of the first caller: evaluate first, then train."""
    with torch.inference_mode():
        attn = build(variant, window=13, landmarks=5, sums="partials")
        loop(attn, randn(2, 15, 8), attn.init_state(2))
    attn = build(variant, window=13, landmarks=5, sums="partials", fit=False)
    if attn.config.fixed:
        with torch.inference_mode():
            attn.set_landmarks(torch.randn(2, 5, 4), torch.randn(2, 5, 4))
    loop(attn, randn(2, 15, 8), attn.init_state(2))[0].sum().backward()
    assert all(bool(p.grad.isfinite().all()) for p in attn.parameters())


def test_tables_are_not_made_of_fake_tensors(build):
    with FakeTensorMode():
        build("co-cont-single", window=17, landmarks=6, sums="partials").init_state(1)
    with torch.device("meta"):
        build("co-cont-single", window=17, landmarks=6, sums="partials")
    attn = build("co-cont-single", window=17, landmarks=6, sums="partials")
    testing.check_stream_module(attn, gradients=False)


def test_landmarks_that_are_written_to_in_place_get_their_own_inverse(build):
    attn, other, x = build("co-fixed-single"), build("co-fixed-single"), randn(2, 6, 8)
    other.load_state_dict(attn.state_dict())
    q_tilde, k_tilde = randn(2, 2, 3, 4)
    attn.set_landmarks(q_tilde, k_tilde)
    other.q_tilde.copy_(q_tilde)
    other.k_tilde.copy_(k_tilde)
    assert torch.equal(attn(x), other(x))


def test_truncated_back_propagation(attn):
    """A detached state gives the same numbers, and the graph of earlier pieces can be freed."""
    x, state = randn(2, 24, 8), attn.init_state(2)
    want, _ = attn.steps(x, state)
    for piece in x.split(6, 1):
        out, state = attn.steps(piece, states.detach(state))
        out.sum().backward()
    close(out, want[:, -6:])


def test_a_stream_that_opens_with_the_first_token_forgets_the_state(attn):
    x, reset = randn(2, 9, 8), torch.zeros(2, 9, dtype=torch.bool)
    reset[0, 0] = True
    with torch.no_grad():
        _, state = attn.steps(randn(2, 7, 8), attn.init_state(2))
        out, after = attn.steps(x, state, reset=reset)
        close(out[:1], attn.steps(x[:1], attn.init_state(1))[0])
        close(out[1:], attn.steps(x[1:], states.select(state, 1))[0])
    assert after.time.tolist() == [9, 16]


def test_tokens_beyond_the_lengths_of_a_piece_do_not_matter(attn):
    x = randn(2, 9, 8)
    garbage = x.clone()
    garbage[1, 4:] = torch.nan
    lengths, state = torch.tensor([9, 4]), attn.init_state(2)
    with torch.no_grad():
        (out, after), (other, also) = (attn.steps(y, state, lengths=lengths) for y in (x, garbage))
        assert torch.equal(out, other)
        assert torch.equal(loop(attn, x, after)[0], loop(attn, x, also)[0])


def test_void_places_of_a_window_do_not_matter(attn):
    x = randn(2, 6, 8)
    garbage = x.clone()
    garbage[1, :4] = torch.nan
    lengths = torch.tensor([6, 2])
    assert torch.equal(attn(x, lengths=lengths), attn(garbage, lengths=lengths))


def test_a_window_without_tokens_gives_zeros(attn):
    lengths = torch.tensor([6, 0])
    assert not bool(attn(randn(2, 6, 8), lengths=lengths)[1].any())


@pytest.mark.parametrize("variant", ns.VARIANTS)
def test_a_window_without_tokens_does_not_spoil_gradients(build, variant):
    attn, x = build(variant), randn(2, 6, 8)
    attn(x, lengths=torch.tensor([6, 0]))[0].sum().backward()
    assert all(bool(p.grad.isfinite().all()) for p in attn.parameters())


@pytest.mark.parametrize("variant", ns.VARIANTS)
def test_autocast_keeps_accumulators_in_float32(build, variant):
    attn, x = build(variant, dtype=torch.float32), torch.randn(2, 15, 8)
    want = testing.reference_outputs(attn, x)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        state = attn.init_state(2)
        out, after = loop(attn, x, state)
        last, _ = attn.steps(x, state)
        close(attn(x[:, :6]), want[:, 5:6] if attn.config.single else want[:, 5], 0.1)
    close(out, want, 0.1)
    close(last, want if attn.config.single else want[:, -1], 0.1)
    assert all(leaf.dtype in (torch.float32, torch.int64) for leaf in after)


@pytest.mark.parametrize("variant", ns.VARIANTS)
def test_functional_call_with_other_weights(build, variant):
    attn, other, x = build(variant), build(variant), randn(2, 6, 8)
    close(torch.func.functional_call(attn, other.state_dict(), x), other(x))


@pytest.mark.parametrize("variant", ns.VARIANTS)
@pytest.mark.parametrize(("window", "landmarks", "r"), [(2, 2, 2), (3, 3, 1), (7, 1, 7)])
def test_odd_sizes(build, variant, window, landmarks, r):
    attn = build(variant, window, landmarks, embed_dim=3, num_heads=3, update_size=r)
    testing.check_stream_module(attn, gradients=False)

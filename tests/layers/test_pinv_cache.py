"""Γ† is always that of the current landmarks, however they were changed."""

import copy
import io
import pickle

import pytest
import torch
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import nystream as ns
from nystream.layers import fixed_landmarks, pinv_cache
from nystream.ops import precision
from nystream.testing import reference_outputs, relative_error

CONFIG = ns.AttentionConfig("co-fixed-single", embed_dim=16, num_heads=2, window=12, landmarks=4)
TOKENS = torch.randn(2, 30, 16, generator=torch.Generator().manual_seed(1))


def landmarks(seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, 2, 4, 8, generator=generator)


def attention(learn=False, **options):
    torch.manual_seed(0)
    attn = ns.MultiheadAttention(CONFIG, **options).eval()
    attn.set_landmarks(*landmarks(0).to(attn.q_tilde))
    if learn:
        attn.learn_landmarks()
    with torch.no_grad():
        attn(TOKENS[:, :12].to(attn.q_tilde))  # fills the cache
    return attn


def error(attn, forward=None):
    """Of `steps`, or of another function of the first window, against the reference."""
    with torch.no_grad():
        if forward is not None:
            return relative_error(forward(TOKENS[:, :12])[:, -1], reference_outputs(attn, TOKENS, times=[12])[:, -1])
        return relative_error(attn.steps(TOKENS, attn.init_state(2))[0], reference_outputs(attn, TOKENS))


def write_in_place(attn):
    with torch.no_grad():
        attn.q_tilde.copy_(landmarks(1)[0])


def write_through_data(attn):
    attn.q_tilde.data.lerp_(landmarks(1)[0], 0.9)


def write_in_inference_mode(attn):
    with torch.inference_mode():
        attn.q_tilde.copy_(landmarks(1)[0])


def write_as_one_vector(attn):
    attn.learn_landmarks()
    with torch.no_grad():
        vector_to_parameters(parameters_to_vector(attn.parameters()) * 1.5, attn.parameters())


def assign(attn):
    value = landmarks(1)[0]
    attn.q_tilde = torch.nn.Parameter(value) if isinstance(attn.q_tilde, torch.nn.Parameter) else value


def train(attn):
    attn.learn_landmarks()
    optimizer = torch.optim.SGD(attn.parameters(), lr=0.05)
    for _ in range(3):
        optimizer.zero_grad()
        attn(TOKENS[:, :12]).square().sum().backward()
        optimizer.step()


def average(attn):
    """As `AveragedModel(use_buffers=True)` does: every tensor of the module moves, also those that are not saved."""
    with torch.no_grad():
        for x in (*attn.parameters(), *attn.buffers()):
            x.lerp_(torch.ones_like(x), 0.2)


def save_and_load(attn):
    buffer = io.BytesIO()
    torch.save(attn, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)


WRITES = (write_in_place, write_through_data, write_in_inference_mode, write_as_one_vector, assign, train, average)
COPIES = {"itself": lambda x: x, "deepcopy": copy.deepcopy, "pickle": lambda x: pickle.loads(pickle.dumps(x))}


@pytest.mark.parametrize("learn", [False, True], ids=["buffers", "parameters"])
@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__)
def test_no_write_and_no_copy_leaves_a_stale_inverse(write, how, learn):
    attn = attention(learn)
    before = attn.q_tilde.detach().clone()
    write(attn)
    assert not torch.equal(attn.q_tilde, before)
    attn = COPIES[how](attn)
    assert error(attn) < 1e-6  # float32
    write_through_data(attn)
    assert error(attn) < 1e-6


def test_a_pickle_of_an_earlier_version_that_has_the_cache_under_its_former_name():
    attn = attention()
    names = {b"nystream.layers.pinv_cache\nPinvCache\n": b"nystream.layers.kept\nKept\n", b"_pinv_cache\n": b"_kept\n"}
    text = pickle.dumps(attn, protocol=0)
    for name, former in names.items():
        assert name in text
        text = text.replace(name, former)
    again = pickle.loads(text)
    assert torch.equal(again.gamma_pinv, attn.gamma_pinv)
    write_through_data(again)
    assert error(again) < 1e-6


def test_the_best_model_so_far_is_kept_while_training_goes_on():
    attn = attention(learn=True)
    train(attn)
    best = copy.deepcopy(attn)
    with torch.no_grad():
        kept = best(TOKENS[:, :12])
    train(attn)
    with torch.no_grad():
        assert torch.equal(best(TOKENS[:, :12]), kept)
        assert not torch.equal(attn(TOKENS[:, :12]), kept)
    assert max(error(best), error(attn)) < 1e-6


def test_an_average_over_buffers_too():
    attn = attention()
    averaged = torch.optim.swa_utils.AveragedModel(attn, use_buffers=True)
    averaged.update_parameters(attn)
    attn.set_landmarks(*landmarks(1))
    averaged.update_parameters(attn)
    assert error(averaged.module) < 1e-6


def test_a_whole_module_through_a_file():
    attn = attention()
    write_through_data(attn)
    assert error(save_and_load(attn)) < 1e-6


def test_a_compiled_module_that_is_trained_and_then_evaluated():
    attn = attention(learn=True)
    compiled = torch.compile(attn)
    optimizer = torch.optim.SGD(attn.parameters(), lr=0.05)
    for _ in range(2):
        assert error(attn, compiled) < 1e-6
        for _ in range(2):
            optimizer.zero_grad()
            compiled(TOKENS[:, :12]).square().sum().backward()
            optimizer.step()
    assert error(attn, compiled) < 1e-6


def test_a_compiled_module_whose_buffers_are_written_to():
    attn = attention()
    compiled = torch.compile(attn)
    assert error(attn, compiled) < 1e-6
    for write in (write_in_place, write_through_data, average):
        write(attn)
        assert error(attn, compiled) < 1e-6, write.__name__


def test_an_exported_step_has_the_inverse_of_its_landmarks():
    attn = attention()
    write_through_data(attn)
    exported = torch.export.export(attn, (TOKENS[:, :12],)).module()
    assert error(attn, exported) < 1e-6


def test_a_pool_has_the_inverse_of_its_landmarks():
    for learn in (False, True):
        attn = attention(learn)
        write_through_data(attn)
        for backend in ("torch", "numba"):
            pool = ns.StreamPool(attn, 2, backend)
            sids = [pool.open(), pool.open()]
            y = torch.stack([torch.from_numpy(pool.push_many(sids, TOKENS[:, t])) for t in range(30)], 1)
            assert relative_error(y, reference_outputs(attn, TOKENS)) < 1e-6, (learn, backend)


def test_gradients_reach_landmarks_that_are_lent():
    attn = attention().requires_grad_(False)
    q_tilde = landmarks(1)[0].requires_grad_()
    out = torch.func.functional_call(attn, {"q_tilde": q_tilde}, (TOKENS[:, :12],))
    assert float(torch.autograd.grad(out.square().sum(), q_tilde)[0].abs().max()) > 0
    write_in_place(attn)
    torch.testing.assert_close(attn(TOKENS[:, :12]), out.detach())


def test_another_config_has_another_inverse():
    attn = attention()
    attn.config = ns.AttentionConfig(**(CONFIG.to_dict() | {"pinv": "ridge", "pinv_ridge": 1.0}))
    assert error(attn) < 1e-6


def test_a_device_without_float64_inverts_on_the_cpu(monkeypatch):
    want = attention().gamma_pinv
    monkeypatch.setattr(precision, "NO_FLOAT64", {"cpu"})
    assert torch.equal(attention().gamma_pinv, want)


def test_landmarks_that_are_not_finite_are_refused():
    attn = attention(learn=True)
    attn.q_tilde.data[0, 0, 0] = torch.nan
    with pytest.raises(RuntimeError, match="not finite; call set_landmarks"):
        attn(TOKENS[:, :12])
    attn = attention()
    attn.q_tilde.data[0, 0, 0] = torch.nan
    with pytest.raises(RuntimeError, match="not finite; call set_landmarks"):
        attn(TOKENS[:, :12])
    attn.set_landmarks(*landmarks(0))
    assert error(attn) < 1e-6


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_a_compiled_module_on_a_gpu_answers_nan_until_the_inverse_is_renewed():
    attn, x = attention().to("cuda"), TOKENS[:, :12].to("cuda")
    compiled = torch.compile(attn)
    with torch.no_grad():
        assert relative_error(compiled(x), attn(x)) < 1e-6
        write_through_data(attn.to("cpu"))
        attn.to("cuda")
        attn.q_tilde.data.mul_(1.5)
        assert compiled(x).isnan().all()
        assert relative_error(attn(x), compiled(x)) < 1e-6


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
def test_a_module_traced_by_jit_follows_its_landmarks():
    attn = attention()
    traced = torch.jit.trace(attn, (TOKENS[:, :12],))
    write_in_place(attn)
    assert error(attn, traced) < 1e-6


@pytest.mark.parametrize("base", ["meta", "unset"])
def test_an_ensemble_over_a_module_without_landmarks_of_its_own(base):
    models = [attention(), attention()]
    write_in_place(models[1])
    weights = torch.func.stack_module_state(models)
    empty = ns.MultiheadAttention(CONFIG).to("meta" if base == "meta" else "cpu").eval()
    out = torch.vmap(lambda *own: torch.func.functional_call(empty, own, (TOKENS[:, :12],)))(*weights)
    for attn, y in zip(models, out, strict=True):
        assert error(attn, lambda _, y=y: y) < 1e-6


def test_a_transform_refuses_landmarks_that_are_not_set():
    attn = ns.MultiheadAttention(CONFIG).eval()
    for transform in (torch.vmap, lambda f: torch.func.grad(lambda x: f(x).sum())):
        with pytest.raises(RuntimeError, match="no landmarks yet"):
            transform(lambda x: attn(x.reshape(1, 12, 16)))(TOKENS[:1, :12])


def test_gradients_of_the_keys_landmarks_alone():
    both, alone = attention(learn=True), attention()
    alone.k_tilde = torch.nn.Parameter(alone.k_tilde)
    for attn in (both, alone):
        attn(TOKENS[:, :12]).square().sum().backward()
    torch.testing.assert_close(alone.k_tilde.grad, both.k_tilde.grad)


def test_landmarks_that_are_parametrized_cannot_be_set():
    attn = attention(learn=True)
    torch.nn.utils.parametrize.register_parametrization(attn, "q_tilde", torch.nn.Tanh())
    assert error(attn) < 1e-6
    with pytest.raises(ValueError, match="parametrized, so they cannot be set"):
        attn.set_landmarks(*landmarks(1))


@pytest.mark.parametrize("pinv", ["exact", "newton", "ridge"])
def test_a_captured_graph_reads_the_cache(pinv, monkeypatch):
    """It could not compute an exact inverse, for which the host waits, and would compute others at every replay."""
    attn = ns.MultiheadAttention(ns.AttentionConfig("co-fixed-single", 8, 2, 20, landmarks=3, pinv=pinv))
    unset = ns.MultiheadAttention(attn.config)
    attn.set_landmarks(*torch.randn(2, 2, 3, 4))
    state, x = attn.init_state(1), torch.randn(1, 8)
    expected = attn.step(x, state)[0]
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    for module in (pinv_cache, fixed_landmarks):
        monkeypatch.setattr(module, "gamma_pinv", None)
    assert torch.equal(attn.step(x, state)[0], expected)
    with pytest.raises(RuntimeError, match="has no landmarks yet"):
        unset.step(x, state)
    attn.q_tilde.data += 1
    assert attn.step(x, state)[0].isnan().all()  # rather than outputs of two kinds of landmarks


def test_a_captured_graph_of_many_models(monkeypatch):
    models = [ns.MultiheadAttention(CONFIG).requires_grad_(False) for _ in range(2)]
    for seed, model in enumerate(models):
        model.set_landmarks(*landmarks(seed))
    expected = [model(TOKENS[:, :12]) for model in models]
    weights, buffers = torch.func.stack_module_state(models)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    y = torch.func.vmap(lambda leaves: torch.func.functional_call(models[0], leaves, (TOKENS[:, :12],)))(
        weights | buffers
    )
    torch.testing.assert_close(y, torch.stack(expected), rtol=1e-4, atol=1e-5)

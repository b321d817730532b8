"""Landmarks fitted to data: what they are, and what they make exact."""

import logging
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from nystream import progress
from nystream.landmarks import LandmarkReport, fit_landmarks
from nystream.ops.attention.common import gamma_pinv

small = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("small_model.py"))))
FIXED, METHODS = small.FIXED, small.METHODS
E, HEADS, D, N, M, WIDTH = small.E, small.HEADS, small.D, small.N, small.M, small.WIDTH
config, build, encoder, data, fit = small.config, small.build, small.encoder, small.data, small.fit


def heads(layer, x):
    """[tokens, E] -> [H, tokens, D]"""
    return layer(x).unflatten(-1, (HEADS, D)).transpose(0, 1).detach()


def sets_match(actual, expected, tolerance):
    """[H, m, D] each: the same landmarks in every head, in any order."""
    distance = torch.cdist(actual, expected)
    return bool((distance.amin(-1) < tolerance).all() and (distance.amin(-2) < tolerance).all())


def landmarks(attention):
    return [x.detach().clone() for x in (attention.q_tilde, attention.k_tilde, attention.gamma_pinv)]


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


# What they are


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("variant", FIXED)
def test_clusters_that_are_there_become_landmarks(variant, method):
    enc = encoder(config(variant))
    attention = enc.blocks[0].attention
    words = 5.0 * torch.eye(E, dtype=torch.float64)[:M]
    labels = torch.randint(M, (3, 4, 12))
    x = words[labels] + 1e-3 * torch.randn(3, 4, 12, E, dtype=torch.float64)
    report = fit(enc, x.unbind(), method=method)
    means = torch.stack([x[labels == k].mean(0) for k in range(M)])
    for found, layer in ((attention.q_tilde, attention.q_proj), (attention.k_tilde, attention.k_proj)):
        assert sets_match(found, heads(layer, means), 1e-9)
    assert torch.equal(attention.gamma_pinv, gamma_pinv(attention.q_tilde, attention.k_tilde, attention.config))
    assert report[:4] == (0, method, 144, 144)
    assert max(report.q_inertia + report.k_inertia) < 1e-5


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("method", METHODS)
def test_landmarks_are_centres_and_the_inertia_is_what_they_leave(method, bias):
    enc, x = encoder(config(bias=bias)), data(width=E)
    attention = enc.blocks[0].attention
    report = fit(enc, x, method=method)
    tokens = torch.cat([b.flatten(0, 1) for b in x])
    for found, layer, inertia in (
        (attention.q_tilde, attention.q_proj, report.q_inertia),
        (attention.k_tilde, attention.k_proj, report.k_inertia),
    ):
        rows = heads(layer, tokens)
        total = (rows - rows.mean(1, keepdim=True)).square().sum((1, 2))
        nearest = torch.cdist(rows, found).amin(-1).square().sum(-1) / total
        if method == "qk":
            assert torch.allclose(torch.tensor(inertia, dtype=torch.float64), nearest)
        else:  # clusters of X: not all tokens are nearest to their own landmark in every head
            assert (torch.tensor(inertia) > nearest).all()
    assert all(0 < share < 1 for share in report.q_inertia + report.k_inertia)


def test_the_shortcut_gives_pairs():
    """X̃ projected by both: for any X̃, (q̃ᵢ, k̃ᵢ) over all heads is on the graph of W_K W_Q⁻¹."""
    enc = encoder()
    attention = enc.blocks[0].attention
    fit(enc, data(width=E), method="x")
    q, k = (x.transpose(0, 1).flatten(1) for x in (attention.q_tilde, attention.k_tilde))  # [m, E]
    x_tilde = torch.linalg.solve(attention.q_proj.weight, (q - attention.q_proj.bias).mT).mT
    assert torch.allclose(attention.k_proj(x_tilde), k, atol=1e-9)


def test_the_shortcut_is_of_less_use_to_each_head():
    x = data(count=10, width=E)
    enc = encoder()
    apart, together = (fit(enc, x, method=method, n_init=5) for method in METHODS)
    assert sum(apart.q_inertia) < sum(together.q_inertia)
    assert sum(apart.k_inertia) < sum(together.k_inertia)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("variant", FIXED)
def test_as_many_landmarks_as_different_tokens_make_attention_exact(variant, method):
    """If every query of a window is a landmark and Γ has an inverse, B = PΓ and BΓ†Δ = PΔ: the softmax attention."""
    model = build(config(variant, pinv="exact"), positions="none").eval()
    attention = model.encoder.blocks[0].attention
    with torch.no_grad():  # logits of different sizes, so that Γ is far from singular
        attention.q_proj.weight.mul_(2.0)
        attention.k_proj.weight.mul_(2.0)
    words = torch.randn(M, WIDTH, dtype=torch.float64)
    fit(model, [words[torch.randint(M, (20, 9))] for _ in range(3)], method=method)
    gamma = (attention.q_tilde @ attention.k_tilde.mT / D**0.5).softmax(-1)
    assert torch.linalg.cond(gamma).max() < 1e5  # the exact inverse drops what is below 10⁻⁶
    x = words[torch.randint(M, (50, N))]
    assert torch.allclose(model(x), model.convert(variant="full")(x), rtol=0, atol=1e-9)
    some = torch.randn(50, N, WIDTH, dtype=torch.float64)
    assert not torch.allclose(model(some), model.convert(variant="full")(some), rtol=0, atol=1e-3)


# Repeatable, and the same whatever the data comes as


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_bits(method):
    model, x = build(dtype=torch.float32), data(dtype=torch.float32, count=20)
    found = []
    for seed, threads in ((0, 1), (0, 1), (0, 3), (1, 1)):
        if threads != torch.get_num_threads():
            torch.set_num_threads(threads)
        report = fit(model, x, tokens=300, seed=seed, method=method)
        found.append((landmarks(model.encoder.blocks[0].attention), report))
    assert same(found[0][0], found[1][0])
    assert same(found[0][0], found[2][0])
    assert found[0][1] == found[1][1] == found[2][1]
    assert found[0][1].tokens_used == 300
    assert found[0][1].tokens_seen == 960
    assert not torch.equal(found[0][0][0], found[3][0][0])


def test_batches_of_any_kind():
    model, x = build(), data()
    attention = model.encoder.blocks[0].attention
    fit(model, x)
    want = landmarks(attention)
    read_only = [b.numpy().astype(">f8") for b in x]
    for array in read_only:
        array.flags.writeable = False
    set_of = torch.utils.data.TensorDataset(torch.cat(x), torch.zeros(12))
    for batches in (
        tuple(x),
        (b for b in x),
        [(b, torch.zeros(4)) for b in x],
        [[b, torch.zeros(4), "name"] for b in x],
        [b.numpy() for b in x],
        [b.numpy()[:, :, ::-1].copy()[:, :, ::-1] for b in x],
        read_only,
        [b.clone().requires_grad_() for b in x],
        torch.utils.data.DataLoader(set_of, batch_size=4),
    ):
        attention.set_landmarks(torch.zeros(HEADS, M, D), torch.zeros(HEADS, M, D))
        fit(model, batches)
        assert same(landmarks(attention), want)


@pytest.mark.parametrize("given", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_dtypes_may_differ(given, dtype):
    model = build(dtype=dtype)
    fit(model, data(dtype=given))
    attention = model.encoder.blocks[0].attention
    assert attention.q_tilde.dtype == dtype
    assert attention.gamma_pinv.isfinite().all()
    assert attention.gamma_pinv.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu():
    model, x = build(layers=2), data()
    on_gpu = build(layers=2).cuda()
    on_gpu.load_state_dict(model.state_dict())
    for layer in (0, 1):
        fit(model, x, layer=layer)
        fit(on_gpu, x, layer=layer)
        found, want = (m.encoder.blocks[layer].attention for m in (on_gpu, model))
        assert found.q_tilde.is_cuda
        assert found.gamma_pinv.is_cuda
        assert sets_match(found.q_tilde.cpu(), want.q_tilde, 1e-6)
        assert sets_match(found.k_tilde.cpu(), want.k_tilde, 1e-6)


def test_offset_moves_the_positions():
    model, x = build(), data()
    with torch.no_grad():
        model.positions.table.mul_(100.0)
    attention = model.encoder.blocks[0].attention
    found = []
    for offset in (0, 0, N, 2, None):
        fit(model, x, offset=offset)
        found.append(landmarks(attention))
    assert same(found[0], found[1])
    assert same(found[0], found[2])  # all the way round
    assert not same(found[0], found[3])
    assert not same(found[0], found[4])


# What happens to the model


@pytest.mark.parametrize(("stack", "variant"), [("paper", v) for v in FIXED] + [("deep", "co-fixed-single")])
def test_blocks_are_fitted_in_order_then_the_model_runs(stack, variant):
    model, x = build(config(variant), layers=3, stack=stack), data()
    for layer in range(3):
        report = fit(model, x, layer=layer, method=METHODS[layer % 2])
        assert report.layer == layer
        assert report.tokens_used == 144
    model.eval()
    y, _ = model.steps(x[0], model.init_state(4))
    assert y.isfinite().all()


def test_nothing_but_the_landmarks_changes():
    model, x = build(layers=2), data()
    fit(model, x)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    fit(model, x, layer=1, seed=3)
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {f"encoder.blocks.1.attention.{name}_tilde" for name in "qk"}
    assert all(p.grad is None for p in model.parameters())


def test_dropout_is_off_and_training_goes_on_as_it_was():
    model, x = build(dropout=0.5), data()
    attention = model.encoder.blocks[0].attention
    fit(model.eval(), x)
    want = landmarks(attention)
    assert not model.training
    model.train()
    model.head.eval()
    modes = [module.training for module in model.modules()]

    def checked():
        for b in x:
            assert [module.training for module in model.modules()] == modes
            assert torch.is_grad_enabled()
            yield b

    fit(model, checked())
    assert same(landmarks(attention), want)
    assert [module.training for module in model.modules()] == modes
    with pytest.raises(ValueError, match="not a multiple of update_size"):
        fit(build(config(update_size=2)).train(), data(tokens=5))
    with pytest.raises(ValueError, match="must be"):
        fit(model, data(width=WIDTH + 1))
    assert [module.training for module in model.modules()] == modes


@pytest.mark.parametrize("method", METHODS)
def test_after_an_error_the_landmarks_are_those_of_before(method):
    model, x = build(positions="none"), data()
    attention = model.encoder.blocks[0].attention
    fit(model, x)
    before = landmarks(attention)

    def broken():
        yield from x
        raise OSError("disk on fire")

    for batches, error in (
        (broken(), OSError),
        ([*x, torch.full((1, 6, WIDTH), torch.nan, dtype=torch.float64)], ValueError),
        ([torch.ones(4, 12, WIDTH, dtype=torch.float64)], ValueError),
    ):
        with pytest.raises(error):
            fit(model, batches, method=method)
        assert same(landmarks(attention), before)


def test_landmarks_that_are_learned_can_be_fitted_again():
    model, x = build(), data()
    attention = model.encoder.blocks[0].attention
    fit(model, x)
    want = landmarks(attention)
    attention.set_landmarks(torch.randn(HEADS, M, D), torch.randn(HEADS, M, D))
    attention.learn_landmarks()
    parameter = attention.q_tilde
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    fit(model, x)
    assert attention.q_tilde is parameter
    assert isinstance(parameter, nn.Parameter)
    assert parameter.requires_grad
    assert same(landmarks(attention), want)
    model(x[0][:, :N]).sum().backward()
    optimizer.step()
    assert not torch.equal(parameter, want[0])


# Progress and report


def test_progress_goes_to_the_log(caplog, monkeypatch):
    monkeypatch.setattr(progress, "MIN_REPORTED", -1.0)  # what is done in a moment is told of too
    caplog.set_level(logging.INFO, "nystream")
    fit(build(), data())
    text = caplog.text
    assert "reading batches, block 0: 3 of 3, 144 tokens" in text
    assert "clustering queries and keys, block 0: 4 of 4" in text


@pytest.mark.parametrize("method", METHODS)
def test_a_bar_on_request(capsys, method):
    fit_landmarks(build(), (x for x in data()), method=method, progress=True)
    shown = capsys.readouterr()
    assert "reading batches, block 0" in shown.err
    assert "clustering" in shown.err
    assert "?" not in shown.err  # how many batches a generator has, nobody knows
    assert not shown.out


def test_the_report_is_plain():
    report = fit(build(), data(), tokens=100)
    assert isinstance(report, LandmarkReport)
    assert (report.layer, report.method, report.tokens_seen, report.tokens_used) == (0, "qk", 144, 100)
    assert all(type(share) is float for share in report.q_inertia + report.k_inertia)
    assert len(report.q_inertia) == len(report.k_inertia) == HEADS

"""What prepares and surrounds the kernels of attention, part by part."""

import pytest
import torch

from nystream.ops import ring
from nystream.ops.later import Later
from nystream.ops.timeline import timeline
from nystream.ops.triton import prepare, products
from nystream.ops.triton.band import band


@pytest.mark.parametrize("n", [1, 6, 9])
@pytest.mark.parametrize("tokens", [3, 300])
def test_band(n, tokens):
    torch.manual_seed(0)
    r = 3 if n % 3 == 0 else 1
    time, lengths = torch.tensor([0, 4, 50]) * r, torch.tensor([tokens // r, 0, tokens // r // 2]) * r
    reset = (torch.rand(3, tokens // r) < 0.1).repeat_interleave(r, 1)
    reset[:, torch.arange(tokens) % r != 0] = False
    when = timeline(time, tokens, r, lengths, reset)
    runs = band(when, n)
    first, last = when.window_start(n)[..., None], when.window_end(n)[..., None]
    assert torch.equal(runs.first_key, first[..., 0].int())
    assert torch.equal(runs.last_key, last[..., 0].int())
    query, key = torch.arange(tokens)[:, None], torch.arange(n + tokens)
    by_runs = (query >= runs.first_query[:, None]) & (query <= runs.last_query[:, None])
    assert torch.equal(by_runs, (key >= first) & (key <= last))


@pytest.mark.parametrize("bad", [None, torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("part", ["ring", "piece"])
def test_tokens(part, bad):
    tensors = {"ring": torch.randn(2, 5, 2, 3), "piece": torch.randn(2, 7, 2, 3)}
    time = torch.tensor([3, 12])
    if bad is not None:
        tensors[part][1, 4, 0, 2] = bad
    noted = Later(torch.zeros(1, dtype=torch.int32))
    before, piece = prepare.tokens(*tensors.values(), time, noted.number)
    assert torch.equal(before.nan_to_num(9.0), ring.unroll(tensors["ring"], time).nan_to_num(9.0))
    assert piece is tensors["piece"]
    assert bool(noted.note()) == (bad is not None)


@pytest.mark.parametrize("bad", [None, torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("part", ["ring", "piece"])
def test_logarithms(part, bad):
    tensors = {"ring": torch.randn(2, 5, 2, 3), "piece": torch.randn(2, 7, 2, 3)}
    time = torch.tensor([3, 12])
    tensors["ring"][0, 3:] = -torch.inf  # void
    if bad is not None:
        tensors[part][1, 4, 0, 2] = bad
    noted = Later(torch.zeros(1, dtype=torch.int32))
    logits = prepare.logarithms(*tensors.values(), time, noted.number)
    assert bool(noted.note()) == (bad not in (None, -torch.inf))  # which marks a void token
    if not noted:
        whole = torch.cat([ring.unroll(tensors["ring"], time), tensors["piece"]], 1)
        expected = (whole - whole[:, -1:]).exp().permute(2, 3, 0, 1)
        assert torch.allclose((logits - logits[..., -1:]).exp2(), expected, rtol=1e-4)


@pytest.mark.parametrize("tokens", [1, 40, 700])
def test_products(tokens):
    q, k_tilde, inverse = torch.randn(2, tokens, 2, 5), torch.randn(2, 3, 5), torch.randn(2, 3, 3)
    slope = torch.randn(2, 3, 2, tokens)
    for function, expected, inputs in (
        (products.logits, lambda x, q: torch.einsum("hjd,bthd->hjbt", x, q), (k_tilde, q)),
        (products.weights, weights, (q, k_tilde, inverse)),
        (products.weights, weights, (q, k_tilde, None)),
    ):
        leaves = [None if x is None else x.clone().requires_grad_() for x in inputs]
        exact = [None if x is None else x.double().requires_grad_() for x in inputs]
        y, z = function(*leaves), expected(*exact)
        assert torch.allclose(y.double(), z, rtol=1e-4, atol=1e-5)
        gradients = (
            torch.autograd.grad(out, [x for x in ours if x is not None], slope.to(out.dtype))
            for out, ours in ((y, leaves), (z, exact))
        )
        for ours, theirs in zip(*gradients, strict=True):
            assert torch.allclose(ours.double(), theirs, rtol=1e-4, atol=1e-4)


def weights(q, k_tilde, inverse):
    share = torch.einsum("hjd,bthd->hjbt", k_tilde, q).softmax(1)
    return share if inverse is None else torch.einsum("hji,hjbt->hibt", inverse, share)

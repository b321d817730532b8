"""Γ†: every matrix of a batch is inverted independently."""

import pytest
import torch

from nystream.ops.pinv import pinv


def gammas(*shape):
    torch.manual_seed(3)
    return torch.randn(*shape, dtype=torch.float64).softmax(-1)


def test_newton_converges_to_the_inverse():
    gamma = (torch.randn(4, 5, 5, dtype=torch.float64) * 3).softmax(-1)
    inverse = pinv(gamma, "newton", 40, 0.1)
    torch.testing.assert_close(inverse, torch.linalg.inv(gamma), rtol=1e-6, atol=1e-6)


def test_exact_is_the_moore_penrose_inverse_of_a_singular_matrix_too():
    gamma = torch.full((3, 3), 1 / 3, dtype=torch.float64)
    torch.testing.assert_close(pinv(gamma, "exact", 6, 0.1), gamma)


def test_ridge_solves_the_regularised_least_squares():
    gamma = gammas(4, 4)
    inverse = pinv(gamma, "ridge", 6, 0.1)
    stacked = torch.cat([gamma, 0.1 * torch.eye(4, dtype=torch.float64)])
    target = torch.cat([torch.eye(4, dtype=torch.float64), torch.zeros(4, 4, dtype=torch.float64)])
    torch.testing.assert_close(inverse, torch.linalg.lstsq(stacked, target).solution)


def test_none_is_the_identity():
    assert torch.equal(pinv(gammas(2, 3, 3), "none", 6, 0.1)[1], torch.eye(3, dtype=torch.float64))


@pytest.mark.parametrize("kind", ["newton", "exact", "ridge", "none"])
@pytest.mark.parametrize("neighbour", ["ordinary", "sharp", "nan", "inf"])
def test_a_neighbour_changes_nothing(kind, neighbour):
    gamma = gammas(2, 4, 4)
    other = {
        "ordinary": gammas(4, 4),
        "sharp": torch.eye(4, dtype=torch.float64)[[0, 0, 0, 1]],
        "nan": torch.full((4, 4), torch.nan, dtype=torch.float64),
        "inf": torch.full((4, 4), torch.inf, dtype=torch.float64),
    }[neighbour]
    beside = torch.stack([gamma[0], other])
    torch.testing.assert_close(pinv(beside, kind, 6, 0.1)[0], pinv(gamma[:1], kind, 6, 0.1)[0], rtol=1e-12, atol=1e-12)
    if neighbour in ("nan", "inf") and kind != "none":
        assert not pinv(beside, kind, 6, 0.1)[1].isfinite().any(), "what is not finite stays so, in its own row"


@pytest.mark.parametrize("kind", ["newton", "exact", "ridge"])
def test_gradients(kind):
    # Through the softmax: its rows sum to one, so that the scale of Newton–Schulz is smooth.
    logit = torch.randn(2, 3, 3, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: pinv(x.softmax(-1), kind, 3, 0.1), logit)


@pytest.mark.parametrize("lam", [1e-5, 1e-4, 4e-4, 1e-3, 1e5])
@pytest.mark.parametrize("gamma", [torch.full((16, 16), 1 / 16), torch.eye(16)[[0, 1] * 8], torch.eye(16)])
def test_ridge_of_float32_is_solved_in_float64_and_never_raises(lam, gamma):
    u, s, vt = torch.linalg.svd(gamma.double())
    want = (vt.mT * (s / (s**2 + lam**2))) @ u.mT
    # The normal equations lose the condition number (m / λ²) in float64.
    bound = 16 / lam**2 * torch.finfo(torch.float64).eps * want.abs().max() + 1e-12
    torch.testing.assert_close(pinv(gamma, "ridge", 6, lam), want, rtol=0, atol=float(bound))


@pytest.mark.parametrize("iters", [12, 16, 20])
def test_newton_of_a_singular_float32_matrix_keeps_its_null_space(iters):
    # In float32 rounding errors along the null space would grow to 6e-8 · 3.25²⁰ = 1,000.
    gamma = torch.full((2, 16, 16), 1 / 16)
    torch.testing.assert_close(pinv(gamma, "newton", iters, 0.1), gamma.double(), rtol=0, atol=1e-4)

"""Scalers: the user's units to the model's, and back."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nystream.layers.scaler import Scaler


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def test_a_scaler_is_the_identity_until_it_is_set():
    scaler, x = Scaler(3), torch.randn(2, 4, 3)
    assert torch.equal(scaler(x), x)
    assert torch.equal(scaler.restore(x), x)
    assert set(scaler.state_dict()) == {"mean", "scale"}
    assert not list(scaler.parameters())


@given(scale=st.floats(1e-4, 1e6), mean=st.floats(-1e3, 1e3), seed=st.integers(0, 99))
def test_what_is_fitted_has_mean_0_and_deviation_1(scale, mean, seed):
    generator = torch.Generator().manual_seed(seed)
    x = mean + scale * torch.randn(4, 25, 3, dtype=torch.float64, generator=generator)
    scaler = Scaler(3, dtype=torch.float64)
    scaler.fit(x)
    # A mean of 1e3 beside a deviation of 1e-4 leaves nine digits of the latter.
    torch.testing.assert_close(scaler(x).flatten(0, 1).mean(0), torch.zeros(3).double(), rtol=0, atol=1e-6)
    torch.testing.assert_close(scaler(x).flatten(0, 1).std(0, correction=0), torch.ones(3).double(), rtol=1e-6, atol=0)
    torch.testing.assert_close(scaler.restore(scaler(x)), x, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("value", [0.0, 1.0, -1e6, 0.1])
def test_a_constant_column_has_scale_1(value):
    x = torch.randn(50, 2)
    x[:, 0] = value
    scaler = Scaler(2)
    scaler.fit(x)
    assert float(scaler.scale[0]) == 1.0
    torch.testing.assert_close(scaler(x)[:, 0], torch.zeros(50))


def test_whole_numbers_and_one_row_can_be_fitted():
    scaler = Scaler(2)
    scaler.fit(torch.tensor([[0, 10], [2, 30]]))
    assert scaler.mean.tolist() == [1.0, 20.0]
    assert scaler.scale.tolist() == [1.0, 10.0]
    scaler.fit(torch.tensor([7.0, 8.0]))
    assert scaler.mean.tolist() == [7.0, 8.0]
    assert scaler.scale.tolist() == [1.0, 1.0]


def test_a_sum_over_many_rows_does_not_lose_digits():
    x = 1e4 + torch.randn(200_000, 1)  # float32: a running sum would be off by more than the deviation
    scaler = Scaler(1)
    scaler.fit(x)
    assert abs(float(scaler.mean) - float(x.double().mean())) < 1e-3
    assert abs(float(scaler.scale) - float(x.double().std())) < 1e-3


ZERO, ONE = torch.zeros(3), torch.ones(3)


@pytest.mark.parametrize(
    ("mean", "scale", "error", "words"),
    [
        ([0.0] * 3, ONE, TypeError, ("mean is a list", "torch.Tensor")),
        (ZERO, 1.0, TypeError, ("scale is a float", "torch.Tensor")),
        (torch.zeros(2), ONE, ValueError, ("mean is [2]", "must be [3]")),
        (ZERO, torch.ones(3, 1), ValueError, ("scale is [3, 1]", "must be [3]")),
        (torch.full((3,), torch.nan), ONE, ValueError, ("mean has values that are not finite",)),
        (ZERO, torch.full((3,), torch.inf), ValueError, ("scale has values that are not finite",)),
        (
            torch.full((3,), 1e300, dtype=torch.float64),
            ONE,
            ValueError,
            ("mean has values", "not finite in torch.float32"),
        ),
        (ZERO, torch.tensor([1.0, 0.0, 1.0]), ValueError, ("scale has a value of 0.0", "greater than 0")),
        (ZERO, torch.tensor([1.0, -2.0, 1.0]), ValueError, ("scale has a value of -2.0", "greater than 0")),
        (ZERO, torch.full((3,), 1e-60, dtype=torch.float64), ValueError, ("scale has a value of 0.0", "torch.float32")),
    ],
)
def test_what_cannot_be_set_is_refused_and_nothing_changes(mean, scale, error, words):
    scaler = Scaler(3)
    scaler.set(ONE, 2 * ONE)
    with pytest.raises(error) as caught:
        scaler.set(mean, scale)
    for word in words:
        assert word in str(caught.value)
    assert torch.equal(scaler.mean, ONE)
    assert torch.equal(scaler.scale, 2 * ONE)


@pytest.mark.parametrize(
    ("x", "error", "words"),
    [
        ([[0.0] * 3], TypeError, ("x is a list", "torch.Tensor")),
        (torch.zeros(4, 2), ValueError, ("x is [4, 2]", "[..., 3]")),
        (torch.tensor(1.0), ValueError, ("x is []", "[..., 3]")),
        (torch.zeros(0, 3), ValueError, ("x is [0, 3]", "at least one row")),
        (torch.tensor([[0.0, torch.nan, 0.0]]), ValueError, ("x has values that are not finite",)),
    ],
)
def test_what_cannot_be_fitted_is_refused_and_nothing_changes(x, error, words):
    scaler = Scaler(3)
    with pytest.raises(error) as caught:
        scaler.fit(x)
    for word in words:
        assert word in str(caught.value)
    assert torch.equal(scaler.mean, ZERO)
    assert torch.equal(scaler.scale, ONE)


def test_one_scale_keeps_the_relative_size_of_columns():
    x = torch.randn(500, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([10.0, 1.0, 0.0]) + 5.0
    scaler = Scaler(3)
    scaler.fit(x, one_scale=True)
    assert float(scaler.scale.std()) == 0.0
    scaled = scaler(x)
    assert abs(float(scaled.mean())) < 1e-6
    assert float(scaled.square().mean()) == pytest.approx(1.0, rel=1e-5)
    torch.testing.assert_close(scaled.std(0) / scaled.std(0)[0], x.std(0) / x.std(0)[0], atol=1e-6, rtol=1e-5)
    scaler.fit(torch.ones(4, 3), one_scale=True)
    assert scaler.scale.tolist() == [1.0, 1.0, 1.0]

"""Circular positions: token number t of a stream gets row (t − 1) mod P of a table."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nystream.layers.positional import CircularPositions, sinusoids


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


@pytest.mark.parametrize("kind", ["learned", "sinusoidal"])
def test_every_token_gets_the_row_of_its_position(kind):
    positions, x = CircularPositions(5, 4, kind, dtype=torch.float64), randn(3, 12, 4)
    rows = torch.arange(12) % 5
    assert torch.equal(positions(x, 0), x + positions.table[rows])
    assert torch.equal(positions(x, 7), x + positions.table[(rows + 7) % 5])
    assert torch.equal(positions(x, -3), positions(x, 2))
    starts = torch.tensor([0, 4, 1_000_000_003])
    for row, start in enumerate((0, 4, 3)):
        assert torch.equal(positions(x, starts)[row], positions(x, start)[row])
    places = starts[:, None] + torch.arange(12)
    assert torch.equal(positions(x, places), positions(x, starts))


def test_positions_can_be_switched_off():
    positions, x = CircularPositions(5, 4, "none"), randn(2, 3, 4)
    assert torch.equal(positions(x, 2), x)
    assert not list(positions.parameters())
    assert not positions.state_dict()


def test_learned_rows_are_trained_and_sines_are_not_saved():
    learned, sines = CircularPositions(5, 4, "learned"), CircularPositions(5, 4, "sinusoidal")
    learned(torch.zeros(1, 7, 4), 3).sum().backward()
    assert learned.table.grad[:, 0].tolist() == [1.0, 1.0, 1.0, 2.0, 2.0]  # 7 tokens from row 3 on, recycled
    assert list(learned.state_dict()) == ["table"]
    assert not list(sines.parameters())
    assert not sines.state_dict()


@given(num_positions=st.integers(1, 40), pairs=st.integers(1, 12))
def test_sines_know_the_distance_around_the_circle_and_nothing_else(num_positions, pairs):
    table = sinusoids(num_positions, 2 * pairs)
    assert table.shape == (num_positions, 2 * pairs)
    near = table @ table.T
    for turn in range(num_positions):  # no rotation is special
        torch.testing.assert_close(near.roll((turn, turn), (0, 1)), near, rtol=0, atol=1e-10)
    apart = near.diagonal().max() - near.masked_fill(torch.eye(num_positions, dtype=torch.bool), -torch.inf).amax()
    assert num_positions == 1 or apart > 1e-3  # no two rows are the same


@given(num_positions=st.integers(1, 40), width=st.integers(1, 12))
def test_the_circle_closes_at_any_width(num_positions, width):
    """The row after the last would be the first."""
    places = torch.arange(2 * num_positions) % num_positions
    positions = CircularPositions(num_positions, width, "sinusoidal", dtype=torch.float64)
    out = positions(torch.zeros(1, 2 * num_positions, width, dtype=torch.float64), 0)[0]
    assert torch.equal(out, sinusoids(num_positions, width)[places])


def test_sines_are_exact_in_every_dtype_whatever_they_were_cast_to_before():
    exact = sinusoids(7, 4)
    positions = CircularPositions(7, 4, "sinusoidal", dtype=torch.bfloat16)
    for dtype in (torch.float64, torch.float16, torch.float32):
        assert torch.equal(positions.to(dtype).table, exact.to(dtype))
    empty = CircularPositions(7, 4, "sinusoidal", device="meta").to_empty(device="cpu")
    assert torch.equal(empty.table, exact.float())


def test_positions_say_what_they_are():
    assert repr(CircularPositions(5, 4, "learned")) == "CircularPositions(5, 'learned')"

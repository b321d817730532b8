import pytest
import torch

from nystream.ops import ring


@pytest.mark.parametrize("n", [1, 4, 9])
def test_rolled_is_the_inverse_of_unroll(n):
    x, time = torch.randn(3, n, 2), torch.tensor([0, 3, 25])
    assert torch.equal(ring.rolled(ring.unroll(x, time), time), x)


@pytest.mark.parametrize(("n", "tokens"), [(1, 3), (4, 3), (4, 4), (4, 11), (9, 2)])
def test_carry_on(n, tokens):
    before = torch.tensor([0, 3, 25, 7])
    lengths = torch.tensor([tokens, 0, 1, tokens])
    after = before + lengths
    after[3] = min(2, tokens)  # a stream that starts inside the piece
    held, piece = torch.randn(4, n, 2), torch.randn(4, tokens, 2)
    whole = torch.cat([ring.unroll(held, before), piece], 1)
    (ours,) = ring.carry_on([(held, piece, -1.0)], lengths, after)
    assert torch.equal(ours, ring.roll_on(held, whole, lengths, after, void=-1.0))

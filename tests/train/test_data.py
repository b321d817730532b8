"""Training data: contents and errors."""

import numpy as np
import pytest
import torch

from nystream.train import StreamData, WindowData
from nystream.train.data import seeded


def test_arrays_become_tensors():
    data = WindowData(np.zeros((4, 5, 2), dtype=np.float32), np.arange(4))
    assert len(data) == 4
    assert data.input_dim == 2
    assert data.y.dtype == torch.int64


def test_streams_keep_their_order():
    x = [torch.randn(3, 2), torch.randn(5, 2)]
    y = [torch.arange(3), torch.arange(5)]
    data = StreamData(x, y)
    assert len(data) == 2
    for i in range(2):
        a, b = data.stream(i)
        assert torch.equal(a, x[i])
        assert torch.equal(b, y[i])
    assert torch.equal(data.subset([1]).stream(0)[0], x[1])
    assert torch.equal(data.subset(torch.tensor([False, True])).stream(0)[0], x[1])


def test_a_subset_of_windows():
    data = WindowData(torch.randn(4, 5, 2), torch.arange(4)).subset([2, 0])
    assert data.y.tolist() == [2, 0]


def test_batches_for_landmarks_hold_every_token():
    x = [torch.randn(2500, 2), torch.randn(5, 2)]
    data = StreamData(x, [torch.zeros(2500, 1), torch.zeros(5, 1)])
    assert torch.equal(torch.cat([part.flatten(0, 1) for part in data.batches(8)]), torch.cat(x))
    groups = list(data.batches(8, update_size=3))
    assert all(part.shape[1] % 3 == 0 for part in groups)
    assert sum(part.shape[0] * part.shape[1] for part in groups) == 2499 + 3
    windows = WindowData(torch.randn(7, 5, 2), torch.arange(7))
    assert torch.equal(torch.cat(list(windows.batches(3))), windows.x)


def test_the_fingerprint_is_that_of_the_numbers():
    x, y = torch.randn(4, 5, 2), torch.arange(4)
    assert WindowData(x, y).fingerprint == WindowData(x.clone(), y.clone()).fingerprint
    assert WindowData(x, y).fingerprint != WindowData(x, y + 1).fingerprint
    assert (
        StreamData([x[0], x[1]], [y[:1].expand(5)] * 2).fingerprint
        != StreamData([x[:2].flatten(0, 1)], [y[:1].expand(10)]).fingerprint
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: WindowData(torch.zeros(4, 5), torch.zeros(4)), r"x is \[4, 5\], but must be \[N, T, input_dim\]"),
        (lambda: WindowData(torch.zeros(4, 5, 2), torch.zeros(3)), "x has 4 windows, but y has 3 targets"),
        (
            lambda: WindowData(torch.zeros(4, 5, 2).long(), torch.zeros(4)),
            "x is torch.int64, but tokens must be floating",
        ),
        (lambda: WindowData(torch.full((4, 5, 2), torch.nan), torch.zeros(4)), "x has values that are not finite"),
        (lambda: StreamData(torch.zeros(4, 5), torch.zeros(4)), "x is one stream, but must be a list of streams"),
        (lambda: StreamData([], []), "x has 0 streams and y 0"),
        (lambda: WindowData(torch.zeros(0, 5, 2), torch.zeros(0)), "with at least one window"),
        (
            lambda: StreamData([torch.zeros(4, 2), torch.zeros(4, 3)], [torch.zeros(4)] * 2),
            "all need the same widths",
        ),
        (lambda: StreamData([torch.zeros(4, 2)], [torch.zeros(3)]), r"stream 0 has x \[4, 2\] and y \[3\]"),
    ],
)
def test_errors_say_what_is_needed(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_seeds_do_not_collide():
    drawn = {int(torch.randint(2**62, (1,), generator=seeded(a, b))) for a in range(30) for b in range(30)}
    assert len(drawn) == 900

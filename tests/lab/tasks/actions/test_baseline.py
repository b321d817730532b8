"""Logistic regression on the last tokens."""

import torch

from nystream.lab.tasks.actions.baseline import STRENGTHS, last_tokens, last_tokens_scores
from nystream.train import StreamData


def streams(seed, count=4, tokens=60):
    """Two actions that are columns of the token, one of them seen only in the mean of the last tokens."""
    generator = torch.Generator().manual_seed(seed)
    x, y = [], []
    for _ in range(count):
        active = (torch.arange(tokens) // 15 + int(torch.randint(3, (1,), generator=generator))) % 3
        noise = torch.randn(tokens, 3, generator=generator)
        hot = torch.nn.functional.one_hot(active, 22).float()
        x.append(noise + 1.5 * hot[:, :3])
        hot[::7] = torch.nan  # ambiguous
        y.append(hot)
    return StreamData(x, y)


def test_the_mean_of_the_last_tokens():
    data = streams(0, count=2, tokens=20)
    found = last_tokens(data)
    assert found.shape == (40, 6)
    assert torch.equal(found[:, :3], data.x)
    for place in (0, 3, 7, 12, 20, 25):
        first = max(place - 7, 0 if place < 20 else 20)  # of its stream
        torch.testing.assert_close(found[place, 3:], data.x[first : place + 1].mean(0))


def test_scores():
    result = last_tokens_scores(streams(0), streams(1), streams(2))
    assert result.strength in STRENGTHS
    assert list(result.test) == list(result.valid) == ["map", "cmap", "loss"]
    assert result.test["map"] > 0.8

import numpy as np
import pytest
import torch

from nystream.data.mel import LogMel
from nystream.lab.tasks.audio import Embedder

RATE = 16000


def tone(frequency, seconds, rate=RATE, amplitude=0.5):
    return (amplitude * np.sin(2 * np.pi * frequency * np.arange(round(seconds * rate)) / rate)).astype(np.float32)


class Means(Embedder):
    """The mean of every band: a token that can be checked by hand."""

    dim = 64
    offset = 0.01

    def __init__(self):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.ones(()))

    def patch_token(self, patch):
        return self.gain * patch.mean((1, 2))


@pytest.fixture
def means():
    embedder = Means()
    assert isinstance(embedder.mel, LogMel)
    return embedder


@pytest.fixture
def ready():
    """The arrays of a small token file in the ready layout: 3 genres of 12 tracks, with one pair of copies each."""
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), 12)
    copies = np.arange(36)
    copies[1::12] = copies[0::12]
    genres = np.array(["blues", "jazz", "rock"])
    return {
        "tokens": generator.integers(0, 256, (36, 5, 4), dtype=np.uint8),
        "dequant_scale": np.float32(4 / 255),
        "dequant_offset": np.float32(-2),
        "labels": labels,
        "genre_names": genres,
        "track_names": np.array([f"{genres[y]}.{i % 12:05d}" for i, y in enumerate(labels)]),
        "duplicate_group": copies.astype(np.int32),
        "split_filtered": np.tile(np.array([0, -1, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2], dtype=np.int8), 3),
    }

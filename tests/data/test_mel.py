import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nystream.data.mel import LogMel, mel_bands

RATE = 16000


def reference(samples, offset):
    """Frame by frame and band by band, in float64."""
    hann = [0.5 - 0.5 * math.cos(2 * math.pi * i / 400) for i in range(400)]

    def mel(frequency):
        return 1127 * math.log(1 + frequency / 700)

    step = (mel(7500) - mel(125)) / 65
    rows = []
    for start in range(0, len(samples) - 399, 160):
        frame = np.zeros(512)
        frame[:400] = samples[start : start + 400] * np.array(hann)
        magnitude = np.abs(np.fft.rfft(frame))
        row = []
        for band in range(64):
            centre = mel(125) + (band + 1) * step
            shares = [max(0.0, 1 - abs(mel(k * RATE / 512) - centre) / step) for k in range(257)]
            shares[0] = 0.0
            row.append(math.log(float(magnitude @ np.array(shares)) + offset))
        rows.append(row)
    return np.array(rows)


@pytest.mark.parametrize("offset", [0.01, 0.001])
def test_is_the_reference(offset):
    samples = np.random.default_rng(0).standard_normal(1500) * 0.1
    samples[600:] = 0  # silence: the logarithm of the offset
    found = LogMel(offset)(torch.tensor(samples, dtype=torch.float32))
    expected = reference(samples, offset)
    assert found.shape == (7, 64)
    np.testing.assert_allclose(found, expected, atol=2e-4)
    assert found[-1].tolist() == pytest.approx([math.log(offset)] * 64, abs=1e-5)


@pytest.mark.parametrize("frequency", [440.0, 1000.0, 3000.0, 6000.0])
def test_a_tone_lands_in_its_band(frequency):
    samples = torch.sin(2 * math.pi * frequency * torch.arange(RATE, dtype=torch.float64) / RATE).float()
    loudest = LogMel(0.01)(samples).argmax(-1)
    edges = np.linspace(*(1127 * np.log1p(np.array([125, 7500]) / 700)), 66)
    expected = int(np.argmin(np.abs(edges[1:-1] - 1127 * np.log1p(frequency / 700))))
    assert (loudest - expected).abs().max() <= 1


def test_twice_as_loud_is_log_two_more():
    samples = torch.randn(4000)
    mel = LogMel(1e-9)
    assert torch.allclose(mel(2 * samples) - mel(samples), torch.tensor(math.log(2)), atol=1e-4)


@given(st.integers(400, 3000), st.integers(1, 3))
def test_as_many_frames_as_fit(length, batch):
    found = LogMel(0.01)(torch.zeros(batch, length))
    assert found.shape == (batch, (length - 400) // 160 + 1, 64)


def test_bands():
    shares = mel_bands()
    assert shares.shape == (257, 64)
    assert bool((shares[0] == 0).all())
    assert bool((shares.sum(0) > 0).all())
    frequency = torch.arange(257) * RATE / 512
    assert bool((shares[(frequency < 125) | (frequency > 7500)] == 0).all())


def test_errors():
    with pytest.raises(ValueError, match="offset is 0, but must be above 0"):
        LogMel(0)
    with pytest.raises(ValueError, match=r"samples is \[399\], but must be \[..., T\] with T at least 400"):
        LogMel(0.01)(torch.zeros(399))

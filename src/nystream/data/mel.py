"""The audio front end of VGGish and YAMNet: log magnitudes in mel bands, a hundred frames per second.

A frame is 25 ms under a Hann window, every 10 ms, with a 512-point Fourier transform. Its magnitudes (not squared) are
summed in 64 triangular bands between 125 and 7500 Hz, equally spaced on the mel scale 1127 ln(1 + f/700), and the
result is log(sum + offset). Only the offset differs: 0.01 for VGGish, 0.001 for YAMNet. The constants are those
published with the two networks (S. Hershey et al., ICASSP 2017; github.com/tensorflow/models, research/audioset,
Apache-2.0).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from nystream.data.audio_file import SAMPLE_RATE

FRAME = 400  # samples: 25 ms
HOP = 160  # samples: 10 ms
POINTS = 512
BANDS = 64
LOWEST, HIGHEST = 125.0, 7500.0  # Hz
VGGISH_OFFSET, YAMNET_OFFSET = 0.01, 0.001


class LogMel(nn.Module):
    """Log-mel frames of mono audio at 16 kHz.

    Args:
        offset: Added before the logarithm, so that silence has one.
    """

    window: Tensor
    bands: Tensor

    def __init__(self, offset: float) -> None:
        super().__init__()
        if not offset > 0:
            raise ValueError(f"offset is {offset}, but must be above 0: silence would have no logarithm")
        self.offset = offset
        hann = torch.hann_window(FRAME, periodic=True, dtype=torch.float64)
        self.register_buffer("window", hann.float(), persistent=False)  # [400]
        self.register_buffer("bands", mel_bands().float(), persistent=False)  # [257, 64]

    def forward(self, samples: Tensor) -> Tensor:
        """Map samples [..., T] to [..., frames, 64], with as many frames as fit completely."""
        if samples.dim() == 0 or samples.shape[-1] < FRAME:
            raise ValueError(f"samples is {list(samples.shape)}, but must be [..., T] with T at least {FRAME}")
        frames = samples.unfold(-1, FRAME, HOP) * self.window  # [..., frames, 400]
        magnitudes = torch.fft.rfft(frames, n=POINTS).abs()  # [..., frames, 257]
        return (magnitudes @ self.bands + self.offset).log()


def mel_bands() -> Tensor:
    """Return the weight of each frequency in each band, [257, 64] float64; 0 Hz is in none."""
    frequency = torch.linspace(0, SAMPLE_RATE / 2, POINTS // 2 + 1, dtype=torch.float64)
    mel = 1127 * torch.log1p(frequency / 700).unsqueeze(1)  # [257, 1]
    lowest, highest = (1127 * math.log1p(edge / 700) for edge in (LOWEST, HIGHEST))
    edges = torch.linspace(lowest, highest, BANDS + 2, dtype=torch.float64)
    low, centre, high = edges[:-2], edges[1:-1], edges[2:]
    rising, falling = (mel - low) / (centre - low), (high - mel) / (high - centre)
    share = torch.minimum(rising, falling).clamp_min(0)
    share[0] = 0
    return share

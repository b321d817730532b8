"""VGGish and YAMNet: networks that turn a second of audio into one token, with weights that the user supplies.

Both read 96 log-mel frames, 10 ms apart. Token i ends at (i+1) · 0.25 s, and does not depend on later audio. The last
frame is 25 ms long, so a token covers 0.975 s, 15600 samples. Before the start is silence.

Nothing is downloaded. A weights file is a .safetensors or .npz file with the tensors listed by `parameters_of(VGGish)`
or `parameters_of(YAMNet)`, in PyTorch's layout. The names are those of the public PyTorch conversions (torchvggish,
torch_audioset), so a checkpoint of these is converted by

    safetensors.torch.save_file(torch.load("vggish.pth", weights_only=True), "vggish.safetensors")
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nystream.data.audio_file import SAMPLE_RATE
from nystream.data.mel import BANDS, FRAME, HOP, VGGISH_OFFSET, YAMNET_OFFSET, LogMel
from nystream.lab.tasks.audio.weights import assign, read_weights

FRAMES = 96  # per token
TOKEN_HOP = SAMPLE_RATE // 4  # samples from one token to the next: 0.25 s, 25 frames
TOKEN_SAMPLES = (FRAMES - 1) * HOP + FRAME  # per token: 15600, 0.975 s
BATCH = 32  # tokens that go through the network together


class Embedder(nn.Module, ABC):
    """Audio in, tokens out. A subclass embeds a patch of 96 frames."""

    dim: ClassVar[int]  # width of a token
    offset: ClassVar[float]  # of the logarithm
    unneeded: ClassVar[tuple[str, ...]] = ()  # prefixes of other tensors in public files
    ones: ClassVar[tuple[str, ...]] = ()  # suffixes of tensors that default to ones

    def __init__(self) -> None:
        super().__init__()
        self.mel = LogMel(self.offset)

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """Load the weights from a .safetensors or .npz file."""
        weights = read_weights(Path(path))
        embedder = cls()
        try:
            assign(embedder, weights, cls.unneeded, cls.ones)
        except ValueError as error:
            raise ValueError(f"{path} does not have the weights of {cls.__name__}: {error}") from error
        return embedder.requires_grad_(False).eval()

    @abstractmethod
    def patch_token(self, patch: Tensor) -> Tensor:
        """Log-mel patches [B, 1, 96, 64] to tokens [B, dim]."""

    def forward(self, samples: Tensor) -> Tensor:
        """[T] samples at 16 kHz, -1 to 1, to [T // 4000, dim]: one token per quarter of a second."""
        if samples.dim() != 1 or len(samples) < TOKEN_HOP:
            raise ValueError(f"samples is {list(samples.shape)}, but must be [T] with T at least {TOKEN_HOP}")
        count = len(samples) // TOKEN_HOP
        padded = F.pad(samples[: count * TOKEN_HOP], (TOKEN_SAMPLES - TOKEN_HOP, 0))
        frames = self.mel(padded)  # [96 + 25 * (count - 1), 64]
        patches = frames.unfold(0, FRAMES, TOKEN_HOP // HOP).transpose(1, 2).unsqueeze(1)  # [count, 1, 96, 64]
        return torch.cat([self.patch_token(batch) for batch in patches.split(BATCH)])


class VGGish(Embedder):
    """Six 3×3 convolutions with four halvings, then three dense layers: a token of 128.

    The last layer is linear: tokens are the outputs before any activation, whitening or rounding to 8 bits.
    In a weights file: `features.{0,3,6,8,11,13}.weight` [wider, width, 3, 3] and `.bias` [wider], then
    `embeddings.{0,2,4}.weight` [4096, 12288], [4096, 4096], [128, 4096] and `.bias`.
    """

    dim = 128
    offset = VGGISH_OFFSET
    unneeded = ("pproc.",)

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        width = 1
        for group in ((64,), (128,), (256, 256), (512, 512)):
            for wider in group:
                layers += [nn.Conv2d(width, wider, 3, padding=1), nn.ReLU()]
                width = wider
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        flat = width * (FRAMES // 16) * (BANDS // 16)
        self.embeddings = nn.Sequential(
            nn.Linear(flat, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, self.dim)
        )

    def patch_token(self, patch: Tensor) -> Tensor:
        features = self.features(patch)  # [B, 512, 6, 4]
        # The dense weights were trained with the channels innermost.
        return self.embeddings(features.permute(0, 2, 3, 1).flatten(1))


class YAMNet(Embedder):
    """MobileNet v1: a 3×3 convolution, thirteen depthwise-separable ones, and their mean: a token of 1024.

    In a weights file: `layer1.fused.conv.weight` [32, 1, 3, 3]; for layers 2 to 14, of `width` channels in and `wider`
    out, `layer2.depthwise_conv.conv.weight` [width, 1, 3, 3] and `layer2.pointwise_conv.conv.weight`
    [wider, width, 1, 1]; beside each `conv.weight`, a `bn.bias`, `bn.running_mean` and `bn.running_var`. A `bn.weight`
    is optional: YAMNet was trained without. A classifier in the file is ignored.
    """

    dim = 1024
    offset = YAMNET_OFFSET
    unneeded = ("classifier.",)
    ones = ("bn.weight",)

    WIDTHS: ClassVar[tuple[int, ...]] = (32, 64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024)
    HALVING: ClassVar[tuple[int, ...]] = (1, 3, 5, 7, 13)  # layers with stride 2

    def __init__(self) -> None:
        super().__init__()
        self.layer1 = nn.ModuleDict({"fused": _Convolution(1, self.WIDTHS[0], 3, stride=2)})
        for number, (width, wider) in enumerate(pairwise(self.WIDTHS), start=2):
            stride = 2 if number in self.HALVING else 1
            parts = {
                "depthwise_conv": _Convolution(width, width, 3, stride, groups=width),
                "pointwise_conv": _Convolution(width, wider, 1),
            }
            self.add_module(f"layer{number}", nn.ModuleDict(parts))

    def patch_token(self, patch: Tensor) -> Tensor:
        for number in range(1, len(self.WIDTHS) + 1):
            for part in self.get_submodule(f"layer{number}").children():
                patch = part(patch)
        return patch.mean((2, 3))  # of [B, 1024, 3, 2]


class _Convolution(nn.Module):
    """Convolution, batch normalisation and ReLU."""

    def __init__(self, width: int, wider: int, size: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, wider, size, stride, groups=groups, bias=False)
        self.bn = nn.BatchNorm2d(wider, eps=1e-4)
        # As in TensorFlow: with stride 2 over an even length, padding only at the end.
        before = 1 if size == 3 and stride == 1 else 0
        after = 1 if size == 3 else 0
        self.padding = (before, after, before, after)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.bn(self.conv(F.pad(x, self.padding))))


def parameters_of(embedder: type[Embedder]) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors that a weights file of this network must have."""
    with torch.device("meta"):
        weights = embedder().state_dict()
    return {name: tuple(value.shape) for name, value in weights.items() if not name.endswith("num_batches_tracked")}

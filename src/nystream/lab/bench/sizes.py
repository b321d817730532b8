"""The models that are measured: the same weights with every attention that is compared."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nystream.config import AttentionConfig, ModelConfig
from nystream.config.option import option
from nystream.layers.attention import MultiheadAttention
from nystream.models.stream_model import StreamModel


@dataclass(frozen=True)
class ModelSizes:
    """The sizes of a model; by default, those of the GTZAN task."""

    window: int = option(120, "Window length n, in tokens.")
    embed_dim: int = option(192, "Width d of a token inside the model.")
    num_heads: int = option(16, "Number of heads, each embed_dim / num_heads wide.")
    landmarks: int = option(4, "Number of landmarks m of low-rank variants.")
    ff_dim: int = option(192, "Inner width of the feed-forward part.")
    layers: int = option(1, "Number of blocks; several form a deep stack.")
    input_dim: int = option(128, "Width of an input token.")
    output_dim: int = option(10, "Width of an output.")

    def attention(self, variant: str) -> AttentionConfig:
        return AttentionConfig(variant, self.embed_dim, self.num_heads, self.window, self.landmarks)

    def config(self, variant: str, **options: Any) -> ModelConfig:
        """The config of a model of these sizes, with further fields in `options`."""
        return ModelConfig(
            input_dim=self.input_dim,
            output_dim=self.output_dim,
            attention=self.attention(variant),
            layers=self.layers,
            ff_dim=self.ff_dim,
            **{"num_positions": min(self.window, 1024)} | options,  # 16,384 rows would be most of the model
        )

    def replace(self, **sizes: int) -> ModelSizes:
        return dataclasses.replace(self, **sizes)


def build_model(sizes: ModelSizes, seed: int = 0) -> StreamModel:
    """A co-fixed-single model with random weights and landmarks, ready to stream."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = StreamModel(sizes.config("co-fixed-single")).eval().requires_grad_(False)
        for block in model.encoder.blocks:
            _sharpen(block.attention)
    return model


def build_attention(sizes: ModelSizes, seed: int = 0) -> MultiheadAttention:
    """A co-fixed-single attention with random landmarks."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        attn = MultiheadAttention(sizes.attention("co-fixed-single")).eval().requires_grad_(False)
        _sharpen(attn)
    return attn


def twin(model: StreamModel, sizes: ModelSizes, variant: str, **options: Any) -> StreamModel:
    """A model with the same weights and another attention; `options` are further changes to its config."""
    other = StreamModel(sizes.config(variant, **options)).eval().requires_grad_(False)
    weights = model.state_dict()
    other.load_state_dict({name: weights[name] for name in other.state_dict()})
    return other


def tokens(count: int, width: int, seed: int = 0) -> Tensor:
    """[T, width]: a random stream."""
    return torch.randn(count, width, generator=torch.Generator().manual_seed(seed))


def double(model: StreamModel) -> StreamModel:
    """A float64 copy."""
    other = StreamModel(model.config, dtype=torch.float64).eval().requires_grad_(False)
    other.load_state_dict(model.state_dict())
    return other


def _sharpen(attn: MultiheadAttention) -> None:
    """Make the attention sharp: untrained weights would attend to all tokens alike, and errors would not show."""
    cfg = attn.config
    for layer in (attn.q_proj, attn.k_proj):
        nn.init.xavier_normal_(layer.weight, gain=2.0)
    shape = (cfg.num_heads, cfg.m, cfg.head_dim)
    attn.set_landmarks(torch.randn(shape), torch.randn(shape))

"""The model of a pool: what it must be, and the copy that the pool keeps."""

from __future__ import annotations

import copy

import torch

from nystream.config import AttentionConfig, EncoderConfig
from nystream.layers.attention import MultiheadAttention
from nystream.layers.encoder import StreamEncoder
from nystream.models.stream_model import StreamModel

Model = StreamModel | StreamEncoder | MultiheadAttention


def variant_of(cfg: AttentionConfig | EncoderConfig) -> str:
    return cfg.variant if isinstance(cfg, AttentionConfig) else cfg.blocks[-1].variant


def check_model(model: object) -> None:
    """Raise if `model` cannot be streamed, or has more than one output per token."""
    if not isinstance(model, Model):
        raise TypeError(
            f"model is a {type(model).__name__}, but must be a StreamModel, a StreamEncoder or a MultiheadAttention"
        )
    if not model.config.single:
        raise ValueError(
            f"model is a {type(model).__name__} of variant {variant_of(model.config)!r}, which returns all "
            f"{model.config.window} rows of its window at every step, but a pool needs only the newest; use a variant "
            f"that ends in -single, or a StreamModel"
        )
    if any(x.is_meta for x in model.parameters()):
        raise ValueError("model has weights on the meta device, which have no values; load them first")


def own_copy(model: Model) -> Model:
    """A copy of the model, ready to stream."""
    with torch.inference_mode(False), torch.no_grad():
        own = copy.deepcopy(model).eval().requires_grad_(False)
        own.zero_grad()
        for part in own.modules():
            if isinstance(part, MultiheadAttention):
                if part.config.fixed:
                    part.learn_landmarks(False)  # with buffers Γ† is computed once; with parameters, at every step
                part.require_landmarks()
    return own

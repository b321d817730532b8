"""Configurations: frozen dataclasses that are validated on creation."""

from nystream.config.attention import PINVS, AttentionConfig
from nystream.config.info import ModelInfo
from nystream.config.linear import LinearConfig
from nystream.config.model import EncoderConfig, ModelConfig
from nystream.variants import RECOMPUTE_BELOW, VARIANTS

__all__ = [
    "PINVS",
    "RECOMPUTE_BELOW",
    "VARIANTS",
    "AttentionConfig",
    "EncoderConfig",
    "LinearConfig",
    "ModelConfig",
    "ModelInfo",
]

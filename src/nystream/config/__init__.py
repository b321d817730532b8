"""Configurations: frozen dataclasses that are checked when they are made."""

from nystream.config.attention import NO_SUMS, PINVS, RECOMPUTE_BELOW, SUMS, VARIANTS, AttentionConfig
from nystream.config.info import ModelInfo
from nystream.config.model import EncoderConfig, ModelConfig

__all__ = [
    "NO_SUMS",
    "PINVS",
    "RECOMPUTE_BELOW",
    "SUMS",
    "VARIANTS",
    "AttentionConfig",
    "EncoderConfig",
    "ModelConfig",
    "ModelInfo",
]

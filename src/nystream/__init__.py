"""nystream: continual low-rank attention, for streams without end."""

from nystream import costs, state, testing
from nystream.config import VARIANTS, AttentionConfig, EncoderConfig, ModelConfig, ModelInfo
from nystream.layers.attention import MultiheadAttention
from nystream.layers.encoder import StreamEncoder
from nystream.models.stream_model import StreamModel
from nystream.state import load_state, save_state
from nystream.version import __version__

__all__ = [
    "VARIANTS",
    "AttentionConfig",
    "EncoderConfig",
    "ModelConfig",
    "ModelInfo",
    "MultiheadAttention",
    "StreamEncoder",
    "StreamModel",
    "__version__",
    "costs",
    "load_state",
    "save_state",
    "state",
    "testing",
]

"""nystream: continual low-rank attention, for streams without end."""

from nystream import costs, state, stream, testing, train
from nystream.compat import continual, from_torch
from nystream.config import VARIANTS, AttentionConfig, EncoderConfig, ModelConfig, ModelInfo
from nystream.landmarks import fit_landmarks
from nystream.layers.attention import MultiheadAttention
from nystream.layers.encoder import StreamEncoder
from nystream.models.stream_model import StreamModel
from nystream.state import load_state, save_state
from nystream.stream import StreamPool
from nystream.train.two_phase import train_two_phase
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
    "StreamPool",
    "__version__",
    "continual",
    "costs",
    "fit_landmarks",
    "from_torch",
    "load_state",
    "save_state",
    "state",
    "stream",
    "testing",
    "train",
    "train_two_phase",
]

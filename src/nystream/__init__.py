"""nystream: continual low-rank attention, for streams without end."""

from nystream import costs, state, testing
from nystream.config import VARIANTS, AttentionConfig
from nystream.layers.attention import MultiheadAttention
from nystream.state import load_state, save_state

__version__ = "0.1.0"

__all__ = ["VARIANTS", "AttentionConfig", "MultiheadAttention", "costs", "load_state", "save_state", "state", "testing"]

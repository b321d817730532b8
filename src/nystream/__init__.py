"""nystream: continual low-rank attention, for streams without end."""

from typing import TYPE_CHECKING, Any

from nystream.version import __version__

if TYPE_CHECKING:
    from nystream import costs, state, stream, testing, train
    from nystream.compat.continual import continual
    from nystream.compat.torch_encoder import from_torch
    from nystream.config import VARIANTS, AttentionConfig, EncoderConfig, ModelConfig, ModelInfo
    from nystream.landmarks import fit_landmarks
    from nystream.layers.attention import MultiheadAttention
    from nystream.layers.encoder import StreamEncoder
    from nystream.models.stream_model import StreamModel
    from nystream.state import load_state, save_state
    from nystream.stream import StreamPool
    from nystream.train.two_phase import train_two_phase

else:
    HOMES = {
        "compat": ("continual", "from_torch"),
        "config": ("VARIANTS", "AttentionConfig", "EncoderConfig", "ModelConfig", "ModelInfo"),
        "landmarks": ("fit_landmarks",),
        "layers.attention": ("MultiheadAttention",),
        "layers.encoder": ("StreamEncoder",),
        "models.stream_model": ("StreamModel",),
        "state": ("load_state", "save_state"),
        "stream": ("StreamPool",),
        "train.two_phase": ("train_two_phase",),
    }

    def __getattr__(name: str) -> Any:
        """Import what is asked for. Torch takes a second: the command gives help, and can be stopped, before that."""
        from importlib import import_module

        for home, names in HOMES.items():
            if name in names:
                found = globals()[name] = getattr(import_module(f"nystream.{home}"), name)
                return found
        try:
            return import_module(f"nystream.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"nystream.{name}":
                raise
            raise AttributeError(f"module 'nystream' has no attribute {name!r}") from None

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


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

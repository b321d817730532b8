"""nystream: continual low-rank attention for streams of any length."""

from typing import TYPE_CHECKING, Any

from nystream.version import __version__

if TYPE_CHECKING:
    from nystream import costs, state, stream, testing, train, variants
    from nystream.compat.continual import continual
    from nystream.compat.torch_encoder import from_torch
    from nystream.config import AttentionConfig, EncoderConfig, LinearConfig, ModelConfig, ModelInfo
    from nystream.estimators import Classifier as Classifier
    from nystream.estimators import Detector as Detector
    from nystream.estimators import Forecaster as Forecaster
    from nystream.export import OnnxStream, export_onnx
    from nystream.landmarks import fit_landmarks
    from nystream.layers.attention import MultiheadAttention
    from nystream.layers.encoder import StreamEncoder
    from nystream.models.stream_model import StreamModel
    from nystream.serve import AsyncClient, Client
    from nystream.state import load_state, save_state
    from nystream.stream import StreamPool
    from nystream.train.two_phase import train_two_phase
    from nystream.variants import VARIANTS, Variant, register_variant

else:
    from importlib import import_module as _import_module
    from threading import RLock as _RLock

    # Where each name is imported from: the package rather than the submodule where possible, because one thread that
    # starts with a submodule and another that starts with its package can wait for each other's import lock.
    _SOURCES = {
        "compat": ("continual", "from_torch"),
        "config": ("AttentionConfig", "EncoderConfig", "LinearConfig", "ModelConfig", "ModelInfo"),
        "estimators": ("Classifier", "Detector", "Forecaster"),
        "export": ("OnnxStream", "export_onnx"),
        "landmarks": ("fit_landmarks",),
        "layers": ("MultiheadAttention",),
        "layers.encoder": ("StreamEncoder",),
        "models": ("StreamModel",),
        "serve": ("AsyncClient", "Client"),
        "state": ("load_state", "save_state"),
        "stream": ("StreamPool",),
        "train": ("train_two_phase",),
        "variants": ("VARIANTS", "Variant", "register_variant"),
    }
    _import_lock = _RLock()

    def __getattr__(name: str) -> Any:
        """Import on first use: torch takes a second to import, and the command's --help should not have to wait."""
        missing = AttributeError(f"module 'nystream' has no attribute {name!r}")
        if name.startswith("__") or not name.isidentifier():
            raise missing
        with _import_lock:
            for source, names in _SOURCES.items():
                if name in names:
                    value = globals()[name] = getattr(_import_module(f"nystream.{source}"), name)
                    return value
            try:
                return _import_module(f"nystream.{name}")
            except ModuleNotFoundError as error:
                if error.name != f"nystream.{name}":
                    raise
                raise missing from None

    def __dir__() -> list[str]:
        return sorted({*(name for name in globals() if name.startswith("__")), *__all__, *_SOURCES["estimators"]})


# Without the estimators: they need scikit-learn, which is optional, so `from nystream import *` must not import them.
__all__ = [
    "VARIANTS",
    "AsyncClient",
    "AttentionConfig",
    "Client",
    "EncoderConfig",
    "LinearConfig",
    "ModelConfig",
    "ModelInfo",
    "MultiheadAttention",
    "OnnxStream",
    "StreamEncoder",
    "StreamModel",
    "StreamPool",
    "Variant",
    "__version__",
    "continual",
    "costs",
    "export_onnx",
    "fit_landmarks",
    "from_torch",
    "load_state",
    "register_variant",
    "save_state",
    "state",
    "stream",
    "testing",
    "train",
    "train_two_phase",
    "variants",
]

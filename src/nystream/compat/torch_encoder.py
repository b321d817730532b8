"""Conversion of `torch.nn.TransformerEncoder` into a `StreamEncoder`."""

from __future__ import annotations

from typing import Any, Unpack

from torch import nn

from nystream.compat.untouched import require_untouched
from nystream.compat.weights import EncoderLayer, Options, assemble
from nystream.config.model import Stack
from nystream.layers.encoder import StreamEncoder

# A subclass that overrides one of these methods computes something else.
_LAYER_METHODS = ("__call__", "forward", "_sa_block", "_ff_block")


def from_torch(
    encoder: nn.TransformerEncoder | nn.TransformerEncoderLayer,
    variant: str = "full",
    window: int | None = None,
    landmarks: int | None = None,
    *,
    stack: Stack = "paper",
    attention_dropout: float = 0.0,
    **options: Unpack[Options],
) -> StreamEncoder:
    """Convert a torch encoder into a `StreamEncoder` of any variant, with the same weights, norms and activation.

    With variant="full" the outputs for a window are those of the encoder. The other variants use the same weights in
    continual attention, low-rank attention, or both; fixed landmarks must then be fitted. Tokens are always [B, n, E],
    whatever the `batch_first` of the encoder. Device, dtype, `requires_grad` and training mode are those of the
    encoder, which is not modified. An encoder with hooks, parametrizations (weight_norm, spectral_norm) or a custom
    `forward` is an error, because only weights can be converted.

    Args:
        encoder: A `torch.nn.TransformerEncoder`, or one of its layers.
        variant: One of `nystream.VARIANTS`. In a stack, it selects the family.
        window: Number of tokens n that a token attends to: the length of the sequences the encoder was trained on.
        landmarks: Number of landmarks m, for the Nyström variants.
        stack: "paper", whose outputs are those of the window, or "deep". With variant="co-full-single", "deep" is the
            encoder with a causal mask.
        attention_dropout: Dropout of the attention weights. It is not copied from the encoder, because low-rank
            attention has no such weights. All other dropouts are copied.
        options: `pinv`, `pinv_iters`, `pinv_ridge`, `update_size` and `sums`, as in `AttentionConfig`.

    Example:
        >>> import torch, nystream as ns
        >>> layer = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
        >>> original = torch.nn.TransformerEncoder(layer, num_layers=2).eval()
        >>> encoder = ns.from_torch(original, "full", window=10)
        >>> x = torch.randn(3, 10, 16)
        >>> torch.allclose(encoder(x), original(x), atol=1e-5)
        True
    """
    if window is None:
        raise TypeError("window= is required: the number of tokens a token attends to, which the weights do not show")
    layers, norm = _parts(encoder)
    require_untouched(encoder, "encoder")
    new = assemble(
        layers,
        norm,
        variant=variant,
        window=window,
        landmarks=landmarks,
        stack=stack,
        attention_dropout=attention_dropout,
        options=options,
    )
    return new.train(encoder.training)


def _parts(encoder: object) -> tuple[list[EncoderLayer], nn.LayerNorm | None]:
    if isinstance(encoder, nn.TransformerEncoderLayer):
        return [_layer(encoder, "encoder")], None
    if not isinstance(encoder, nn.TransformerEncoder):
        raise TypeError(
            f"encoder is a {type(encoder).__name__}, but must be a torch.nn.TransformerEncoder or one of its layers"
        )
    _check_kind("encoder", encoder, nn.TransformerEncoder)
    if not len(encoder.layers):
        raise ValueError("encoder has no layers, but must have at least one")
    if encoder.norm is not None:
        _check_kind("encoder.norm", encoder.norm, nn.LayerNorm)
    return [_layer(layer, f"encoder.layers[{i}]") for i, layer in enumerate(encoder.layers)], encoder.norm  # type: ignore[return-value]


def _layer(layer: Any, where: str) -> EncoderLayer:
    _check_kind(where, layer, nn.TransformerEncoderLayer, _LAYER_METHODS)
    kinds = {
        "self_attn": nn.MultiheadAttention,
        "linear1": nn.Linear,
        "linear2": nn.Linear,
        "norm1": nn.LayerNorm,
        "norm2": nn.LayerNorm,
        "dropout1": nn.Dropout,
        "dropout": nn.Dropout,
        "dropout2": nn.Dropout,
    }
    for name, kind in kinds.items():
        _check_kind(f"{where}.{name}", getattr(layer, name), kind)
    _check_kind(f"{where}.self_attn.out_proj", layer.self_attn.out_proj, nn.Linear)
    return EncoderLayer(
        where,
        layer.self_attn,
        layer.linear1,
        layer.linear2,
        layer.norm1,
        layer.norm2,
        layer.activation,
        layer.norm_first,
        (layer.dropout1.p, layer.dropout.p, layer.dropout2.p),
    )


def _check_kind(where: str, module: object, kind: type, methods: tuple[str, ...] = ("__call__", "forward")) -> None:
    """Raise if a module has another type, or is a subclass that computes something else."""
    if not isinstance(module, kind):
        problem = f"is a {type(module).__name__}"
    elif changed := [m for m in methods if getattr(type(module), m) is not getattr(kind, m) or m in vars(module)]:
        problem = f"is a {type(module).__name__} that overrides {changed[0]}()"
    else:
        return
    raise TypeError(
        f"{where} {problem}, but must be a torch.nn.{kind.__name__}; replace it, "
        f"or create a StreamEncoder and copy the weights that fit"
    )

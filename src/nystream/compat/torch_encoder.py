"""torch.nn.TransformerEncoder, made a StreamEncoder."""

from __future__ import annotations

from typing import Any, Unpack

from torch import nn

from nystream.compat.untouched import require_untouched
from nystream.compat.weights import Layer, Options, assemble
from nystream.config.model import Stack
from nystream.layers.encoder import StreamEncoder

# What a layer computes is in these methods; a subclass that changes one of them is another layer.
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
    """Take an encoder's weights, norms and activation into any of the nine attentions.

    With "full" the result maps windows as the encoder did; tokens are [B, n, E] here, whatever its `batch_first`. The
    others compute the same weights' attention continually, through landmarks, or both. Fixed landmarks must then be
    fitted. Device, dtype, what is frozen and train or eval mode follow the encoder, which stays as it was. Weights are
    all that is taken over: an encoder with hooks, parametrizations (weight_norm, spectral_norm) or a `forward` of its
    own is refused.

    Args:
        encoder: a torch.nn.TransformerEncoder, or one layer of it.
        variant: one of `nystream.VARIANTS`; in a stack its name picks the family.
        window: how many tokens n a token attends to. Give the length of the sequences it was trained on.
        landmarks: number of landmarks m, for the Nyström variants.
        stack: "paper", whose outputs are those of the window, or "deep". With "co-full-single", "deep" is the encoder
            under a causal mask.
        attention_dropout: of the attention weights in training. The encoder's own is not taken over, because low-rank
            attention has no such weights; the other dropouts are.
        options: `pinv`, `pinv_iters`, `pinv_ridge`, `update_size` and `sums`, as in AttentionConfig.

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
        raise TypeError("window= is missing: how many tokens a token attends to, which an encoder's weights do not say")
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


def _parts(encoder: object) -> tuple[list[Layer], nn.LayerNorm | None]:
    if isinstance(encoder, nn.TransformerEncoderLayer):
        return [_layer(encoder, "encoder")], None
    if not isinstance(encoder, nn.TransformerEncoder):
        raise TypeError(
            f"encoder is a {type(encoder).__name__}, but must be a torch.nn.TransformerEncoder or one of its layers"
        )
    _check_kind("encoder", encoder, nn.TransformerEncoder)
    if not len(encoder.layers):
        raise ValueError("encoder has no layers, and at least one is needed")
    if encoder.norm is not None:
        _check_kind("encoder.norm", encoder.norm, nn.LayerNorm)
    return [_layer(layer, f"encoder.layers[{i}]") for i, layer in enumerate(encoder.layers)], encoder.norm  # type: ignore[return-value]


def _layer(layer: Any, where: str) -> Layer:
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
    return Layer(
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
    """Refuse a module that is not what it seems: of another type, or a subclass that computes something else."""
    if not isinstance(module, kind):
        what = f"is a {type(module).__name__}"
    elif changed := [m for m in methods if getattr(type(module), m) is not getattr(kind, m) or m in vars(module)]:
        what = f"is a {type(module).__name__} with a {changed[0]}() of its own"
    else:
        return
    raise TypeError(
        f"{where} {what}, but must be a torch.nn.{kind.__name__}; replace it, "
        f"or build a StreamEncoder and copy the weights that fit"
    )

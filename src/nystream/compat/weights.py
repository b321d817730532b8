"""Assembling a `StreamEncoder` from the parts of another library's encoder layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypedDict

import torch
from torch import Tensor, nn

from nystream.config import AttentionConfig, EncoderConfig
from nystream.config.attention import Pinv, Sums
from nystream.config.model import Stack
from nystream.layers.block import EncoderBlock
from nystream.layers.encoder import StreamEncoder


class Options(TypedDict, total=False):
    """The fields of an `AttentionConfig` that do not follow from the weights."""

    pinv: Pinv
    pinv_iters: int
    pinv_ridge: float
    update_size: int
    sums: Sums


class EncoderLayer(NamedTuple):
    """The parts of one encoder layer."""

    where: str  # its name in error messages
    attention: nn.MultiheadAttention
    linear1: nn.Linear
    linear2: nn.Linear
    norm1: nn.LayerNorm
    norm2: nn.LayerNorm
    activation: object
    norm_first: bool
    dropout: tuple[float, ...]  # after the attention, inside the feed-forward network and after it

    def traits(self) -> dict[str, Any]:
        """Return the properties that must be the same in all blocks of an encoder."""
        weight = self.linear1.weight
        return {
            "embed_dim": self.attention.embed_dim,
            "num_heads": self.attention.num_heads,
            "ff_dim": self.linear1.out_features,
            "norm_first": self.norm_first,
            "activation": activation_name(self.activation, self.where),
            "norm eps": self.norm1.eps,
            "dropout": self.dropout[0],
            "dtype": weight.dtype,
            "device": weight.device,
        }


def assemble(
    layers: Sequence[EncoderLayer],
    final_norm: nn.LayerNorm | None,
    *,
    variant: str,
    window: int,
    landmarks: int | None,
    stack: Stack,
    attention_dropout: float,
    options: Options,
) -> StreamEncoder:
    """Create a `StreamEncoder` from layers, with their device and dtype."""
    unknown = sorted(set(options) - set(Options.__annotations__))
    if unknown:
        raise TypeError(f"{unknown[0]}= is not an option; the options are {', '.join(Options.__annotations__)}")
    traits = _common(layers, final_norm)
    biases = [bias for layer in layers for bias in (layer.attention.in_proj_bias, layer.attention.out_proj.bias)]
    attention = AttentionConfig(
        variant,
        embed_dim=traits["embed_dim"],
        num_heads=traits["num_heads"],
        window=window,
        landmarks=landmarks,
        bias=any(bias is not None for bias in biases),
        dropout=attention_dropout,
        **options,
    )
    config = EncoderConfig(
        attention=attention,
        layers=len(layers),
        ff_dim=traits["ff_dim"],
        stack=stack,
        norm="pre" if traits["norm_first"] else "post",
        activation=traits["activation"],
        dropout=traits["dropout"],
        final_norm=final_norm is not None,
        norm_eps=traits["norm eps"],
    )
    encoder = StreamEncoder(config, device=traits["device"], dtype=traits["dtype"])
    for block, layer in zip(encoder.blocks, layers, strict=True):
        _fill_block(block, layer)
    if final_norm is not None:
        _fill(encoder.norm, final_norm.weight, final_norm.bias)
    return encoder


def activation_name(activation: object, where: str) -> str:
    """Return the name of an activation function or module, as in `EncoderConfig.activation`."""
    if activation in (nn.functional.relu, torch.relu) or type(activation) is nn.ReLU:
        return "relu"
    if activation is nn.functional.gelu or (type(activation) is nn.GELU and activation.approximate == "none"):
        return "gelu"
    raise ValueError(
        f"{where}.activation is {activation!r}, but must be ReLU or the exact GELU; convert the encoder with one of "
        f"them, and set block.activation of every block afterwards (the config does not record it)"
    )


def _common(layers: Sequence[EncoderLayer], final_norm: nn.LayerNorm | None) -> dict[str, Any]:
    """Return the properties that all layers have in common, or raise if they differ."""
    traits = layers[0].traits()
    for layer in layers:
        _check(layer)
        for name, value in layer.traits().items():
            if value != traits[name]:
                raise ValueError(
                    f"{layer.where} has {name} {value}, but {layers[0].where} has {traits[name]}; "
                    f"all blocks of an encoder must have the same: convert such layers one by one"
                )
    if final_norm is not None:
        _check_norm("norm", final_norm, traits["embed_dim"])
        if final_norm.eps != traits["norm eps"]:
            raise ValueError(
                f"norm.eps is {final_norm.eps}, but must be {traits['norm eps']}, as in the layers; set it first "
                f"(the outputs change by about the difference)"
            )
    return traits


def _check(layer: EncoderLayer) -> None:
    """Raise if a layer has something that an `EncoderBlock` does not."""
    where, attention, width = layer.where, layer.attention, layer.attention.embed_dim
    if attention.in_proj_weight is None:
        raise ValueError(
            f"{where}.self_attn has kdim={attention.kdim} and vdim={attention.vdim}, but both must be "
            f"embed_dim={width}, as keys and values are computed from the tokens"
        )
    for option, given in (("add_bias_kv", attention.bias_k is not None), ("add_zero_attn", attention.add_zero_attn)):
        if given:
            raise ValueError(
                f"{where}.self_attn has {option}=True, an extra token in every window, which is not supported; "
                f"train it with {option}=False"
            )
    for name, norm in (("norm1", layer.norm1), ("norm2", layer.norm2)):
        _check_norm(f"{where}.{name}", norm, width)
    if layer.norm1.eps != layer.norm2.eps:
        raise ValueError(f"{where} has norm1.eps {layer.norm1.eps} and norm2.eps {layer.norm2.eps}; they must be equal")
    if len(set(layer.dropout)) > 1:
        raise ValueError(
            f"{where} has dropouts of {', '.join(map(str, layer.dropout))} in different places, but a block has one; "
            f"make them equal (for evaluation, the value does not matter)"
        )


def _check_norm(where: str, norm: nn.LayerNorm, width: int) -> None:
    if tuple(norm.normalized_shape) != (width,):
        raise ValueError(f"{where}.normalized_shape is {list(norm.normalized_shape)}, but must be [{width}]")


def _fill_block(block: EncoderBlock, layer: EncoderLayer) -> None:
    theirs, ours = layer.attention, block.attention
    bias = theirs.in_proj_bias
    projections = (ours.q_proj, ours.k_proj, ours.v_proj)
    for place, projection in enumerate(projections):
        rows = slice(place * theirs.embed_dim, (place + 1) * theirs.embed_dim)
        _fill(projection, theirs.in_proj_weight, bias, rows)
    _fill(ours.out_proj, theirs.out_proj.weight, theirs.out_proj.bias)
    for name in ("linear1", "linear2", "norm1", "norm2"):
        source = getattr(layer, name)
        _fill(getattr(block, name), source.weight, source.bias)


def _fill(module: Any, weight: Tensor | None, bias: Tensor | None, rows: slice = slice(None)) -> None:
    """Copy weight and bias with their `requires_grad`. If the source has none, use constants: ones and zeros."""
    for name, source, neutral in (("weight", weight, 1.0), ("bias", bias, 0.0)):
        target = getattr(module, name)
        if target is None:
            continue
        with torch.no_grad():
            if source is None:
                target.fill_(neutral)
            else:
                target.copy_(source[rows])
        target.requires_grad_(source is not None and source.requires_grad)

"""From the parts of encoder layers, wherever they come from, to a StreamEncoder with the same weights."""

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
    """What an AttentionConfig can be told beyond what the weights say."""

    pinv: Pinv
    pinv_iters: int
    pinv_ridge: float
    update_size: int
    sums: Sums


class Layer(NamedTuple):
    """The parts of one encoder layer."""

    where: str  # what errors call it
    attention: nn.MultiheadAttention
    linear1: nn.Linear
    linear2: nn.Linear
    norm1: nn.LayerNorm
    norm2: nn.LayerNorm
    activation: object
    norm_first: bool
    dropout: tuple[float, ...]  # of features: after attention, inside the feed-forward and after it

    def traits(self) -> dict[str, Any]:
        """What an EncoderConfig says once for all blocks."""
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
    layers: Sequence[Layer],
    final_norm: nn.LayerNorm | None,
    *,
    variant: str,
    window: int,
    landmarks: int | None,
    stack: Stack,
    attention_dropout: float,
    options: Options,
) -> StreamEncoder:
    """A StreamEncoder of these layers, on their device and in their dtype."""
    unknown = sorted(set(options) - set(Options.__annotations__))
    if unknown:
        raise TypeError(f"{unknown[0]}= is not an option here; there are {', '.join(Options.__annotations__)}")
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
    """Which of ours a function or module is."""
    if activation in (nn.functional.relu, torch.relu) or type(activation) is nn.ReLU:
        return "relu"
    if activation is nn.functional.gelu or (type(activation) is nn.GELU and activation.approximate == "none"):
        return "gelu"
    raise ValueError(
        f"{where}.activation is {activation!r}, but a block has ReLU or the exact GELU; convert it with one of them "
        f"and set the activation of each of the encoder's blocks afterwards, which its config does not record"
    )


def _common(layers: Sequence[Layer], final_norm: nn.LayerNorm | None) -> dict[str, Any]:
    """The traits of all layers, which must be those of the first."""
    traits = layers[0].traits()
    for layer in layers:
        _check(layer)
        for name, value in layer.traits().items():
            if value != traits[name]:
                raise ValueError(
                    f"{layer.where} has {name} {value}, but {layers[0].where} has {traits[name]}; "
                    f"the blocks of one encoder must be alike: convert unlike layers one by one"
                )
    if final_norm is not None:
        _check_norm("norm", final_norm, traits["embed_dim"])
        if final_norm.eps != traits["norm eps"]:
            raise ValueError(
                f"norm.eps is {final_norm.eps}, but that of the layers is {traits['norm eps']}; an encoder has one: "
                f"set norm.eps to it first, which changes the outputs by about as much"
            )
    return traits


def _check(layer: Layer) -> None:
    """Refuse what a block has no place for."""
    where, attention, width = layer.where, layer.attention, layer.attention.embed_dim
    if attention.in_proj_weight is None:
        raise ValueError(
            f"{where}.self_attn has kdim={attention.kdim} and vdim={attention.vdim}, but keys and values come from the "
            f"tokens themselves: they must be embed_dim={width} wide"
        )
    for option, given in (("add_bias_kv", attention.bias_k is not None), ("add_zero_attn", attention.add_zero_attn)):
        if given:
            raise ValueError(
                f"{where}.self_attn has {option}=True: a token that is in every window and never leaves, "
                f"which no block has; train it with {option}=False"
            )
    for name, norm in (("norm1", layer.norm1), ("norm2", layer.norm2)):
        _check_norm(f"{where}.{name}", norm, width)
    if layer.norm1.eps != layer.norm2.eps:
        raise ValueError(f"{where} has norm1.eps {layer.norm1.eps} and norm2.eps {layer.norm2.eps}; they must be equal")
    if len(set(layer.dropout)) > 1:
        raise ValueError(
            f"{where} drops {', '.join(map(str, layer.dropout))} of the features in different places, "
            f"but a block has one dropout; make them equal (in evaluation it does not matter to what)"
        )


def _check_norm(where: str, norm: nn.LayerNorm, width: int) -> None:
    if tuple(norm.normalized_shape) != (width,):
        raise ValueError(f"{where} normalises over {list(norm.normalized_shape)}, but must do so over [{width}]")


def _fill_block(block: EncoderBlock, layer: Layer) -> None:
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
    """Copy, and let train what trained. What the source lacks is one or zero, for good: the same function."""
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

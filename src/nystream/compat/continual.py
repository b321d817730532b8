"""Compatibility with continual-inference (Hedegaard and Iosifidis): its interface, and conversion of its encoders.

The encoders of that package are `co-full` variants in a "paper" stack of post-norm blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any, Unpack

import torch
from torch import nn

from nystream.compat.stateful import Continual, Warmup
from nystream.compat.untouched import require_untouched
from nystream.compat.weights import EncoderLayer, Options, assemble
from nystream.config.model import Stack
from nystream.layers.attention import MultiheadAttention
from nystream.layers.block import ACTIVATIONS, EncoderBlock
from nystream.layers.encoder import StreamEncoder
from nystream.models.stream_model import StreamModel


def continual(module: MultiheadAttention | StreamEncoder | StreamModel, warmup: Warmup = "wait") -> Continual:
    """Wrap `module` in the stateful interface of continual-inference.

    The wrapper stores the state. It has `forward`, `forward_step`, `forward_steps`, `get_state`, `set_state`,
    `clean_state`, `warm_up`, `receptive_field` and `delay`, and takes [B, E] per step and [B, E, T] otherwise. If the
    package is installed, the wrapper also works inside `co.Sequential`.

    Args:
        module: A `MultiheadAttention`, `StreamEncoder` or `StreamModel`. It is shared, not copied.
        warmup: "wait" returns None until the window is full; "now" returns outputs from the first token on.

    Example:
        >>> import torch, nystream as ns
        >>> cfg = ns.AttentionConfig(
        ...     "co-cont-single", embed_dim=8, num_heads=2, window=3, landmarks=3
        ... )
        >>> net = ns.continual(ns.MultiheadAttention(cfg))
        >>> [net.forward_step(torch.randn(1, 8)) is None for _ in range(4)]
        [True, True, False, False]
        >>> net.delay, net.receptive_field
        (2, 3)
    """
    try:
        from nystream.compat.co_module import CoContinual
    except ImportError:
        return Continual(module, warmup)
    return CoContinual(module, warmup)


def from_continual(
    encoder: nn.Module,
    variant: str = "co-full-single",
    window: int | None = None,
    landmarks: int | None = None,
    *,
    stack: Stack = "paper",
    attention_dropout: float = 0.0,
    **options: Unpack[Options],
) -> StreamEncoder:
    """Convert a `co.TransformerEncoder`, or one of its layers, into a `StreamEncoder` of any variant.

    By default, the outputs are the same. The dropout differs: our blocks have dropout between attention and residual,
    the package's layers do not.

    Args:
        encoder: A `co.TransformerEncoder`, or a layer created by `co.SingleOutputTransformerEncoderLayer` or
            `co.RetroactiveTransformerEncoderLayer`.
        variant, landmarks, stack, attention_dropout, options: As in `from_torch`.
        window: Number of tokens n that a token attends to. Default: the `sequence_len` of the encoder.

    Example:
        >>> import continual as co, torch
        >>> from nystream.compat import from_continual
        >>> factory = co.TransformerEncoderLayerFactory(
        ...     d_model=8, nhead=2, dim_feedforward=16, sequence_len=4
        ... )
        >>> theirs = co.TransformerEncoder(factory, num_layers=1).eval()
        >>> ours = from_continual(theirs)
        >>> x = torch.randn(1, 4, 8)
        >>> torch.allclose(ours(x)[:, -1], theirs(x.mT)[:, :, -1], atol=1e-5)
        True
    """
    co = _package()
    kinds = (co.RetroactiveMultiheadAttention, co.SingleOutputMultiheadAttention)
    if not isinstance(encoder, co.TransformerEncoder) and not (isinstance(encoder, nn.Module) and _is_layer(encoder)):
        raise TypeError(
            f"encoder is a {type(encoder).__name__}, but must be a co.TransformerEncoder or one of its layers; "
            f"pass the encoder itself, without its container, or use nystream.from_torch for torch's encoders"
        )
    require_untouched(encoder, "encoder", packages=("continual",))
    layers = [_layer(layer, f"layer {i}", kinds) for i, layer in enumerate(_layers(encoder))]
    if not layers:
        raise ValueError("encoder has no layers, but must have at least one")
    lengths: list[int] = sorted({layer.attention.sequence_len for layer in layers})  # type: ignore[misc]
    if window is None and len(lengths) > 1:
        raise ValueError(f"encoder has layers with sequence_len {', '.join(map(str, lengths))}; specify window=")
    norm = encoder._modules.get("norm")
    new = assemble(
        layers,
        None if norm is None else _layer_norm(norm, "norm"),
        variant=variant,
        window=lengths[0] if window is None else window,
        landmarks=landmarks,
        stack=stack,
        attention_dropout=attention_dropout,
        options=options,
    )
    return new.train(encoder.training)


def to_continual(encoder: StreamEncoder) -> Any:
    """Convert an encoder of full attention, continual or not, into a `co.TransformerEncoder`.

    The result returns the newest row of every full window. The layers between the first and the last are the package's
    single-output layers over n rows. The residual of the first layer is an `AlignedUnity`. Unlike our blocks, the
    package's layers have no dropout between attention and residual.

    Example:
        >>> import torch, nystream as ns
        >>> cfg = ns.AttentionConfig("co-full-single", embed_dim=8, num_heads=2, window=4)
        >>> config = ns.EncoderConfig(attention=cfg, norm="post", final_norm=False)
        >>> ours = ns.StreamEncoder(config).eval()
        >>> theirs = ns.compat.to_continual(ours)
        >>> x = torch.randn(1, 9, 8)
        >>> y, _ = ours.steps(x, ours.init_state(1))
        >>> torch.allclose(theirs.forward_steps(x.mT).mT, y[:, 3:], atol=1e-5)
        True
    """
    co = _package()
    _check_expressible(encoder)
    cfg = encoder.config
    first = cfg.blocks[0]
    weight = encoder.blocks[0].linear1.weight

    def layer(kind: Any) -> Any:
        # A module, because the factory turns the name "gelu" into ReLU and cannot convert torch's function.
        factory = co.TransformerEncoderLayerFactory(
            d_model=cfg.embed_dim,
            nhead=first.num_heads,
            dim_feedforward=cfg.ff_dim,
            dropout=cfg.dropout,
            activation=nn.GELU() if cfg.activation == "gelu" else nn.ReLU(),
            layer_norm_eps=cfg.norm_eps,
            device=weight.device,
            dtype=weight.dtype,
            sequence_len=cfg.window,
        )
        return factory("single_output" if kind.value == "regular" else kind)

    norm = encoder.norm if isinstance(encoder.norm, nn.LayerNorm) else None
    new = co.TransformerEncoder(layer, len(encoder.blocks), _copy_of(norm))
    kinds = (co.RetroactiveMultiheadAttention, co.SingleOutputMultiheadAttention)
    for theirs, block in zip(_layers(new), encoder.blocks, strict=True):
        _fill(_layer(theirs, "layer", kinds), block)
        residual = theirs[0].residual
        if isinstance(residual, co.transformer.RetroactiveUnity):
            from nystream.compat.co_module import AlignedUnity

            theirs[0].residual = AlignedUnity(residual.delay)
    return new.train(encoder.training)


def _package() -> ModuleType:
    try:
        import continual as co  # type: ignore[import-untyped]
    except ImportError as error:
        raise ImportError(
            "the package continual-inference is not installed: pip install continual-inference"
        ) from error
    return co


def _is_layer(module: nn.Module) -> bool:
    children = list(module._modules.values())
    return len(children) == 2 and "self_attn" in getattr(children[0], "_modules", {})


def _layers(encoder: nn.Module) -> Iterator[Any]:
    return (module for module in encoder.modules() if _is_layer(module))


def _layer(layer: Any, where: str, kinds: tuple[Any, ...]) -> EncoderLayer:
    """Return the parts of a layer of the package, retroactive or single-output."""
    attention, rows = layer[0].self_attn, getattr(layer[1], "fn", layer[1])
    if type(attention) not in kinds:
        expected = " or ".join(f"co.{kind.__name__}" for kind in kinds)
        raise TypeError(f"{where}.self_attn is a {type(attention).__name__}, but must be a {expected}")
    if getattr(attention, "query_index", -1) != -1:
        raise ValueError(
            f"{where} has query_index={attention.query_index}, but must have query_index=-1: "
            f"a block returns the output of the newest token"
        )
    block = rows._ff_block
    feed_forward = getattr(block, "fn", None) or block[1]
    activation = getattr(feed_forward.activation, "fn", feed_forward.activation)
    dropout = feed_forward.dropout.p
    for name in ("linear1", "linear2"):
        linear = getattr(feed_forward, name)
        if type(linear) is not nn.Linear and type(linear) is not _package().Linear:
            raise TypeError(f"{where}.{name} is a {type(linear).__name__}, but must be a torch.nn.Linear or co.Linear")
    return EncoderLayer(
        where,
        attention,
        feed_forward.linear1,
        feed_forward.linear2,
        _layer_norm(rows.norm1, f"{where}.norm1"),
        _layer_norm(rows.norm2, f"{where}.norm2"),
        activation,
        False,
        (dropout, dropout, feed_forward.dropout2.p),
    )


def _layer_norm(module: Any, where: str) -> nn.LayerNorm:
    norm = getattr(module, "fn", module)
    if not isinstance(norm, nn.LayerNorm) or type(norm).forward is not nn.LayerNorm.forward:
        raise TypeError(f"{where} is a {type(norm).__name__}, but must be a torch.nn.LayerNorm")
    return norm


def _check_expressible(encoder: object) -> None:
    """Raise if the package has no layers that compute what the encoder computes."""
    if not isinstance(encoder, StreamEncoder):
        raise TypeError(
            f"encoder is a {type(encoder).__name__}, but must be a StreamEncoder (for a model, pass model.encoder)"
        )
    require_untouched(encoder, "encoder")
    cfg = encoder.config
    instead = "to use it with the package's modules, wrap it with nystream.continual(encoder)"
    for attention in cfg.blocks:
        if attention.low_rank or attention.record.family not in ("full", "co-full"):
            raise ValueError(f"variant {attention.variant!r} has no counterpart in continual-inference; {instead}")
    for i, block in enumerate(encoder.blocks):
        for name, part, kind in (("", block, EncoderBlock), (".attention", block.attention, MultiheadAttention)):
            if type(part) is not kind:
                raise TypeError(
                    f"encoder.blocks[{i}]{name} is a {type(part).__name__}, but must be a {kind.__name__}; {instead}"
                )
        if block.activation is not ACTIVATIONS[cfg.activation]:
            raise ValueError(
                f"encoder.blocks[{i}].activation is not {cfg.activation!r}, the activation in the config; {instead}"
            )
    if cfg.norm != "post":
        raise ValueError(f"norm={cfg.norm!r}, but the package's layers are post-norm; {instead}")
    if cfg.stack == "deep" and len(cfg.blocks) > 1:
        raise ValueError(f"stack='deep', but the package's encoders are like stack='paper'; {instead}")
    if cfg.update_size > 1:
        raise ValueError(f"update_size={cfg.update_size}, but the package takes one token per step; {instead}")
    if cfg.window == 1 and len(cfg.blocks) > 1:
        raise ValueError(f"window=1, but the package's retroactive layers need at least 2 tokens; {instead}")
    if len({block.num_heads for block in cfg.blocks}) > 1:
        raise ValueError(f"the blocks have different num_heads, but must have the same in the package; {instead}")


def _copy_of(norm: nn.LayerNorm | None) -> nn.LayerNorm | None:
    if norm is None:
        return None
    new = nn.LayerNorm(norm.normalized_shape, eps=norm.eps, device=norm.weight.device, dtype=norm.weight.dtype)
    new.load_state_dict(norm.state_dict())
    return new


@torch.no_grad()
def _fill(layer: EncoderLayer, block: EncoderBlock) -> None:
    """Copy the weights of a block into a layer of the package. Missing biases are zero."""
    theirs, ours = layer.attention, block.attention
    theirs.dropout = ours.config.dropout
    projections = (ours.q_proj, ours.k_proj, ours.v_proj)
    theirs.in_proj_weight.copy_(torch.cat([projection.weight for projection in projections]))
    theirs.out_proj.weight.copy_(ours.out_proj.weight)
    if ours.config.bias:
        theirs.in_proj_bias.copy_(torch.cat([projection.bias for projection in projections]))
        theirs.out_proj.bias.copy_(ours.out_proj.bias)
    else:
        theirs.in_proj_bias.zero_()
        theirs.out_proj.bias.zero_()
    for name in ("linear1", "linear2", "norm1", "norm2"):
        getattr(layer, name).load_state_dict(getattr(block, name).state_dict())

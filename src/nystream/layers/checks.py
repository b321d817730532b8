"""Validation of tensor arguments. Every error names the argument, its value and what is needed."""

from __future__ import annotations

import torch
from torch import Tensor

from nystream.config import AttentionConfig
from nystream.ops.tracing import tracing


def window(x: Tensor, cfg: AttentionConfig, lengths: Tensor | None) -> None:
    """Check `x` of `forward`: [B, T, E] with T at most n."""
    sequence("x", x, cfg.embed_dim)
    if x.shape[1] > cfg.window:
        raise ValueError(
            f"x has {x.shape[1]} tokens, but the window is {cfg.window}; "
            f"use steps() for sequences that are longer than the window"
        )
    if lengths is None:
        groups("x", x, cfg.update_size)
        return
    if x.shape[1] != cfg.window:
        raise ValueError(
            f"x has {x.shape[1]} positions, but with lengths= it must have {cfg.window}; pad shorter windows in front"
        )
    row_counts("lengths", lengths, x.shape[0], cfg.window, cfg)


def piece(x: Tensor, cfg: AttentionConfig) -> None:
    """Check `x` of `steps`: [B, T, E]."""
    sequence("x", x, cfg.embed_dim)
    groups("x", x, cfg.update_size)


def group(x: Tensor, cfg: AttentionConfig, width: int | None = None, what: str = "embed_dim") -> None:
    """Check `x` of `step`: [B, E], or [B, r, E]."""
    tensor("x", x)
    r, width = cfg.update_size, cfg.embed_dim if width is None else width
    need = f"[B, {width}] or [B, 1, {width}]" if r == 1 else f"[B, {r}, {width}]"
    fits = x.shape[-1:] == (width,) and ((x.dim() == 2 and r == 1) or (x.dim() == 3 and x.shape[1] == r))
    if not fits:
        raise ValueError(f"x is {list(x.shape)}, but step needs {need} (update_size={r}, {what}={width})")


def companion(name: str, other: Tensor, x: Tensor) -> None:
    """Check `key` or `value`: same shape and dtype as `x`."""
    tensor(name, other)
    if other.shape != x.shape:
        raise ValueError(f"{name} is {list(other.shape)}, but x is {list(x.shape)}; they must have the same shape")
    if other.dtype != x.dtype:
        raise ValueError(f"{name} is {other.dtype}, but x is {x.dtype}; they must have the same dtype")


def row_counts(name: str, counts: Tensor, batch: int, most: int, cfg: AttentionConfig) -> None:
    """Check `lengths`: integers [B] between 0 and `most`, multiples of `update_size`."""
    tensor(name, counts)
    # Shorter integers would overflow in n − lengths.
    if counts.dtype not in (torch.int64, torch.int32) or counts.shape != (batch,):
        raise ValueError(
            f"{name} is {counts.dtype} {list(counts.shape)}, but must be int64 or int32 [{batch}], one number per row"
        )
    if tracing():
        return
    wrong = (counts < 0) | (counts > most) | (counts % cfg.update_size != 0)
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0, 0])
        multiple = f" and a multiple of update_size={cfg.update_size}" if cfg.update_size > 1 else ""
        raise ValueError(f"{name}[{row}] is {int(counts[row])}, but must be between 0 and {most}{multiple}")


def resets(reset: Tensor, x: Tensor, cfg: AttentionConfig) -> None:
    """Check `reset`: bool [B, T], True only at the first token of a group of `update_size` tokens."""
    tensor("reset", reset)
    if reset.dtype != torch.bool or reset.shape != x.shape[:2]:
        raise ValueError(
            f"reset is {reset.dtype} {list(reset.shape)}, but must be bool {list(x.shape[:2])}, one value per token"
        )
    if cfg.update_size > 1 and not tracing():
        inside = reset & (torch.arange(x.shape[1], device=reset.device) % cfg.update_size != 0)
        if bool(inside.any()):
            row, token = inside.nonzero()[0].tolist()
            raise ValueError(
                f"reset[{row}, {token}] is True inside a group of update_size={cfg.update_size} tokens; "
                f"a stream can only start at the first token of a group"
            )


def layer(value: int, count: int) -> None:
    """Check `layer`: the index of a block."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < count:
        raise ValueError(f"layer={value!r} is not one of the {count} blocks, 0 to {count - 1}")


def dtype(x: Tensor, weight: Tensor) -> None:
    """Check that `x` has the dtype of the weights, unless autocast converts it."""
    if x.dtype != weight.dtype and not torch.is_autocast_enabled(x.device.type):
        raise ValueError(f"x is {x.dtype}, but the weights are {weight.dtype}; they must have the same dtype")


def mask(attn_mask: Tensor, x: Tensor, lengths: Tensor | None, cfg: AttentionConfig) -> None:
    """Check `attn_mask` of `forward`, which only some variants support."""
    tensor("attn_mask", attn_mask)
    if "attn_mask" not in cfg.record.options:
        why = "which never computes the n x n weights" if cfg.low_rank else "which could not apply it to a stream"
        raise ValueError(
            f"attn_mask= is not supported by variant {cfg.variant!r}, {why}; "
            f"use variant 'full', or lengths= for windows that are not full"
        )
    if attn_mask.dtype != torch.bool:
        raise ValueError(f"attn_mask is {attn_mask.dtype}, but must be bool, True where a query may attend to a key")
    want = (x.shape[0], cfg.num_heads, cfg.window, cfg.window)
    sizes = zip(reversed(attn_mask.shape), reversed(want), strict=False)
    if attn_mask.dim() > 4 or any(size not in (1, full) for size, full in sizes):
        raise ValueError(f"attn_mask is {list(attn_mask.shape)}, which cannot be broadcast to {list(want)}")
    if lengths is not None or x.shape[1] != cfg.window:
        raise ValueError("attn_mask= needs a full window, without lengths=")


def tensor(name: str, x: object) -> None:
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} is a {type(x).__name__}, but must be a torch.Tensor")


def sequence(name: str, x: Tensor, width: int, what: str = "embed_dim") -> None:
    """Check for [B, T, width] with at least one row and one token."""
    tensor(name, x)
    if x.dim() != 3 or x.shape[-1] != width:
        raise ValueError(f"{name} is {list(x.shape)}, but must be [B, T, {width}] (batch, tokens, {what})")
    if x.shape[0] == 0 or x.shape[1] == 0:
        missing = "rows" if x.shape[0] == 0 else "tokens"
        raise ValueError(f"{name} is {list(x.shape)}: it has no {missing}, but must have at least one")


def groups(name: str, x: Tensor, r: int) -> None:
    """Check that the number of tokens is a multiple of r."""
    if x.shape[1] % r:
        raise ValueError(f"{name} has {x.shape[1]} tokens, not a multiple of update_size={r}")

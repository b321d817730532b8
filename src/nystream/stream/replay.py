"""The state of a stream, rebuilt from its last tokens.

The window is finite and nothing drifts, so what a stream will say is a function of its last tokens and of its time. The
replay starts from an empty state at an earlier time, because positions and renewals of landmarks depend on the time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from nystream import times
from nystream.config import AttentionConfig
from nystream.stream import inputs


def replayed(model: Any, tokens: Any, position: int, dtype: np.dtype[Any]) -> Any:
    """The state of one stream that has read `position` tokens, from the last of them, [T, width]."""
    config = model.config
    times.check_start(position, config.update_size)
    array, width = inputs.numbers("tokens", tokens), getattr(config, "input_dim", config.embed_dim)
    if array.ndim != 2 or array.shape[1] != width:
        raise ValueError(f"tokens is {list(array.shape)}, but must be [T, {width}]")
    needed = min(position, config.replay_length)
    if not needed <= len(array) <= position:
        raise ValueError(
            f"tokens has {len(array)} rows, but a stream at position={position} needs at least its last {needed} "
            f"tokens, and has no more than {position}"
        )
    attentions = (config,) if isinstance(config, AttentionConfig) else config.blocks
    if any(cfg.form == "subtract" for cfg in attentions):
        raise ValueError("sums='subtract' keeps traces of all tokens; use sums='auto', or restore a snapshot")
    array = inputs.behaved(array[len(array) - needed :], dtype)
    if not np.isfinite(array).all():
        raise ValueError("tokens has numbers that are not finite")
    weight = next(model.parameters())
    with torch.no_grad(), torch.autocast(weight.device.type, enabled=False):
        state = model.init_state(1, time=position - needed)
        if not needed:
            return state
        x = torch.from_numpy(array)[None].to(weight.device, weight.dtype)
        return model.advance(x, state) if hasattr(model, "advance") else model.steps(x, state)[1]

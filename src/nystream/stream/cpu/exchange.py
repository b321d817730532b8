"""Between a state as torch lays it out and the block of float32 that the kernels work in.

The rings and the landmarks are the truth and go over as they are; the parts are a cache of them and are made anew on
either side, so the two may cut their windows differently.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from nystream.config import AttentionConfig
from nystream.layers.encoder import CascadeState
from nystream.ops import window
from nystream.ops.attention.co_cont_single import ContState
from nystream.ops.attention.co_fixed_single import FixedState
from nystream.ops.attention.co_full_single import KeyValueState
from nystream.stream.cpu import plan as p
from nystream.stream.cpu.sliding import FLOOR, TOTALS

Array = np.ndarray[Any, Any]


def write(block: Array, plan: Array, state: Any) -> None:
    """Fill a block from a state of one row; the parts are left to `rebuild`."""
    states = state.blocks if isinstance(state, CascadeState) else (state,)
    block[:2].view(np.int64)[0] = int(states[0].time[0])
    for index, held in enumerate(states):
        record = plan[p.MODEL + index * p.BLOCK :]
        for field, shape, values in _rings(record, held):
            _view(block, record[field], shape)[...] = values
        if not isinstance(held, KeyValueState):
            _forget(block, record)


def read(block: Array, plan: Array, like: Any, configs: tuple[AttentionConfig, ...]) -> Any:
    """The state of one row that a block holds; `like` is `init_state(1)`."""
    time = torch.tensor([int(block[:2].view(np.int64)[0])])
    states = like.blocks if isinstance(like, CascadeState) else (like,)
    read = []
    for index, (held, cfg) in enumerate(zip(states, configs, strict=True)):
        read.append(_read_one(block, plan[p.MODEL + index * p.BLOCK :], held, cfg, time))
    return CascadeState(tuple(read)) if isinstance(like, CascadeState) else read[0]


def _view(block: Array, at: Any, shape: tuple[int, ...]) -> Array:
    return block[int(at) : int(at) + int(np.prod(shape))].reshape(shape)


def _sizes(record: Array) -> tuple[int, ...]:
    return tuple(int(record[field]) for field in (p.WINDOW, p.LANDMARKS, p.LANES, p.WIDTH, p.HEADS))


def _rings(record: Array, held: Any) -> list[tuple[int, tuple[int, ...], Array]]:
    """(field, shape, values in lanes) of all that is not derived."""
    n, m, tile, width, _ = _sizes(record)
    leaves = {name: leaf[0].numpy() for name, leaf in held._asdict().items() if name != "time"}
    found: list[tuple[int, tuple[int, ...], Array]]
    found = [(p.VALUES_AT, (n, width), p.to_lanes(leaves["ring_value"]))]
    if "ring_key" in leaves:
        found.append((p.KEYS_AT, (n, width), p.to_lanes(leaves["ring_key"])))
    if "ring_logit" in leaves:
        found.append((p.LOGITS_AT, (n, m, tile), p.spread(leaves["ring_logit"].transpose(0, 2, 1))))
    if "landmarks" in leaves:
        landmarks = p.to_lanes(leaves["landmarks"])  # [m, 2, width]
        found += [(p.Q_TILDE_AT, (m, width), landmarks[:, 0]), (p.K_TILDE_AT, (m, width), landmarks[:, 1])]
        found.append((p.PENDING_AT, (2, width), p.to_lanes(leaves["pending"])))
        found.append((p.GAMMA_AT, (m, m, tile), p.spread(leaves["gamma_pinv"].transpose(1, 2, 0))))
    return found


def _forget(block: Array, record: Array) -> None:
    """All parts as those of no token."""
    m, tile, size = (int(record[field]) for field in (p.LANDMARKS, p.LANES, p.PART))
    count = TOTALS + int(record[p.SEGMENTS]) + int(record[p.LONGEST])
    parts = _view(block, record[p.PARTS_AT], (count, size))
    parts[...] = 0.0
    parts[:, : m * tile] = FLOOR


def _read_one(block: Array, record: Array, like: Any, cfg: AttentionConfig, time: Tensor) -> Any:
    n, m, tile, width, heads = _sizes(record)

    def lanes(field: int, *lead: int) -> Tensor:
        values = p.from_lanes(_view(block, record[field], (*lead, width)), heads, cfg.head_dim)
        return torch.from_numpy(values)[None]

    value = lanes(p.VALUES_AT, n)
    if isinstance(like, KeyValueState):
        return KeyValueState(time.clone(), lanes(p.KEYS_AT, n), value)
    logit = _view(block, record[p.LOGITS_AT], (n, m, tile))[..., :heads].transpose(0, 2, 1)
    ring_logit = torch.from_numpy(np.ascontiguousarray(logit))[None]
    parts = window.rebuild(cfg, ring_logit, value, time)
    if isinstance(like, FixedState):
        return FixedState(time.clone(), ring_logit, value, *parts)
    landmarks = torch.stack([lanes(p.Q_TILDE_AT, m), lanes(p.K_TILDE_AT, m)], 2)  # [1, m, 2, H, D]
    inverse = _view(block, record[p.GAMMA_AT], (m, m, tile))[..., :heads].transpose(2, 0, 1)
    gamma_pinv = torch.from_numpy(np.ascontiguousarray(inverse))[None]
    pending = lanes(p.PENDING_AT, 2)
    return ContState(time.clone(), lanes(p.KEYS_AT, n), value, landmarks, pending, gamma_pinv, ring_logit, *parts)

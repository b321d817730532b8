"""The learning rate of an update, as a share of the largest."""

from __future__ import annotations

import math

from nystream.train.config import TrainConfig


def share(step: int, total: int, config: TrainConfig) -> float:
    """Of update number `step`, from 0, of `total`: a rise from 0, then a cosine or nothing."""
    rise = round(config.warmup * total)
    if step < rise:
        return (step + 1) / rise
    if config.schedule != "cosine":
        return 1.0
    done = (step - rise) / max(total - rise, 1)
    return config.min_lr + (1 - config.min_lr) * (1 + math.cos(math.pi * done)) / 2

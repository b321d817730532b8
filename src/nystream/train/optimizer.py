"""AdamW as it is used for Transformers, with weight decay on matrices only, and its learning rate."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor
from torch.optim import AdamW, Optimizer

from nystream.train.checkpoint import OPTIMIZER
from nystream.train.config import TrainConfig

LEARNED_FASTER = ("q_tilde", "k_tilde", "decay_logit")
UNDECAYED = ("positions.table", *LEARNED_FASTER)


def adamw(parameters: Iterable[tuple[str, Tensor]], config: TrainConfig, stacked: bool = False) -> Optimizer:
    """AdamW for named parameters; `stacked` ones have a first dimension that counts models."""
    groups: dict[tuple[float, float], list[Tensor]] = {}
    for name, x in parameters:
        decays = x.dim() - stacked >= 2 and not name.endswith(UNDECAYED)
        scale = config.landmark_lr if name.endswith(LEARNED_FASTER) else 1.0
        groups.setdefault((config.weight_decay if decays else 0.0, scale), []).append(x)
    return AdamW(
        [{"params": some, "weight_decay": decay, "scale": scale} for (decay, scale), some in groups.items()],
        lr=config.lr,
    )


def lr_factor(step: int, total: int, config: TrainConfig) -> float:
    """The learning rate of update `step` (from 0) of `total`, as a fraction of the largest."""
    warmup = round(config.warmup * total)
    if step < warmup:
        return (step + 1) / warmup
    if config.schedule != "cosine":
        return 1.0
    done = (step - warmup) / max(total - warmup, 1)
    return config.min_lr + (1 - config.min_lr) * (1 + math.cos(math.pi * done)) / 2


def set_lr(optimizer: Optimizer, lr: float) -> None:
    """Set the learning rate of every group: `lr` times the group's scale."""
    for group in optimizer.param_groups:
        group["lr"] = lr * group["scale"]


def optimizer_tensors(optimizer: Optimizer, names: dict[Tensor, str]) -> dict[str, Tensor]:
    """The state of the optimizer, by names of parameters."""
    return {
        f"{OPTIMIZER}{names[x]}.{key}": torch.as_tensor(value)
        for x, state in optimizer.state.items()
        for key, value in state.items()
    }


def load_optimizer(optimizer: Optimizer, names: dict[Tensor, str], tensors: dict[str, Tensor]) -> None:
    """Load what `optimizer_tensors` returned; a parameter that never had a gradient has no state."""
    if not any(key.startswith(OPTIMIZER) for key in tensors):
        raise ValueError("it has no optimizer state")
    for x, name in names.items():
        prefix = f"{OPTIMIZER}{name}."
        state = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
        shapes = {key: value.shape for key, value in state.items() if key != "step"}
        if state and ("step" not in state or shapes != dict.fromkeys(("exp_avg", "exp_avg_sq"), x.shape)):
            raise ValueError(f"its optimizer state does not fit {name}")
        # AdamW keeps its step counter on the CPU, whatever the device of the parameter.
        optimizer.state[x] = {
            key: value.clone() if key == "step" else value.to(x.device).clone() for key, value in state.items()
        }

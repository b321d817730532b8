"""AdamW as it is used for Transformers: matrices decay, the rest does not."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.optim import AdamW, Optimizer

from nystream.train.checkpoint import OPTIMIZER
from nystream.train.config import TrainConfig

LANDMARKS = ("q_tilde", "k_tilde")
UNDECAYED = ("positions.table", *LANDMARKS)


def adamw(parameters: Iterable[tuple[str, Tensor]], config: TrainConfig, stacked: bool = False) -> Optimizer:
    """For named parameters; `stacked` ones have one more dimension in front, that of the models."""
    groups: dict[tuple[float, float], list[Tensor]] = {}
    for name, x in parameters:
        decays = x.dim() - stacked >= 2 and not name.endswith(UNDECAYED)
        scale = config.landmark_lr if name.endswith(LANDMARKS) else 1.0
        groups.setdefault((config.weight_decay if decays else 0.0, scale), []).append(x)
    return AdamW(
        [{"params": some, "weight_decay": decay, "scale": scale} for (decay, scale), some in groups.items()],
        lr=config.lr,
    )


def set_lr(optimizer: Optimizer, lr: float) -> None:
    """`lr` times what each group is scaled by."""
    for group in optimizer.param_groups:
        group["lr"] = lr * group["scale"]


def optimizer_tensors(optimizer: Optimizer, names: dict[Tensor, str]) -> dict[str, Tensor]:
    """What the optimizer remembers, by the names of the parameters."""
    return {
        f"{OPTIMIZER}{names[x]}.{key}": torch.as_tensor(value)
        for x, held in optimizer.state.items()
        for key, value in held.items()
    }


def load_optimizer(optimizer: Optimizer, names: dict[Tensor, str], tensors: dict[str, Tensor]) -> None:
    """The inverse of `optimizer_tensors`; a parameter that never had a gradient has nothing to remember."""
    if not any(key.startswith(OPTIMIZER) for key in tensors):
        raise ValueError("it has nothing of the optimizer")
    for x, name in names.items():
        prefix = f"{OPTIMIZER}{name}."
        held = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
        shapes = {key: value.shape for key, value in held.items() if key != "step"}
        if held and ("step" not in held or shapes != dict.fromkeys(("exp_avg", "exp_avg_sq"), x.shape)):
            raise ValueError(f"what it has of the optimizer is not that of {name}")
        # AdamW counts its steps on the CPU, whatever the parameter is on.
        optimizer.state[x] = {
            key: value.clone() if key == "step" else value.to(x.device).clone() for key, value in held.items()
        }

"""How the epochs of a run are shared out: whatever the variant, a run has as many as were asked for."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from nystream.data.table import counted
from nystream.train import TrainConfig

EPOCHS = 18  # unless told
TUNING_LR = 1 / 3  # of the first phase's learning rate


class Plan(NamedTuple):
    """The phases of a run."""

    first: TrainConfig
    tuning: TrainConfig | None = None  # of every block, one after another, where landmarks are fixed
    blocks: int = 0  # that are tuned

    @property
    def epochs(self) -> int:
        """Of all phases."""
        return self.first.epochs + (self.blocks * self.tuning.epochs if self.tuning else 0)

    def __str__(self) -> str:
        if self.tuning is None:
            return f"{counted(self.epochs, 'epoch')} of {counted(self.first.steps_per_epoch or 0, 'update')}"
        each = f" for each of {self.blocks} blocks" if self.blocks > 1 else ""
        return (
            f"{counted(self.epochs, 'epoch')} of {counted(self.first.steps_per_epoch or 0, 'update')}: "
            f"{self.first.epochs} with continual landmarks, then {self.tuning.epochs} with fixed ones{each}"
        )


def one_phase(how: TrainConfig) -> Plan:
    """All epochs at once."""
    return Plan(how)


def two_phases(how: TrainConfig, blocks: int) -> Plan:
    """Continual landmarks first, for twice as long as fixed ones in each of the blocks.

    Where there are fewer epochs than phases, each phase has one, of fewer updates.
    """
    tuning = dataclasses.replace(how, lr=how.lr * TUNING_LR)
    if how.epochs > blocks:
        each = max(1, how.epochs // (blocks + 2))
        first = dataclasses.replace(how, epochs=how.epochs - blocks * each)
        return Plan(first, dataclasses.replace(tuning, epochs=each), blocks)
    assert how.steps_per_epoch is not None
    updates = max(1, how.epochs * how.steps_per_epoch // (blocks + 1))
    first, tuning = (dataclasses.replace(one, epochs=1, steps_per_epoch=updates) for one in (how, tuning))
    return Plan(first, tuning, blocks)

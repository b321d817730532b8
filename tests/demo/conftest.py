"""A demonstration that is trained for a moment only."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from nystream.demo import models


@pytest.fixture(scope="session")
def quick():
    """A budget of a few updates."""
    return dataclasses.replace(models.BUDGET, epochs=3, steps_per_epoch=2, batch_size=2)


@pytest.fixture(scope="session")
def trained(quick):
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    found = models.train(models.load(), show=False, budget=quick)
    torch.set_num_threads(before)
    return found

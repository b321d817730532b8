"""The demo, with models that are trained only briefly."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from nystream.lab.demo import models
from nystream.lab.demo.hours import DemandStream, Tally


@pytest.fixture(scope="session")
def problem():
    return models.load()


@pytest.fixture(scope="session")
def learned(problem):
    """Every model, by variant."""
    budget = dataclasses.replace(models.BUDGET, epochs=3, steps_per_epoch=2, batch_size=2)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    found = dict(models.train(problem, show=False, budget=budget))
    torch.set_num_threads(before)
    return found


@pytest.fixture
def stream(problem, learned):
    """Two held-out weeks."""
    return DemandStream(problem, learned["co-fixed-single"], weeks=2)


@pytest.fixture
def tally(stream):
    """All hours of the stream."""
    found = Tally()
    for hour in stream:
        found.add(hour)
    return found

"""The time of a step of every cell, measured side by side."""

import json

import pytest

from nystream.lab.reproduce import steps
from nystream.lab.reproduce.cells import MODELS
from nystream.lab.reproduce.steps import time_steps

WIDTH = 4


@pytest.fixture
def records(cell):
    def records(*cells):
        return [
            {"name": str(i), "cell": one.to_dict(), "input_dim": WIDTH, "step": None} for i, one in enumerate(cells)
        ]

    return records


def test_every_cell_gets_its_step(cell, records, quick_steps):
    given = records(*(cell(model, layers) for layers in (1, 2) for model in MODELS))
    found = time_steps(given, "nystream reproduce gtzan", show=False)
    assert [one["name"] for one in found] == [one["name"] for one in given]
    assert all(one["step"] is None for one in given)  # left as they were
    for one in found:
        step = one["step"]
        assert {"median_microseconds", "p99_microseconds", "backend", "relative", "command"} < set(step)
        assert {"commit", "hardware", "bytes_per_stream"} < set(step)
        assert step["backend"] == "torch"
        assert step["command"] == "nystream reproduce gtzan"
        assert 0 < step["median_microseconds"] <= step["p99_microseconds"]
        assert step["hardware"]["threads"] >= 1
    for first in (0, 6):  # relative to full attention with as many blocks
        whole = found[first]["step"]["median_microseconds"]
        for one in found[first : first + 6]:
            assert one["step"]["relative"] == pytest.approx(whole / one["step"]["median_microseconds"])
    assert json.loads(json.dumps(found)) == found


def test_full_attention_is_timed_even_where_it_is_no_cell(cell, records, quick_steps):
    (found,) = time_steps(records(cell("co-fixed-single")), "", show=False)
    assert found["step"]["relative"] > 0
    assert found["step"]["relative"] != 1


def test_what_training_does_makes_no_other_step(cell, records, quick_steps, monkeypatch):
    built = []
    make = steps.random_model
    monkeypatch.setattr(steps, "random_model", lambda key, width: built.append(key) or make(key, width))
    ones = [cell("co-fixed-single", learned=learned, distilled=taught) for learned in (0, 1) for taught in (0, 1)]
    found = time_steps(records(*ones, cell("co-fixed-single", landmarks=4)), "", show=False)
    assert [key.model for key in built] == ["full", "co-fixed-single", "co-fixed-single"]
    assert len({one["step"]["median_microseconds"] for one in found[:4]}) == 1


def test_the_pool_that_users_get(cell):
    ((times, pool),) = steps.time_pushes(
        {"": steps.random_model(cell("co-full-single"), WIDTH)}, 1, show=False
    ).values()
    assert pool.backend == "numba"
    assert times.steps > 0

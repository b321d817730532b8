"""The definitions of the three tasks, and the split of their data into runs."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from nystream.costs.tables import SIZES
from nystream.lab.reproduce.problems import TASKS, problem
from nystream.lab.tasks.actions.baseline import STRENGTHS
from nystream.lab.tasks.electricity import eia930, sample

actions = runpy.run_path(str(Path(__file__).parents[1] / "tasks" / "actions" / "conftest.py"))


@pytest.mark.parametrize("task", TASKS)
def test_sizes_are_those_of_the_table(task):
    found = problem(task)
    assert found.name == task
    assert (found.window, found.landmarks) == (SIZES[task].n, SIZES[task].m)
    assert found.embed_dim % found.num_heads == 0
    assert all(1 <= m <= found.window for m in found.sweep)
    usual = found.usual()
    assert found.cell_name(usual) == f"{task}-1-full"
    for splits in (1, found.paper[0], found.laptop[0]):
        found.check_splits(usual, splits)
    for splits in (0, -1, found.max_splits(usual) + 1):
        with pytest.raises(ValueError, match=f"splits={splits}"):
            found.check_splits(usual, splits)


@pytest.mark.parametrize("task", TASKS)
def test_data_that_are_not_there_are_named(task, tmp_path):
    found = problem(task)
    with pytest.raises(FileNotFoundError, match=f"has no {found.file}; docs/data.md"):
        found.load(tmp_path, found.usual())


def test_there_are_three_tasks():
    with pytest.raises(ValueError, match="task='mnist' must be one of gtzan, thumos14, electricity"):
        problem("mnist")


@pytest.mark.parametrize("protocol", ["splits", "filtered"])
def test_gtzan(data, protocol):
    found = problem("gtzan")
    loaded = found.load(data, found.usual(protocol=protocol))
    splits = 1 if protocol == "filtered" else 2
    runs = loaded.runs(splits, 3)
    assert [(run.split, run.seed) for run in runs] == [(split, seed) for split in range(splits) for seed in range(3)]
    assert runs[0].train is runs[2].train  # one object for all seeds, moved to a GPU once
    if protocol == "splits":
        assert runs[0].train.fingerprint != runs[3].train.fingerprint
    assert {len(part) for part in runs[0][2:]} == ({72, 18, 10} if protocol == "splits" else {50, 20})
    again = problem("gtzan").load(data, found.usual(protocol=protocol))
    assert again.fingerprint == loaded.fingerprint
    assert again.runs(1, 1)[0].test.fingerprint == runs[0].test.fingerprint


@pytest.mark.filterwarnings("ignore:The number of unique classes is greater")  # there are few frames
def test_thumos14(tmp_path):
    found = problem("thumos14")
    np.savez(tmp_path / found.file, **actions["ready"]())
    loaded = found.load(tmp_path, found.usual())
    runs = loaded.runs(2, 2)
    assert [(run.split, run.seed) for run in runs] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert runs[0].train is runs[1].train
    assert all(len(run.train) + len(run.valid) == 7 for run in runs)
    assert len({run.test.fingerprint for run in runs}) == 1
    baseline = loaded.baseline("logistic regression on the last tokens", 2)
    assert [list(scores) for scores in baseline.scores] == [["map", "cmap", "loss"]] * 2
    assert all(0 < scores["map"] <= 1 for scores in baseline.scores)
    assert set(baseline.chosen["C"]) <= set(STRENGTHS)


def test_settings_of_thumos14():
    found = problem("thumos14")

    def training(**changes):
        cell = found.usual(**changes)
        config = found.training(cell)
        return config.batch_size, config.lr, config.piece, found.options(cell)["dropout"]

    one = (8, 3e-4, 256, 0.2)
    assert training() == training(model="co-full-single", layers=4, stack="deep") == one
    assert training(model="co-full-single", decay=True) == (8, 3e-4, 256, 0.5)
    assert training(model="co-full-single", decay=True, layers=2, stack="deep") == (8, 3e-4, 256, 0.3)
    assert training(embed_dim=256) == (8, 1e-3, 256, 0.2)
    assert training(layers=2) == (256, 2e-4, None, 0.2)
    for layers in (1, 2):
        assert training(model="gru", layers=layers) == (8, 1e-3, 256, 0.5)
        assert training(model="lstm", layers=layers) == (8, 2e-3, 256, 0.5)


@pytest.mark.parametrize("tokens", ["paper", "lags"])
def test_electricity(tmp_path, tokens):
    found = problem("electricity")
    eia930.write(tmp_path / found.file, sample().select(("TVA", "DUK"), slice(0, 1500)))
    cell = found.usual(tokens=tokens)
    loaded = found.load(tmp_path, cell)
    runs = loaded.runs(1, 2)
    assert [(run.split, run.seed) for run in runs] == [(0, 0), (0, 1)]
    assert runs[0].train is runs[1].train
    # A model that repeats the last total scores as persistence does.
    last = (loaded.problem.last if tokens == "paper" else 0 * loaded.problem.last)[-len(runs[0].test.y) :]
    error = (runs[0].test.y.double().numpy() - last)[found.skip(cell) :]
    unit = runs[0].train.y.double().std(correction=0).item()
    ours = loaded.scores({"mse": ((error / unit) ** 2).mean(), "mae": abs(error / unit).mean()})
    theirs = loaded.baseline("persistence", 1).scores[0]
    assert ours == pytest.approx({name: theirs[name] for name in ours}, rel=1e-5)


def test_small_windows_of_electricity_are_scored_on_the_same_hours():
    found = problem("electricity")
    assert found.skip(found.usual(window=1)) == found.skip(found.usual()) == 63
    assert found.skip(found.usual(window=128)) == 127

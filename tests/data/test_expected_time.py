import json

import numpy as np
import pytest
import torch

import nystream as ns
from nystream.data import expected_time
from nystream.data.expected_time import Expected, measure, told
from nystream.data.open_source import open_for_training
from nystream.data.run import log_if_worse, train
from nystream.data.settings import Settings
from nystream.train import Forecasting, StreamData, TrainConfig


def test_a_measurement_changes_nothing():
    attention = ns.AttentionConfig("co-full-single", embed_dim=8, num_heads=2, window=6)
    model = ns.StreamModel(ns.ModelConfig(input_dim=2, output_dim=1, attention=attention))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    x = np.random.default_rng(0).normal(size=(200, 2)).astype(np.float32)
    data = StreamData([x], [x[:, :1]])
    torch.manual_seed(3)
    expected = measure(model, data, data, Forecasting(), TrainConfig(epochs=5, patience=2))
    number = torch.rand(1)
    torch.manual_seed(3)
    assert torch.equal(number, torch.rand(1))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert expected.update > 0
    assert expected.scoring > 0


@pytest.mark.parametrize(("long", "updates"), [(1e9, [1, 1, 4]), (0.0, [1, 1])])
def test_long_updates_are_timed_once(monkeypatch, long, updates):
    attention = ns.AttentionConfig("co-full-single", embed_dim=8, num_heads=2, window=6)
    model = ns.StreamModel(ns.ModelConfig(input_dim=2, output_dim=1, attention=attention))
    x = np.random.default_rng(0).normal(size=(200, 2)).astype(np.float32)
    done, fit = [], expected_time.fit

    def counted_fit(model, train, valid, config, **options):
        done.append((config.steps_per_epoch, config.batch_size))
        return fit(model, train, valid, config, **options)

    monkeypatch.setattr(expected_time, "fit", counted_fit)
    monkeypatch.setattr(expected_time, "LONG", long)
    config = TrainConfig(epochs=5, batch_size=4)
    assert expected_time.update_seconds(model, StreamData([x], [x[:, :1]]), Forecasting(), config) > 0
    assert done == [(count, 4 if place else 1) for place, count in enumerate(updates)]


def test_a_run_is_its_updates_and_the_scoring_of_every_epoch():
    assert Expected(0.01, 2.0).run(TrainConfig(steps_per_epoch=100), 10) == pytest.approx(30)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(1, "about 5 seconds"), (48, "about 50 seconds"), (130, "about 2 minutes"), (9000, "about 2.5 hours")],
)
def test_words(seconds, words):
    assert told(seconds) == words


@pytest.mark.parametrize(
    ("losses", "said"),
    [
        ([3, 2, 2.5, 2.6, 3], 1),
        ([3, 2, 2.01, 2.02, 2.03], 0),
        ([3, 2.5, 2.2, 2.1, 3], 0),
        ([1, 2], 0),
        ([1, 2, 3, 4], 1),
    ],
)
def test_overfitting_is_told(tmp_path, losses, said):
    lines = [json.dumps({"epoch": i + 1, "valid": [{"loss": loss}]}) for i, loss in enumerate(losses)]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    told_lines = []
    log_if_worse(tmp_path, told_lines.append)
    assert len(told_lines) == said
    assert all("overfits" in line for line in told_lines)


@pytest.fixture
def table(tmp_path):
    values = np.sin(np.arange(400) / 4) + np.random.default_rng(0).normal(size=400)
    (tmp_path / "data.csv").write_text("\n".join(["load", *map(str, values.tolist())]))
    return str(tmp_path / "data.csv")


def trained(table, folder, window):
    """The weights of a run, and what it says about its window."""
    settings = Settings(source=table, target="load", window=window, embed_dim=8, num_heads=2, epochs=2)
    lines = []
    result = train(settings, open_for_training(settings), folder, log=lines.append, show=False)
    return result.model.state_dict(), [line for line in lines if "times longer" in line]


@pytest.mark.parametrize(("window", "factor", "said"), [(150, 14, 1), (150, 2, 0), (100, 14, 0)])
def test_a_window_that_makes_training_slow_is_told(table, tmp_path, monkeypatch, window, factor, said):
    def seconds(model, *rest):
        return 0.01 * (factor if model.config.window > 64 else 1)

    monkeypatch.setattr(expected_time, "update_seconds", seconds)
    line = "window=150 makes each update about 14 times longer than the default of 64"
    assert trained(table, tmp_path / "run", window)[1] == [line] * said


def test_measuring_the_default_window_changes_no_result(table, tmp_path, monkeypatch):
    measured, windows, update_seconds = [], (128, 64), expected_time.update_seconds

    def seconds(model, *rest):
        measured.append(model.config.window)
        return update_seconds(model, *rest)

    monkeypatch.setattr(expected_time, "update_seconds", seconds)
    both, _ = trained(table, tmp_path / "both", 128)
    assert tuple(measured) == windows
    monkeypatch.setattr("nystream.data.run.default_window", lambda problem: 128)
    alone, _ = trained(table, tmp_path / "alone", 128)
    assert tuple(measured) == (*windows, 128)
    assert all(torch.equal(value, alone[name]) for name, value in both.items())

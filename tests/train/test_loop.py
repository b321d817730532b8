"""The training loop: learning, selection, early stopping, resuming after a kill, and errors."""

import dataclasses
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import nystream as ns
from nystream.train import (
    Classification,
    Detection,
    Forecasting,
    StreamData,
    TrainConfig,
    WindowData,
    evaluate,
    fit,
    fit_many,
    predict,
)
from nystream.train.single import Single

SCRIPT = Path(__file__).parent / "run_fit.py"


def weights(model):
    return torch.cat([x.detach().flatten() for x in model.parameters()])


@pytest.mark.parametrize("variant", ["full", "co-full-single", "nystrom", "co-cont-single", "co-fixed-single"])
def test_windows_are_learned(tiny, windows, variant):
    model = tiny(variant)
    result = fit(
        model, windows(96), windows(48, seed=1), TrainConfig(epochs=8, batch_size=8, lr=1e-2), task=Classification()
    )
    assert result.history[-1]["train_loss"] < 0.5 * result.history[0]["train_loss"]
    assert result.best["accuracy"] > 0.9
    assert not model.training


@pytest.mark.parametrize("through", ["windows", "steps"])
def test_streams_are_learned(tiny, streams, through):
    model = tiny()
    config = TrainConfig(epochs=8, lr=1e-2, through=through, batch_size=8 if through == "windows" else 2)
    result = fit(model, streams(3), streams(1, seed=5), config, task=Forecasting())
    assert result.history[-1]["train_loss"] < 0.7 * result.history[0]["train_loss"]


def test_a_deep_stack_learns_through_steps(tiny, streams):
    model = tiny("co-fixed-single", layers=2, stack="deep")
    config = TrainConfig(epochs=8, lr=1e-2, batch_size=2, short=1.0)
    result = fit(model, streams(3), streams(1, seed=5), config, task=Forecasting())
    assert result.history[-1]["train_loss"] < 0.7 * result.history[0]["train_loss"]


def test_frames_are_detected(tiny):
    x = torch.randn(400, 3)
    y = (x[:, 0] > 0.7).long() + 2 * (x[:, 0] < -0.7).long()
    data = StreamData([x[:300], x[300:]], [y[:300], y[300:]])
    config = TrainConfig(epochs=10, lr=1e-2, batch_size=2, short=1.0)
    result = fit(tiny(), data, data.subset([1]), config, task=Detection())
    assert result.best["map"] > 0.8


def test_the_best_weights_are_kept(tiny, windows):
    model, valid = tiny(), windows(30, seed=1)
    result = fit(model, windows(40), valid, TrainConfig(epochs=6, lr=3e-2), task=Classification())
    scores = [line["valid"]["accuracy"] for line in result.history]
    assert result.best["accuracy"] == max(scores)
    assert result.best_epoch == 1 + scores.index(max(scores))
    assert evaluate(model, valid, Classification()) == pytest.approx(result.best)


def test_without_validation_the_last_weights_are_kept(tiny, windows):
    result = fit(tiny(), windows(20), config=TrainConfig(epochs=2), task=Classification())
    assert result.best_epoch == 2
    assert result.history[0]["valid"] is None


def test_it_stops_early(tiny, windows):
    # A learning rate of 0 changes nothing: no epoch after the first is better.
    result = fit(tiny(), windows(20), windows(20, 1), TrainConfig(epochs=9, lr=0.0, patience=2), task=Classification())
    assert [line["epoch"] for line in result.history] == [1, 2, 3]
    assert result.best_epoch == 1


def test_a_plateau_lowers_the_learning_rate(tiny, windows):
    config = TrainConfig(epochs=7, lr=1e-9, schedule="plateau", plateau_patience=2, plateau_factor=0.1, warmup=0.0)
    result = fit(tiny(), windows(20), windows(20, 1), config, task=Classification())
    rates = [line["lr"] / 1e-9 for line in result.history]
    assert rates == pytest.approx([1, 1, 1, 0.1, 0.1, 0.01, 0.01])


def test_a_seed_decides_everything(tiny, windows):
    runs = []
    for seed in (0, 0, 1):
        model = tiny(dropout=0.2)
        fit(model, windows(30), windows(10, 1), TrainConfig(epochs=2, lr=1e-2, seed=seed), task=Classification())
        runs.append(weights(model))
    assert torch.equal(runs[0], runs[1])
    assert not torch.equal(runs[0], runs[2])


def test_the_callers_random_numbers_are_left_alone(tiny, windows):
    model = tiny(dropout=0.2)
    torch.manual_seed(3)
    expected = torch.randn(2)
    torch.manual_seed(3)
    fit(model, windows(30), windows(10, 1), TrainConfig(epochs=1), task=Classification())
    assert torch.equal(torch.randn(2), expected)


def test_units_are_the_users(tiny, streams):
    """Targets that are a million times larger train the same way once the scaler is fitted."""
    small, large = tiny(), tiny()
    data = streams(2)
    grown = StreamData(*zip(*((x, 1e6 * y + 5e6) for x, y in map(data.stream, range(2))), strict=True))
    large.output_scaler.set(torch.full((3,), 5e6), torch.full((3,), 1e6))
    config = TrainConfig(epochs=3, lr=1e-2, batch_size=4)
    a, b = (fit(m, d, d, config, task=Forecasting()) for m, d in ((small, data), (large, grown)))
    # float32 knows numbers of 5e6 to 0.5, so units of 1e6 to 5e-7.
    assert b.best["mse"] == pytest.approx(a.best["mse"], rel=1e-3)
    output, y = ns.train.predict(large, grown)
    assert float((output - y).abs().mean()) < 1e6


@pytest.mark.parametrize("kind", ["windows", "streams"])
def test_a_run_that_was_stopped_goes_on_exactly(tiny, windows, streams, tmp_path, killed, kind):
    data = (windows(40), windows(12, 1)) if kind == "windows" else (streams(3), streams(1, 5))
    task = Classification() if kind == "windows" else Forecasting()
    config = TrainConfig(epochs=4, batch_size=8 if kind == "windows" else 1, lr=1e-2, checkpoint_every=2, short=0.5)
    whole, parts = tiny(dropout=0.1), tiny(dropout=0.1)
    expected = fit(whole, *data, config, task=task)
    with killed(Single, 7):
        fit(parts, *data, config, task=task, folder=tmp_path)
    again = tiny(seed=9, dropout=0.1)  # whatever it starts from, the checkpoint has the weights
    result = fit(again, *data, config, task=task, folder=tmp_path)
    assert torch.equal(weights(again), weights(whole))
    drop = {"seconds"}
    trimmed = [[{k: v for k, v in line.items() if k not in drop} for line in r.history] for r in (result, expected)]
    assert trimmed[0] == trimmed[1]
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2, 3, 4]


@pytest.mark.slow
def test_a_killed_process_goes_on_exactly(tiny, windows, tmp_path):
    def start(folder):
        return subprocess.Popen([sys.executable, SCRIPT, folder], env={**os.environ, "OMP_NUM_THREADS": "1"})

    assert start(tmp_path / "whole").wait(120) == 0
    process, seen = start(tmp_path / "parts"), tmp_path / "parts" / "checkpoint.safetensors"
    began = time.monotonic()
    while not seen.exists() and time.monotonic() - began < 60:
        time.sleep(0.01)
    time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "parts" / "model").exists()
    assert start(tmp_path / "parts").wait(120) == 0
    models = [ns.StreamModel.from_pretrained(tmp_path / name / "model") for name in ("whole", "parts")]
    assert torch.equal(weights(models[0]), weights(models[1]))


def test_a_run_that_is_done_is_not_run_again(tiny, windows, tmp_path, monkeypatch):
    config, data = TrainConfig(epochs=2, lr=1e-2), (windows(20), windows(10, 1))
    model = tiny()
    first = fit(model, *data, config, task=Classification(), folder=tmp_path)
    monkeypatch.setattr(Single, "step", None)
    other = tiny(seed=4)
    rounded = dataclasses.replace(config, lr=math.nextafter(config.lr, 1))  # as another version may compute it
    second = fit(other, *data, rounded, task=Classification(), folder=tmp_path)
    assert second == first
    assert torch.equal(weights(other), weights(model))


def test_a_folder_of_another_run_is_refused(tiny, windows, tmp_path):
    data = (windows(20), windows(10, 1))
    fit(tiny(), *data, TrainConfig(epochs=1), task=Classification(), folder=tmp_path)
    with pytest.raises(ValueError, match="contains a different run: epochs is 1 there and 2 here; use a new folder"):
        fit(tiny(), *data, TrainConfig(epochs=2), task=Classification(), folder=tmp_path)
    with pytest.raises(ValueError, match="contains a different run: data"):
        fit(tiny(), windows(21), data[1], TrainConfig(epochs=1), task=Classification(), folder=tmp_path)
    (tmp_path / "checkpoint.safetensors").write_bytes(b"no")
    with pytest.raises(ValueError, match="is not a checkpoint of a training run, or is damaged"):
        fit(tiny(), *data, TrainConfig(epochs=1), task=Classification(), folder=tmp_path)


def test_the_folder_holds_what_a_user_looks_for(tiny, windows, tmp_path):
    model = tiny()
    fit(model, windows(20), windows(10, 1), TrainConfig(epochs=2), task=Classification(), folder=tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "checkpoint.safetensors", "metrics.jsonl", "model", "tensorboard"
    }  # fmt: skip
    loaded = ns.StreamModel.from_pretrained(tmp_path / "model")
    assert torch.equal(weights(loaded), weights(model))
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert {"train_loss", "valid/accuracy", "valid/loss"} <= set(events.Tags()["scalars"])
    assert [event.step for event in events.Scalars("train_loss")] == [1, 2]


def test_progress_is_shown(tiny, windows, capsys):
    fit(tiny(), windows(20), windows(10, 1), TrainConfig(epochs=2), task=Classification(), progress=True)
    shown = capsys.readouterr().err
    assert "training" in shown
    assert "accuracy" in shown


def test_a_loss_that_is_not_finite_is_an_error(tiny, streams):
    data = streams(1)
    huge = StreamData([data.stream(0)[0]], [torch.full((60, 3), 3e38)])
    with pytest.raises(FloatingPointError, match="the loss is not finite in epoch 1"):
        fit(tiny(), huge, None, TrainConfig(epochs=1, lr=1e30, clip=None), task=Forecasting(delta=1e30))


@pytest.mark.parametrize(
    ("data", "task", "message"),
    [
        (
            WindowData(torch.zeros(4, 8, 3), torch.tensor([0, 1, 2, 3])),
            Classification(),
            "y has class 3, but the model's",
        ),
        (
            WindowData(torch.zeros(4, 8, 3), torch.zeros(4)),
            Classification(),
            r"train: y is torch.float32 \[4\], but must be classes \[N\]: integers below 3",
        ),
        (WindowData(torch.zeros(4, 8, 3), torch.zeros(4, 2)), Forecasting(), r"must be numbers \[N, 3\]"),
        (WindowData(torch.zeros(4, 8, 3), torch.zeros(4).long()), Forecasting(), r"must be numbers \[N, 3\]"),
    ],
)
def test_targets_are_checked_first(tiny, data, task, message):
    with pytest.raises(ValueError, match=message):
        fit(tiny(), data, task=task)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"config": TrainConfig(patience=2)}, ValueError, "patience=2 needs validation data"),
        ({"config": TrainConfig(schedule="plateau")}, ValueError, "schedule='plateau' needs validation data"),
        ({"valid": TrainConfig()}, TypeError, "valid is a TrainConfig, but must be WindowData or StreamData"),
        ({"train": (1, 2)}, TypeError, "train is a tuple, but must be WindowData or StreamData"),
        ({"task": Classification}, TypeError, r"must be a task: Classification\(\)"),
        ({"model": torch.nn.Linear(2, 2)}, TypeError, "model is a Linear, but must be a StreamModel"),
    ],
)
def test_arguments_are_checked_first(tiny, windows, change, error, message):
    given = {"model": tiny(), "train": windows(8), "task": Classification(), **change}
    with pytest.raises(error, match=message):
        fit(given.pop("model"), given.pop("train"), **given)


@pytest.mark.parametrize(
    ("valid", "message"),
    [
        (StreamData([torch.zeros(20, 4)], [torch.zeros(20, 3)]), "valid has 4 columns, but the model's input_dim is 3"),
        (StreamData([torch.zeros(7, 3)], [torch.zeros(7, 3)]), "valid has no stream longer than the 7 tokens"),
        (
            StreamData([torch.zeros(9, 3)], [torch.cat([torch.zeros(7, 3), torch.full((2, 3), torch.nan)])]),
            "valid after the first 7 tokens of its streams: y has no finite number",
        ),
    ],
)
def test_validation_data_are_checked_before_training(tiny, streams, valid, message):
    with pytest.raises(ValueError, match=message):
        fit(tiny(), streams(1), valid, task=Forecasting())


def test_all_frozen_is_refused(tiny, windows):
    with pytest.raises(ValueError, match="model has no parameters to train"):
        fit(tiny().requires_grad_(False), windows(8), task=Classification())


def test_about_is_what_json_can_hold(tiny, windows, tmp_path):
    with pytest.raises(TypeError, match="about must be JSON values"):
        fit(tiny(), windows(8), task=Classification(), about={"x": {1}}, folder=tmp_path)


def test_landmarks_must_be_known(windows):
    attention = ns.AttentionConfig("co-fixed-single", embed_dim=8, num_heads=2, window=8, landmarks=2)
    model = ns.StreamModel(ns.ModelConfig(input_dim=3, output_dim=3, attention=attention))
    for run in (fit, lambda m, *args, **options: fit_many([m], *args, **options)):
        with pytest.raises(RuntimeError, match="has no landmarks yet"):
            run(model, windows(8), task=Classification())


def test_a_score_that_is_no_number_can_be_beaten():
    from nystream.train.loop import Progress, _improves

    now = Progress(epoch=1, best=[{"mse": float("nan")}], best_epoch=[1], stopped=[False])
    assert _improves(now, 0, [{"mse": 0.1}], Forecasting())
    assert not _improves(now, 0, [{"mse": float("nan")}], Forecasting())  # patience goes on counting
    assert not _improves(dataclasses.replace(now, best=[{"mse": 0.1}]), 0, [{"mse": float("nan")}], Forecasting())


def test_another_scaler_is_another_run(tiny, windows, tmp_path):
    data, config = (windows(20), windows(10, 1)), TrainConfig(epochs=1)
    fit(tiny(), *data, config, task=Classification(), folder=tmp_path)
    model = tiny()
    model.input_scaler.fit(data[0].x)
    with pytest.raises(ValueError, match="contains a different run: scalers"):
        fit(model, *data, config, task=Classification(), folder=tmp_path)


def test_numpys_floats_are_taken(tiny):
    data = WindowData(np.random.default_rng(0).normal(size=(8, 8, 3)), np.arange(8) % 3)
    fit(tiny(), data, data, TrainConfig(epochs=1), task=Classification())


def test_streams_without_a_whole_group_have_no_output(tiny):
    model = tiny(update_size=4)
    data = StreamData([torch.randn(3, 3), torch.randn(9, 3)], [torch.randn(3, 3), torch.randn(9, 3)])
    output, y = predict(model, data, batch_size=1)
    assert output.shape == y.shape == (8, 3)
    with pytest.raises(ValueError, match="skip=-3 must be an integer of at least 0"):
        predict(model, data, skip=-3)


def test_tensorboard_keeps_every_epoch_of_a_run_that_was_stopped(tiny, windows, tmp_path, killed):
    data, config = (windows(40), windows(12, 1)), TrainConfig(epochs=4, batch_size=8)
    with killed(Single, 11):  # in the third epoch of five updates
        fit(tiny(), *data, config, task=Classification(), folder=tmp_path)
    fit(tiny(), *data, config, task=Classification(), folder=tmp_path)
    assert steps_of(tmp_path, "train_loss") == [5, 10, 15, 20]


def steps_of(folder, name):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return [event.step for event in events.Scalars(name)]


@pytest.mark.parametrize("variant", ["co-full-single", "co-cont-single"])
@pytest.mark.parametrize("update_size", [1, 2])
def test_groups_that_arrive_together_can_be_trained(tiny, windows, streams, variant, update_size):
    for data, task in ((windows(20), Classification()), (streams(2), Forecasting())):
        for through in ("windows", "steps"):
            config = TrainConfig(epochs=1, batch_size=8, through=through, short=0.3)
            result = fit(tiny(variant, update_size=update_size), data, data, config, task=task)
            assert result.best_epoch == 1


def test_a_single_gradient_that_is_not_finite_is_left_out(tiny, windows):
    model, count = tiny("full"), iter(range(1000))
    model.head.weight.register_hook(lambda gradient: gradient * (math.nan if next(count) == 3 else 1.0))
    fit(model, windows(40), None, TrainConfig(epochs=2, batch_size=4), task=Classification(), progress=False)
    assert weights(model).isfinite().all()


def test_gradients_that_are_never_finite_are_an_error(tiny, windows):
    model = tiny("full")
    model.head.weight.register_hook(lambda gradient: gradient * math.nan)
    with pytest.raises(FloatingPointError, match="the loss is not finite in epoch 1"):
        fit(model, windows(40), None, TrainConfig(epochs=2, batch_size=4), task=Classification(), progress=False)

"""A few seconds on real data: every family learns, and streaming scores equal window scores where they must."""

import numpy as np
import pytest
import torch

import nystream as ns
from nystream.train import Classification, Forecasting, StreamData, TrainConfig, WindowData, evaluate, fit, predict
from nystream.train import train_two_phase as two_phase

N = 24  # hours of a window


@pytest.fixture(scope="module")
def demand(data_dir):
    """A slice of EIA-930: total demand an hour ahead from twelve areas and the hour of the day, train and valid."""
    with np.load(data_dir / "eia930_117x43848_hourly.npz") as held:
        x, minutes = held["x"][:2200], held["time"][:2200]
    total = x.sum(1)
    hour = 2 * np.pi * (minutes / 60 % 24) / 24
    tokens = np.column_stack([x[:, :12], np.sin(hour), np.cos(hour)])[:-1].astype(np.float32)
    target = total[1:, None].astype(np.float32)
    assert np.isfinite(tokens).all()
    cut = 1700
    parts = (slice(0, cut), slice(cut, None))
    return [StreamData([torch.tensor(tokens[part])], [torch.tensor(target[part])]) for part in parts]


@pytest.fixture(scope="module")
def genres(data_dir):
    """Five genres of GTZAN, every fourth token of their tracks, fault-filtered train and valid."""
    with np.load(data_dir / "gtzan_yamnet_tokens.npz") as held:
        tokens = held["tokens"][:, ::4].astype(np.float32) * held["dequant_scale"] + held["dequant_offset"]
        labels, split = held["labels"], held["split_filtered"]
    few = labels < 5
    return [WindowData(tokens[few & (split == part)], labels[few & (split == part)]) for part in (0, 1)]


def build(variant, input_dim, output_dim, window, **options):
    torch.manual_seed(0)
    attention = ns.AttentionConfig(variant, embed_dim=32, num_heads=4, window=window, landmarks=4)
    config = ns.ModelConfig(input_dim=input_dim, output_dim=output_dim, attention=attention, ff_dim=32, **options)
    return ns.StreamModel(config)


def forecaster(variant, train, **options):
    model = build(variant, 14, 1, N, **options)
    model.input_scaler.fit(train.x)
    model.output_scaler.fit(train.y)
    return model


FORECAST = TrainConfig(epochs=8, batch_size=2, lr=3e-3, piece=4 * N)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("variant", ["full", "nystrom", "co-full-single", "co-cont-single"])
def test_forecasts(demand, variant, layers):
    train, valid = demand
    model = forecaster(variant, train, layers=layers)
    config = FORECAST
    if layers == 2 or variant in ("full", "nystrom"):  # windows: one loss each, so fewer of them
        config = TrainConfig(epochs=5, batch_size=32, lr=3e-3, steps_per_epoch=20)
    result = fit(model, train, valid, config, task=Forecasting())
    check_learned(model, result, valid)


def test_forecasts_of_a_deep_stack(demand):
    train, valid = demand
    model = forecaster("co-cont-single", train, layers=3, stack="deep")
    result = fit(model, train, valid, FORECAST, task=Forecasting())
    check_learned(model, result, valid)


@pytest.mark.parametrize(
    ("layers", "stack", "learn"), [(1, "paper", True), (2, "paper", False), (2, "deep", True), (2, "deep", False)]
)
def test_forecasts_through_fixed_landmarks(demand, layers, stack, learn):
    train, valid = demand
    model = forecaster("co-cont-single", train, layers=layers, stack=stack)
    config = FORECAST if stack == "deep" or layers == 1 else TrainConfig(epochs=5, lr=3e-3, steps_per_epoch=20)
    fixed = two_phase(model, train, valid, task=Forecasting(), config=config, learn_landmarks=learn)
    assert all(block.attention.config.fixed for block in fixed.encoder.blocks)
    assert evaluate(fixed, valid, Forecasting(), skip=N)["mse"] < 0.3
    check_streaming(fixed, valid)


def check_learned(model, result, valid):
    assert result.history[-1]["train_loss"] < 0.5 * result.history[0]["train_loss"]
    assert result.best["mse"] < 0.5  # the mean of the training targets has about 1
    check_streaming(model, valid)


def check_streaming(model, valid):
    """Streaming gives the outputs of the window model: at every token, or at renewals of continual landmarks."""
    output, _ = predict(model, valid)
    x, cfg = valid.x, model.config
    deep = cfg.cascade and len(cfg.blocks) > 1
    lagging = any(block.record.landmarks == "stream" for block in cfg.blocks) and not deep
    every = N // 4 if lagging else 1
    ends = range(N, 200, every)
    with torch.no_grad():
        if deep:  # the last of `steps`: from the start of the stream
            window = torch.cat([model(x[None, :t]) for t in list(ends)[::40]])
            ends = list(ends)[::40]
        else:
            tokens = torch.stack([x[t - N : t] for t in ends])
            window = model(tokens, torch.tensor([(t - N) % N for t in ends]))
    streamed = output[[t - 1 for t in ends]]
    # float32, and a head that scales up to the user's units: relative to the spread of the outputs.
    assert float((streamed - window).abs().max()) < 1e-4 * float(output.std())


@pytest.mark.parametrize("variant", ["full", "nystrom", "co-full-single", "co-cont-single"])
def test_genres(genres, variant):
    train, valid = genres
    model = build(variant, 128, 5, 30)
    model.input_scaler.fit(train.x)
    result = fit(model, train, valid, TrainConfig(epochs=6, batch_size=16, lr=3e-3), task=Classification())
    assert result.history[-1]["train_loss"] < 0.5 * result.history[0]["train_loss"]
    assert result.best["accuracy"] > 0.5  # of five genres
    check_windows(model, valid)


def test_genres_through_fixed_landmarks(genres):
    train, valid = genres
    model = build("co-cont-single", 128, 5, 30)
    model.input_scaler.fit(train.x)
    config = TrainConfig(epochs=6, batch_size=16, lr=3e-3)
    fixed = two_phase(model, train, valid, task=Classification(), config=config)
    assert evaluate(fixed, valid, Classification())["accuracy"] > 0.5
    check_windows(fixed, valid)


def check_windows(model, valid):
    """A track is one window: streamed to its end, it scores as the window."""
    streamed, _ = predict(model, valid)
    with torch.no_grad():
        window = model(valid.x)
    assert float((streamed - window).abs().max()) < 1e-4 * float(window.abs().max())

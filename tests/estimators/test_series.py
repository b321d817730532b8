"""Forecaster with several series."""

import numpy as np
import polars as pl
import pytest

from nystream import Forecaster

OPTIONS = {"target": "kwh", "horizon": 2, "window": 8, "embed_dim": 8, "num_heads": 2, "epochs": 1, "patience": 0}


def frame_of(lengths, sizes, seed=0):
    random, frames = np.random.default_rng(seed), []
    for number, (length, size) in enumerate(zip(lengths, sizes, strict=True)):
        hours = np.arange(length)
        kwh = size * (5 + np.sin(hours / 4) + 0.1 * random.normal(size=length))
        time = np.datetime64("2024-01-01T00", "us") + (hours + 7 * number).astype("timedelta64[h]")
        frames.append(pl.DataFrame({"time": time, "meter": [f"m{number}"] * length, "kwh": kwh}))
    return pl.concat(frames).sort("time", maintain_order=True)


@pytest.fixture(scope="module")
def fitted():
    return Forecaster(series="meter", **OPTIONS).fit(frame_of([300, 200, 250], [1, 50, 4000]))


def test_forecasts_are_in_the_order_of_the_rows_and_each_series_is_on_its_own(fitted):
    frame = frame_of([60, 40], [1e5, 0.01], seed=3)  # neither was trained on
    forecasts = fitted.predict(frame)
    assert forecasts.shape == (100,)
    for name in ("m0", "m1"):
        rows = (frame["meter"] == name).to_numpy()
        alone = fitted.predict(frame.filter(pl.col("meter") == name))
        # Streams that are computed together are rounded differently.
        np.testing.assert_allclose(forecasts[rows], alone, rtol=1e-5)
        without = fitted.predict(frame.filter(pl.col("meter") == name).drop("meter"))
        np.testing.assert_allclose(forecasts[rows], without, rtol=1e-5)
    shuffled = frame.sort("meter", maintain_order=True)
    order = np.argsort(frame["meter"].to_numpy(), kind="stable")
    np.testing.assert_allclose(fitted.predict(shuffled), forecasts[order], rtol=1e-5)


def test_sessions_need_no_series_column_and_agree_with_predict(fitted):
    frame = frame_of([50, 50, 50, 50], [3, 70, 1e4, 1e-4], seed=4)
    forecasts, live = fitted.predict(frame), fitted.sessions()
    taken = live.take_many(frame["meter"].to_list(), frame.drop("meter"))
    values = [answers[0].values[0] for answers in taken]
    # The compiled kernels sum in another order than torch: float32, in units of a deviation of a fifth of the values.
    np.testing.assert_allclose(values, forecasts, rtol=1e-4)
    alone = fitted.sessions(backend="numba")
    single = [alone.take("x", row)[0].values[0] for row in frame.filter(meter="m1").drop("meter").to_dicts()]
    together = [value for value, name in zip(values, frame["meter"], strict=True) if name == "m1"]
    np.testing.assert_array_equal(single, together)


def test_score_is_the_mean_over_series(fitted):
    frame = frame_of([80, 80], [1e5, 0.01], seed=3)
    scores = [fitted.score(frame.filter(meter=name)) for name in ("m0", "m1")]
    assert fitted.score(frame) == pytest.approx(np.mean(scores), rel=1e-4)


def test_paths_saving_and_loading(fitted, tmp_path):
    frame = frame_of([60, 70, 50], [1, 50, 4000], seed=5)
    paths = []
    for (name,), part in frame.partition_by("meter", as_dict=True).items():
        paths.append(tmp_path / f"{name}.parquet")
        part.drop("meter").write_parquet(paths[-1])
    forecasts = fitted.predict(paths)  # one file after another
    assert len(forecasts) == 180
    np.testing.assert_allclose(forecasts, fitted.predict(frame.sort("meter", maintain_order=True)), rtol=1e-5)
    np.testing.assert_array_equal(fitted.predict(tmp_path), forecasts)
    fitted.save(tmp_path / "saved")
    loaded = Forecaster.load(tmp_path / "saved")
    assert loaded.series == "meter"
    np.testing.assert_array_equal(loaded.predict(paths), forecasts)
    of_files = Forecaster(**OPTIONS).fit(paths)
    assert any(note.startswith("3 series by 'file'") for note in of_files.notes_)


def test_rows_that_are_missing_in_a_series_are_an_error(fitted):
    frame = frame_of([60, 40], [1, 2])
    with pytest.raises(ValueError, match="series 'm1' is not regular in time"):
        fitted.predict(frame.filter(~((pl.col("meter") == "m1") & (pl.int_range(pl.len()) == 50))))

"""Tables of predictions and their truth."""

import numpy as np
import polars as pl
import pytest
import torch

from nystream.data import predictions
from nystream.data.clips import Clip, Clips
from nystream.data.forecast import forecast
from nystream.data.frames import FramesReader
from nystream.data.labelled import labelled
from nystream.data.table import read_table


def written(tmp_path, problem, output, warm=0, name="out.csv"):
    predictions.write(tmp_path / name, problem, "all", warm, output)
    return tmp_path / name


def test_targets_row_after_row(tmp_path, write_csv, hours, waves):
    load = waves(60)
    load[50] = None
    columns = {"t": hours(60), "load": load, "two": [i**0.5 for i in range(60)]}
    problem = forecast(read_table(write_csv(columns)), ["load", "two"], horizon=3, missing="fill")
    output = torch.from_numpy(problem.y[5:]).nan_to_num(0.0) + 0.5
    found = pl.read_csv(written(tmp_path, problem, output, warm=5))
    assert found["target"].to_list() == ["load", "two"] * 52
    assert found["time"][0] == "2024-01-01T08:00:00"
    assert found["truth"].to_list()[:2] == [load[8], 8**0.5]
    unknown = found.filter(pl.col("truth").is_null())
    assert (unknown["time"].to_list(), unknown["target"].to_list()) == (["2024-01-03T02:00:00"], ["load"])
    assert unknown["error"].is_null().all()
    assert found["error"].drop_nulls().to_numpy() == pytest.approx(0.5, abs=1e-5)


@pytest.mark.parametrize(("suffix", "when"), [("Z", "2024-01-01T06:00:00Z"), ("+02:00", "2024-01-01T04:00:00Z")])
def test_times_in_utc(tmp_path, write_csv, hours, waves, suffix, when):
    stamps = [stamp.replace(" ", "T") + suffix for stamp in hours(60)]
    problem = forecast(read_table(write_csv({"t": stamps, "load": waves(60)})), ["load"])
    output = torch.from_numpy(problem.y[5:])
    assert pl.read_csv(written(tmp_path, problem, output, 5))["time"][0] == when
    times = pl.read_parquet(written(tmp_path, problem, output, 5, "out.parquet"))["time"]
    assert times.dtype == pl.Datetime("us", "UTC")


def test_rows_without_times(tmp_path, write_csv, waves):
    problem = forecast(read_table(write_csv({"load": waves(60)})), ["load"], horizon=2)
    found = pl.read_csv(written(tmp_path, problem, torch.from_numpy(problem.y[5:]), 5))
    assert found.columns == ["row", "target", "forecast", "truth", "error"]
    assert found["row"].to_list() == list(range(7, 60))


def test_several_classes_at_once(tmp_path):
    y = np.array([[0, 0], [1, 0], [1, 1], [np.nan, np.nan]], np.float32)
    clips = tuple(Clip(f"{i}.npz", np.full((4, 1), i, np.float32), y) for i in range(3))
    problem = labelled(Clips(tmp_path, clips, ("a", "b"), "detection", FramesReader(1)))
    logits = torch.tensor([[-2.0, -2.0], [2.0, -2.0], [2.0, 2.0], [torch.nan, 0.0]]).repeat(3, 1)
    found = pl.read_parquet(written(tmp_path, problem, logits, name="out.parquet"))
    assert found["truth"].to_list() == ["", "a", "a|b", None] * 3
    assert found["predicted"].to_list() == ["", "a", "a|b", None] * 3
    assert found["file"].to_list() == [f"{i}.npz" for i in range(3) for _ in range(4)]
    assert found["probability of a"].to_list()[1] == pytest.approx(torch.tensor(2.0).sigmoid().item())

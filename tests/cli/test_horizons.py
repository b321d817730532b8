"""Several horizons, quantiles and a minimum: trained, scored, streamed and resumed by the commands."""

import csv
import json
import math
import runpy
from pathlib import Path

import numpy as np
import pytest

import nystream as ns
from nystream.cli import main
from nystream.data import run as running

small_run = runpy.run_path(str(Path(__file__).with_name("small_run.py")))
SMALL = small_run["SMALL"]
OPTIONS = ["--target", "load", "--horizon", "1..3", "--quantiles", "0.1,0.5,0.9", "--minimum", "0"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running, "MIN_UPDATES_PER_EPOCH", 2)
    lines = ["time,load,two"]
    for hour in range(260):
        time = np.datetime64("2024-01-01T00:00") + hour * 60
        lines.append(f"{time},{max(0.0, 5 * math.sin(hour / 4) + hour * 7 % 5):.2f},{hour * 11 % 13}")
    Path("data.csv").write_text("\n".join(lines))


def test_from_training_to_a_stream(capsys):
    command = ["train", "data.csv", *OPTIONS, *SMALL, "--out", "run"]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "with the quantiles of its residuals" in out
    assert "means over 3 horizons" in out
    assert "share from quantile 0.1 to 0.9" in out
    assert "(2 rows ahead)" not in out
    assert Path("run/plots/forecast.png").is_file()
    scores = json.loads(Path("run/scores.json").read_text())["test"]
    assert "pinball loss (2 rows ahead)" in scores["model"]
    assert "pinball loss" in scores["ridge"]
    assert "pinball loss" not in scores["persistence"]
    config = Path("run/config.toml").read_text()
    assert 'horizon = "1..3"' in config
    assert main(command) == 0
    assert "is already trained" in capsys.readouterr().out

    assert main(["eval", "run", "data.csv", "--out", "found.csv", "--json", "scores.json"]) == 0
    out = capsys.readouterr().out
    assert "pinball loss" in out
    rows = list(csv.DictReader(Path("found.csv").read_text().splitlines()))
    assert list(rows[0]) == [
        *("time", "horizon", "target", "forecast"),
        *("quantile 0.1", "quantile 0.5", "quantile 0.9", "truth", "error"),
    ]
    assert [row["horizon"] for row in rows[:4]] == ["1", "2", "3", "1"]
    truth = {row["time"]: row["truth"] for row in rows}
    for row in rows:
        low, median, high = (float(row[f"quantile {level}"]) for level in (0.1, 0.5, 0.9))
        assert 0 <= low <= median <= high
        assert float(row["forecast"]) == median
        assert row["truth"] == truth[row["time"]]
    assert rows[1]["time"] == rows[3]["time"]  # two rows ahead of the first, and one of the second

    assert main(["stream", "run", "data.csv", "--json"]) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(answers) == 260
    assert len(answers[-1]["forecast"]["load"]) == len(answers[-1]["for"]) == 3
    predicted = ns.Forecaster.load("run").predict("data.csv")
    found = [[list(each.values()) for each in answer["forecast"]["load"]] for answer in answers]
    # the sums of a step are in another order than those of a whole stream
    np.testing.assert_allclose(found, predicted, rtol=1e-4, atol=1e-4)
    assert main(["stream", "run", "data.csv", "--human"]) == 0
    assert " … " in capsys.readouterr().out.splitlines()[-1]


def test_several_targets_at_listed_horizons(capsys, refused):
    command = ["train", "data.csv", "--target", "load,two", "--horizon", "1,5", *SMALL, "--out", "run"]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "mean absolute error (5 rows ahead)" in out.replace("\n", " ")
    assert Path("run/plots/forecast.png").is_file()
    assert main([*command, "--linear", "no", "--out", "other"]) == 0
    assert main(["train", "data.csv", "--target", "load,two", "--horizon", "1,5", *SMALL, "--teacher", "run"]) == 0
    assert "horizons is 1, 5 there and nothing here" in refused(
        "train", "data.csv", "--target", "load,two", "--horizon", "5", *SMALL, "--teacher", "run"
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--horizon", "1.."], "horizon='1..' cannot be read; it must be a number of rows such as 24"),
        (["--horizon", "0"], "horizon=0 must be at least 1"),
        (["--horizon", "1..300"], "has 260 rows, too few for targets 300 rows ahead"),
        (["--quantiles", "0.9,0.1"], "quantiles=(0.9, 0.1) must be in rising order"),
        (["--quantiles", "10,90"], "quantiles has 10.0"),
        (["--minimum", "99"], "minimum=99 is above all values of 'load' in the training data of data.csv"),
        (["--horizon", "1,2", "--known", "two"], "known=two has the values of one time that is forecast"),
    ],
)
def test_what_is_refused(refused, options, words):
    assert words in refused("train", "data.csv", "--target", "load", *SMALL, *options)

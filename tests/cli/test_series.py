"""Many series in one model, from the command line: train, eval and stream."""

import json
import math
import runpy
from pathlib import Path

import pytest

from nystream.cli import main

helpers = runpy.run_path(str(Path(__file__).with_name("small_run.py")))
write, stamps, trained = helpers["write"], helpers["stamps"], helpers["trained"]
FAST = ["--target", "kwh", "--horizon", "2", "--epochs", "2"]


def kwh(count, size):
    return [round(size * (5 + math.sin(i / 4) + i * 7 % 5 / 10), 4) for i in range(count)]


def long_table(name="meters.csv", count=300, sizes=(1, 30, 900), names="abcdef"):
    rows = [
        (time, meter, value)
        for i, time in enumerate(stamps(count))
        for meter, value in zip(names, [kwh(count, size)[i] for size in sizes], strict=False)
    ]
    write(name, dict(zip(("time", "meter", "kwh"), map(list, zip(*rows, strict=True)), strict=True)))


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """A run on a long table of three series."""
    monkeypatch.chdir(tmp_path)
    long_table()
    return trained(capsys, "meters.csv", "--series", "meter", *FAST, "--out", "run")


def test_a_long_table_is_trained_on_scored_and_streamed(run, capsys):
    assert "3 series by 'meter', 300 rows each" in run
    assert "means over series" in run
    assert "The worst of 3 series" in run
    scores = json.loads(Path("run/scores.json").read_text())
    assert set(scores["series"]["test"]) == {"a", "b", "c"}
    assert "mean absolute error relative to persistence" in scores["series"]["test"]["a"]
    # Series that it was not trained on, of another size.
    long_table("others.csv", 200, (1e6, 1e-3), "xy")
    assert main(["eval", "run", "others.csv", "--plain", "--json", "scores.json", "--out", "forecasts.csv"]) == 0
    assert "2 series by 'meter', 200 rows each" in capsys.readouterr().out
    assert set(json.loads(Path("scores.json").read_text())["series"]) == {"x", "y"}
    header, *lines = Path("forecasts.csv").read_text().splitlines()
    assert header == "meter,time,target,forecast,truth,error"
    assert {line.split(",")[0] for line in lines} == {"x", "y"}


def test_a_stream_of_a_long_table_answers_each_series_and_resumes(run, capsys):
    long_table("others.csv", 60, (1e6, 1e-3), "xy")
    assert main(["stream", "run", "others.csv", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["meter"] for line in lines] == ["x", "y"] * 60
    assert [line["token"] for line in lines[-2:]] == [60, 60]
    options = ["stream", "run", "others.csv", "--json", "--save-state", "state"]
    assert main([*options, "--limit", "45"]) == 0
    first = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert main([*options, "--load-state", "state"]) == 0
    assert first + [json.loads(line) for line in capsys.readouterr().out.splitlines()] == lines
    # A table without the column is one series.
    write("one.csv", {"time": stamps(60), "kwh": kwh(60, 1e6)})
    assert main(["stream", "run", "one.csv", "--json"]) == 0
    alone = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["forecast"] for line in alone] == [line["forecast"] for line in lines[::2]]
    assert "meter" not in alone[0]


def test_a_bad_record_names_its_series(run, capsys):
    write("bad.csv", {"time": stamps(3), "meter": ["x", "x", ""], "kwh": ["1", "oops", "2"]})
    assert main(["stream", "run", "bad.csv", "--json"]) == 0
    err = capsys.readouterr().err
    assert "line 3, series 'x' skipped: column 'kwh' is 'oops', which is not a number" in err
    assert "'meter' is empty, so the series of the record is unknown" in err


def test_folders_and_several_files_are_series(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("meters").mkdir()
    for name, size, count in (("a", 1, 300), ("b", 30, 250), ("c", 900, 300)):
        write(f"meters/{name}.csv", {"time": stamps(count), "kwh": kwh(count, size)})
    folder = trained(capsys, "meters", *FAST, "--out", "folder")
    assert "3 series by 'file', 250 to 300 rows each" in folder
    trained(capsys, *(f"meters/{name}.csv" for name in "abc"), *FAST, "--out", "files")
    ours, theirs = (json.loads(Path(name, "scores.json").read_text()) for name in ("folder", "files"))
    assert ours["test"] == theirs["test"]
    assert main(["eval", "folder", "meters", "--plain"]) == 0
    assert main(["train", "--config", "files/config.toml", "--out", "again", "--plain"]) == 0
    capsys.readouterr()
    assert main(["stream", "folder", "meters", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["file"] for line in lines] == ["a.csv"] * 300 + ["b.csv"] * 250 + ["c.csv"] * 300
    assert lines[300]["token"] == 1


def test_errors(tmp_path, monkeypatch, refused):
    monkeypatch.chdir(tmp_path)
    long_table()
    assert "series='x': meters.csv has no such column" in refused("train", "meters.csv", "--series", "x", *FAST)
    assert "'kwh' is also the series column" in refused("train", "meters.csv", "--series", "kwh", *FAST)
    Path("features").mkdir()
    Path("features/a.npy").write_bytes(b"")
    assert "series='x' is for a table" in refused("train", "features", "--series", "x")
    assert "features is not a table" in refused("train", "meters.csv", "features", *FAST)

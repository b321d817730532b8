"""`nystream train`: from files to a run folder."""

import json
import runpy
import sys
import tomllib
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import numpy as np
import pytest
import torch
from matplotlib.dates import num2date

from nystream.cli import main
from nystream.data import plots
from nystream.data import run as running
from nystream.models import StreamModel
from nystream.plotting import new_figure

small = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("small_run.py"))))
SMALL, write, stamps, load, table, trained = (
    small.SMALL,
    small.write,
    small.stamps,
    small.load,
    small.table,
    small.trained,
)


@pytest.fixture(autouse=True)
def _quick(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running, "MIN_UPDATES_PER_EPOCH", 2)


def test_a_table_becomes_a_run(capsys, tmp_path):
    table(kind=["a", "b"] * 80, other=[i % 13 for i in range(160)])
    out = trained(capsys, "data.csv", "--target", "total", "--units", "MW")
    run = tmp_path / "runs" / "data"
    assert "time column 'time', one row every hour" in out
    assert "persistence" in out
    assert "Forecasting, MW" in out
    assert out.splitlines()[-1] == f"next: nystream stream runs/data {tmp_path / 'data.csv'}"
    assert {path.name for path in run.iterdir()} == {
        "config.toml",
        "checkpoints",
        "metrics.jsonl",
        "model",
        "plots",
        "scores.json",
    }
    assert {path.name for path in (run / "plots").iterdir()} == {"loss.png", "forecast.png"}
    model = StreamModel.from_pretrained(run / "model")
    assert model.config.blocks[0].variant == "co-fixed-single"
    assert (model.info.task, model.info.labels, model.info.units) == ("forecasting", ("total",), ("MW",))
    assert model.info.reader["kind"] == "table"
    scores = json.loads((run / "scores.json").read_text())
    assert set(scores["test"]) == {"model", "ridge", "boosted trees", "persistence", "a day ago"}
    assert scores["test"]["model"]["mean absolute error"] > 0
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["phase"] for line in lines] == ["phase-1", "phase-2", "phase-2"]
    config = tomllib.loads((run / "config.toml").read_text())
    assert (config["window"], config["target"]) == (8, "total")


def test_a_config_file_gives_the_same_run_and_options_win_over_it(capsys, tmp_path):
    table()
    trained(capsys, "data.csv", "--target", "total", "--variant", "co-cont", "--seed", "3")
    assert main(["train", "--config", "runs/data/config.toml", "--out", "again", "--plain"]) == 0
    first, second = (StreamModel.from_pretrained(f"{run}/model").state_dict() for run in ("runs/data", "again"))
    assert all(torch.equal(x, second[name]) for name, x in first.items())
    assert main(["train", "--config", "runs/data/config.toml", "--seed", "4", "--out", "other", "--plain"]) == 0
    assert tomllib.loads((tmp_path / "other" / "config.toml").read_text())["seed"] == 4
    (tmp_path / "run.yaml").write_text(
        "source: data.csv\ntarget: [total]\nwindow: 4\nembed_dim: 8\nnum_heads: 2\nepochs: 1\nlr: 1\n"
    )
    assert main(["train", "--config", "run.yaml", "--lr", "0.001", "--variant", "co-full", "--plain"]) == 0
    assert tomllib.loads((tmp_path / "runs" / "data-2" / "config.toml").read_text())["lr"] == 0.001
    capsys.readouterr()


@pytest.mark.parametrize(
    ("variant", "epochs", "plan", "lines"),
    [
        ("co-fixed", 4, "4 epochs of 2 updates: 1 with full attention, then 3 with fixed landmarks", [2] * 4),
        ("co-fixed", 1, "2 epochs of 1 update: 1 with full attention, then 1 with fixed landmarks", [1, 1]),
        ("co-cont", 4, "4 epochs of 2 updates", [2] * 4),
        ("co-full", 4, "4 epochs of 2 updates", [2] * 4),
    ],
)
def test_every_variant_has_the_same_budget(capsys, monkeypatch, tmp_path, variant, epochs, plan, lines):
    monkeypatch.setattr(running, "MAX_UPDATES_PER_EPOCH", 2)
    table()
    out = trained(capsys, "data.csv", "--target", "total", "--variant", variant, "--epochs", str(epochs))
    assert f"training for {plan}\n" in out
    logged = [json.loads(line) for line in (tmp_path / "runs/data/metrics.jsonl").read_text().splitlines()]
    updates = [line["step"] // line["epoch"] for line in logged]
    assert (updates, sum(updates)) == (lines, 2 * epochs)


def test_the_recipe_of_the_paper(capsys, tmp_path):
    table()
    options = ("--layers", "1", "--recipe", "paper", "--decay", "no", "--epochs", "4")
    out = trained(capsys, "data.csv", "--target", "total", *options)
    assert "3 with continual landmarks, then 1 with fixed landmarks\n" in out
    model = StreamModel.from_pretrained(tmp_path / "runs" / "data")
    attention = model.config.blocks[0]
    assert (attention.decay, attention.pinv) == (False, "newton")


def test_options_that_do_not_go_together(capsys, refused, tmp_path):
    table()
    err = refused("train", "data.csv", "--target", "total", "--variant", "co-full", "--recipe", "paper")
    assert "recipe='paper' is for co-fixed, but --variant co-full is trained in one phase" in err
    err = refused("train", "data.csv", "--target", "total", "--stack", "paper", "--decay", "yes")
    assert "decay='yes' does not go with 2 blocks of --stack paper: give --stack deep or --layers 1" in err
    Path("c.yaml").write_text("decay: no\n")
    trained(capsys, "data.csv", "--target", "total", "--config", "c.yaml")
    assert tomllib.loads((tmp_path / "runs/data/config.toml").read_text())["decay"] == "no"


def test_by_default_recent_tokens_weigh_more(capsys, tmp_path):
    table()
    trained(capsys, "data.csv", "--target", "total")
    model = StreamModel.from_pretrained(tmp_path / "runs" / "data")
    attention = model.config.blocks[0]
    assert (attention.decay, attention.pinv) == (True, "none")
    config = tomllib.loads((tmp_path / "runs" / "data" / "config.toml").read_text())
    assert (config["decay"], config["recipe"]) == ("yes", "early")
    trained(capsys, "data.csv", "--target", "total", "--layers", "2", "--stack", "paper", "--out", "two")
    assert tomllib.loads((tmp_path / "two" / "config.toml").read_text())["decay"] == "no"


def test_names_with_commas_and_other_signs(capsys, tmp_path):
    write("data.csv", {"time": stamps(160), "Load, MW": load(160), "größe 😀": [x**1.1 for x in load(160)]})
    trained(capsys, "data.csv", "--target", "Load, MW", "--units", "MW, net", "--columns", "größe 😀")
    info = StreamModel.from_pretrained("runs/data/model").info
    assert (info.labels, info.units) == (("Load, MW",), ("MW, net",))
    assert main(["train", "--config", "runs/data/config.toml", "--out", "again", "--plain"]) == 0
    assert StreamModel.from_pretrained("again/model").info == info
    (tmp_path / "run.yaml").write_text('source: data.csv\ntarget: ["Load, MW", "größe 😀"]\n', encoding="utf-8")
    trained(capsys, "--config", "run.yaml")
    assert StreamModel.from_pretrained("runs/data-2/model").info.labels == ("Load, MW", "größe 😀")


def test_thousands(capsys, refused):
    write("data.csv", {"time": stamps(160), "total": [f"{1000 + 9 * x:,.0f}" for x in load(160)]})
    err = refused("train", "data.csv", "--target", "total")
    assert "which can mean 1900 or 1.9: give --decimal . or --decimal ," in err
    out = trained(capsys, "data.csv", "--target", "total", "--decimal", ".", "--variant", "co-full")
    assert "numbers have commas between thousands" in out


@pytest.mark.parametrize(
    ("step", "form", "separator", "words"),
    [
        (timedelta(minutes=15), "%Y-%m-%dT%H:%M:%SZ", ",", "one row every 15 minutes"),
        (timedelta(days=1), "%d.%m.%Y", ";", "one row every day"),
        (timedelta(seconds=10), "%m/%d/%Y %H:%M:%S", "\t", "one row every 10 seconds"),
    ],
)
def test_other_frequencies_and_forms(capsys, refused, step, form, separator, words):
    values = [str(value).replace(".", "," if separator == ";" else ".") for value in load(120)]
    write("data.csv", {"when": stamps(120, step, form), "a": values, "b": values}, separator)
    if "/" in form:
        err = refused("train", "data.csv", "--target", "a")
        assert "'01/01/2024 00:00:00' can be read in several ways: give --time-format '%d/%m/%Y %H:%M:%S' or" in err
    told = ["--time-format", form] if "/" in form else []
    out = trained(capsys, "data.csv", "--target", "a,b", "--horizon", "3", "--variant", "co-full", *told)
    assert words in out
    assert "mean absolute error of b" in out


def test_gaps_and_missing_values(capsys, refused):
    keep = [i for i in range(170) if i not in (50, 51, 120)]
    values, kinds = load(170), ["x", "y", None] * 60
    write(
        "data.csv",
        {
            "time": [stamps(170)[i] for i in keep],
            "total": [None if i == 30 else values[i] for i in keep],
            "kind": [kinds[i] for i in keep],
        },
    )
    err = refused("train", "data.csv", "--target", "total", *SMALL)
    assert "not regular in time, line 52: 2 rows are missing between 2024-01-03 01:00:00 and 2024-01-03 04:00:00" in err
    assert "--gaps fill inserts the missing rows" in err
    err = refused("train", "data.csv", "--target", "total", "--gaps", "fill", *SMALL)
    assert "has missing fields, line 4: 'kind' is empty" in err
    out = trained(capsys, "data.csv", "--target", "total", "--gaps", "fill", "--missing", "fill")
    assert "3 missing rows filled" in out
    out = trained(capsys, "data.csv", "--target", "total", "--gaps", "skip", "--missing", "skip")
    assert "rows with missing fields dropped" in out
    assert "3 missing rows skipped" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "source is missing"),
        (["none.csv"], "does not exist"),
        (["data.txt.gz"], "is not a table"),
        (["data.csv"], "target is missing: name the column to forecast, one of 'total'"),
        (["data.csv", "--target", "sum"], "has no target 'sum'"),
        (["data.csv", "--target", "total", "--time", "total"], "is not a column of times"),
        (["data.csv", "--target", "time"], "target 'time' is the time column"),
        (["data.csv", "--target", "total,total"], "target 'total' is named more than once"),
        (["data.csv", "--target", "total", "--time-format", "%d"], "matches no column"),
        (
            ["data.csv", "--target", "total", "--window", "500"],
            "too long for streams of at most 127 tokens",
        ),
        (["data.csv", "--target", "total", "--horizon", "0"], "horizon=0 must be at least 1"),
        (["data.csv", "--target", "total", "--epochs", "0"], "epochs=0"),
        (["data.csv", "--target", "total", "--window", "0"], "window=0"),
        (["data.csv", "--target", "total", "--seed", "-1"], "seed=-1 must be at least 0"),
        (["data.csv", "--target", "total", "--landmarks", "0"], "landmarks=0"),
        (
            ["data.csv", "--target", "total", "--landmarks", "20", "--window", "8"],
            "landmarks=20 must be at most window=8: give fewer landmarks, or a longer window",
        ),
        (
            ["data.csv", "--target", "total", "--landmarks", "33"],
            "landmarks=33 must be at most window=24, the default for this source",
        ),
        (
            ["data.csv", "--target", "total", "--landmarks", "4", "--variant", "co-full"],
            "landmarks=4 is for co-fixed and co-cont, but --variant co-full has none",
        ),
        (["data.csv", "--target", "total", "--seconds", "30"], "seconds=30.0 is for a folder of audio files"),
        (["data.csv", "--target", "total", "--task", "auto"], "task='auto' is for a folder of feature files"),
        (["data.csv", "--target", "total", "--time", "none", "--gaps", "fill"], "gaps='fill': records have no time"),
        (["data.csv", "--target", "total", "--lr", "-1"], "lr=-1.0"),
        (["data.csv", "--target", "total", "--lr", "inf"], "lr=inf must be finite and at least 0"),
        (["full"], "mine.txt is empty: it needs a first line with the names of its columns"),
        (["."], "target is missing"),
        (["data.csv", "--target", "total", "--num-heads", "7"], "num_heads=7"),
        (["data.csv", "--target", "total", "--device", "tpu"], "device='tpu'"),
        (["data.csv", "--target", "total", "--background", "x"], "background='x' is for a folder of feature files"),
        (["data.csv", "--target", "total", "--out", "full"], "out=full exists and is not a run"),
        (["--config", "none.toml"], "config=none.toml is not a file"),
        (["--config", "bad.toml"], "config=bad.toml cannot be used"),
        (["--config", "odd.yaml"], "unknown fields: colour"),
        (["--config", "type.toml"], "window='x' must be a whole number, not text"),
        (["empty"], "nor feature files (.npy, .npz) nor audio"),
        (["--config", "data.csv"], "must end in .toml"),
    ],
)
def test_bad_input_is_one_line(refused, tmp_path, arguments, words):
    table()
    (tmp_path / "data.txt.gz").write_text("")
    (tmp_path / "bad.toml").write_text("= 3")
    (tmp_path / "odd.yaml").write_text("colour: red\n")
    (tmp_path / "type.toml").write_text('source = "data.csv"\nwindow = "x"\n')
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("")
    assert words in refused("train", *arguments)
    assert not (tmp_path / "runs").exists()


def test_without_matplotlib(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    table()
    assert main(["train", "data.csv", "--target", "total", "--variant", "co-full", *SMALL]) == 0
    out, err = capsys.readouterr()
    assert "no plots: a plot needs matplotlib: pip install -c constraints.txt '.[plot]'" in err
    assert "plots" not in out.splitlines()[-2]


def test_without_polars(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    table()
    assert main(["train", "data.csv", "--target", "total"]) == 1
    assert capsys.readouterr().err == (
        "nystream: error: reading tables needs polars: pip install -c constraints.txt '.[data]'\n"
    )


def folder_of_frames(folder, labels):
    rng = np.random.default_rng(0)
    folder.mkdir()
    for i in range(12):
        y = (np.arange(20) // 5 + i) % 2 if labels == "frames" else i % 2
        x = rng.normal(size=(20, 3)) + 3.0 * np.broadcast_to(y, 20)[:, None]
        np.savez(folder / f"{i}.npz", x=x.astype(np.float32), y=y)


def test_several_classes_at_once(capsys, tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "clips").mkdir()
    for i in range(12):
        y = (rng.random((20, 3)) > 0.6).astype(np.uint8)
        np.savez(tmp_path / "clips" / f"{i}.npz", x=(rng.normal(size=(20, 3)) + 3 * y).astype(np.float32), y=y)
    out = trained(capsys, "clips")
    assert "3 classes, labelled per frame, several at once or none" in out
    assert StreamModel.from_pretrained("runs/clips/model").info.several
    assert main(["eval", "runs/clips", "clips", "--plain"]) == 0
    assert "mean average precision" in capsys.readouterr().out


@pytest.mark.parametrize("labels", ["frames", "files"])
def test_a_folder_of_feature_files(capsys, refused, tmp_path, labels):
    folder_of_frames(tmp_path / "clips", labels)
    (tmp_path / "clips" / "broken.npz").write_text("x")
    out = trained(capsys, "clips", "--layers", "2")
    assert "1 file dropped: broken.npz" in out
    assert ("mean average precision" if labels == "frames" else "accuracy at the end of a file") in out
    model = StreamModel.from_pretrained("runs/clips/model")
    assert model.info.task == ("detection" if labels == "frames" else "classification")
    assert model.info.labels == ("0", "1")
    drawn = {path.name for path in (tmp_path / "runs" / "clips" / "plots").iterdir()}
    of_frames = {"precision.png"} if labels == "frames" else set()
    assert drawn == {"loss.png", "classes.png", "confusion.png"} | of_frames
    assert "Scores by class" in out
    assert "Confusion matrix: rows are true classes" in out
    classes = json.loads((tmp_path / "runs" / "clips" / "scores.json").read_text())["classes"]
    assert set(classes) == {"valid", "test"}
    each = classes["test"]["scores"]["0"]
    assert set(each) == {labels, "precision", "recall", "F1"} | ({"average precision"} if of_frames else set())
    assert sum(classes["test"]["confusion"]["0"].values()) == each[labels]
    assert "is for a table" in refused("train", "clips", "--target", "x")


def test_a_window_that_no_file_fills_is_said(capsys, tmp_path):
    folder_of_frames(tmp_path / "clips", "files")
    out = trained(capsys, "clips", "--window", "30", "--variant", "co-full")
    assert "no file fills window=30: the longest has 20 tokens" in out


def test_a_folder_of_audio(capsys, tmp_path):
    soundfile = pytest.importorskip("soundfile")
    rng = np.random.default_rng(0)
    for label, pitch in (("low", 200), ("high", 3000)):
        (tmp_path / "sounds" / label).mkdir(parents=True)
        for i in range(4):
            wave = np.sin(2 * np.pi * pitch * np.arange(12000) / 16000) * 0.5 + rng.normal(size=12000) * 0.05
            soundfile.write(tmp_path / "sounds" / label / f"{i}.wav", wave, 16000)
    out = trained(capsys, "sounds", "--window", "4")
    assert "8 files with 56 tokens in total; 2 classes, one per file" in out
    info = StreamModel.from_pretrained("runs/sounds/model").info
    assert (info.labels, info.seconds, info.reader["kind"]) == (("high", "low"), 0.1, "audio")


def test_one_epoch_is_divided_among_the_phases(capsys):
    table()
    out = trained(capsys, "data.csv", "--target", "total", "--epochs", "1")
    said = "epochs=1 is less than the number of training phases, 2: each has a shorter epoch, with 1 epoch of updates"
    assert f"{said} in total\n" in out
    assert "training for 2 epochs of 1 update: 1 with full attention, then 1 with fixed landmarks" in out
    assert "shorter epoch" not in trained(capsys, "data.csv", "--target", "total", "--epochs", "2")


def test_the_next_command_skips_the_same_lines(capsys, tmp_path):
    table("plain.csv")
    (tmp_path / "data.csv").write_text("A report\nof ours\n" + (tmp_path / "plain.csv").read_text())
    out = trained(capsys, "data.csv", "--target", "total", "--skip-lines", "2")
    command = out.splitlines()[-1].removeprefix("next: nystream ").split()
    assert command[-2:] == ["--skip-lines", "2"]
    assert main(command) == 0
    assert len(capsys.readouterr().out.splitlines()) == 160


@pytest.mark.parametrize("timezone", ["", "Asia/Tokyo"])
def test_forecasts_are_plotted_in_local_time(capsys, monkeypatch, timezone):
    figures = []
    monkeypatch.setattr(plots, "new_figure", lambda: figures.append(new_figure()) or figures[-1])
    table()
    trained(capsys, "data.csv", "--target", "total", "--epochs", "1", "--timezone", timezone)
    axis = figures[-1].axes[0].xaxis
    assert axis.get_units() == (ZoneInfo(timezone) if timezone else None)
    # The last row is that of the hour before 2024-01-07 16:00, which is the time in the file.
    hour = num2date(axis.axes.lines[0].get_xdata(orig=False)[-1], axis.get_units())
    assert hour.strftime("%Y-%m-%d %H:%M") == "2024-01-07 15:00"

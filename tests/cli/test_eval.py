"""`nystream eval`: a trained model on a source."""

import json
import math
import shutil

import numpy as np
import polars as pl
import pytest
import torch

import nystream as ns
from nystream.cli import main
from nystream.data import run as running
from nystream.data.open_source import open_for, open_for_training
from nystream.data.scoring import scored, scored_from
from nystream.data.settings import Settings, read_config

SMALL = ["--window", "8", "--embed-dim", "8", "--num-heads", "2", "--epochs", "1", "--plain"]


def rows(count, first=0):
    lines = ["time,total,kind"]
    for i in range(first, first + count):
        lines.append(f"2024-01-{1 + i // 24:02d} {i % 24:02d}:00,{100 + 10 * math.sin(i / 4):.3f},{'ab'[i % 2]}")
    return lines


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with a run on a table, and one on a folder."""
    folder = tmp_path_factory.mktemp("work")
    patch = pytest.MonkeyPatch()
    patch.chdir(folder)
    patch.setattr(running, "MIN_UPDATES_PER_EPOCH", 2)
    (folder / "data.csv").write_text("\n".join(rows(200)))
    assert main(["train", "data.csv", "--target", "total", "--variant", "co-cont", *SMALL]) == 0
    (folder / "clips").mkdir()
    rng = np.random.default_rng(0)
    for i in range(9):
        np.savez(folder / "clips" / f"{i}.npz", x=rng.normal(size=(20, 3)), y=(np.arange(20) + i) % 2)
    assert main(["train", "clips", *SMALL]) == 0
    yield folder
    patch.undo()


def test_a_table(capsys, work):
    (work / "new.csv").write_text("\n".join(rows(60, first=200)))
    assert main(["eval", "runs/data", "new.csv", "--json", "scores.json", "--plain"]) == 0
    out = capsys.readouterr().out
    assert "persistence" in out
    held = json.loads((work / "scores.json").read_text())["scores"]
    assert held["model"]["mean absolute error"] > 0
    first = max(8, ns.StreamModel.from_pretrained("runs/data").config.linear.tokens) - 1
    assert held["model"]["mean absolute error"] < held["persistence"]["mean absolute error"] / 10
    change = [abs(math.sin((i + 1) / 4) - math.sin(i / 4)) * 10 for i in range(200 + first, 259)]
    assert held["persistence"]["mean absolute error"] == pytest.approx(np.mean(change), rel=1e-2)


def test_it_is_what_a_stream_gives(capsys, work):
    from nystream.data.forecast import forecast
    from nystream.data.reader import reader_from_dict
    from nystream.data.table import read_table

    assert main(["eval", "runs/data/model", "data.csv", "--json", "scores.json", "--plain"]) == 0
    capsys.readouterr()
    model = ns.StreamModel.from_pretrained("runs/data/model")
    reader = reader_from_dict(model.info.reader)
    live, pool = reader.live(), ns.StreamPool(model)
    stream, errors = pool.open(), []
    table = read_table("data.csv")
    truth = forecast(table, reader=reader).rows.base[:, 0]
    for i, record in enumerate(table.records()):
        (token,) = live.read(record)
        y = pool.push(stream, token.x)
        if max(8, model.config.linear.tokens) - 1 <= i < 199:
            errors.append(abs(token.base[0] + y[0] - truth[i + 1]))
    held = json.loads((work / "scores.json").read_text())["scores"]["model"]
    assert held["mean absolute error"] == pytest.approx(np.mean(errors), rel=1e-3)


def test_fewer_rows_than_the_linear_path_reads(capsys, work):
    (work / "new.csv").write_text("\n".join(rows(12, first=200)))
    assert main(["eval", "runs/data", "new.csv", "--plain"]) == 0
    assert "rows, more than the source has; scores are from row 8 on" in capsys.readouterr().out


def test_a_folder(capsys, work):
    assert main(["eval", "runs/clips", "clips", "--plain"]) == 0
    assert "mean average precision" in capsys.readouterr().out


def test_what_a_model_started_from_is_beside_it(capsys, work):
    """As on the test part of the run: it is stored in the model."""
    for run, source, name in (("runs/data", "data.csv", "ridge"), ("runs/clips", "clips", "logistic regression")):
        model = ns.StreamModel.from_pretrained(run)
        problem = open_for_training(Settings(**read_config(work / run / "config.toml")), show=False)
        warm = scored_from(model, problem, "test", 7 if source == "data.csv" else 0)
        there = json.loads((work / run / "scores.json").read_text())["test"][name]
        opened = open_for(model.info, work / source, show=False)
        here = scored(model, opened, "test", warm, print, False)[1][name]  # the same rows and files by default
        assert here == pytest.approx(there, rel=1e-4)


def test_forecasts_and_their_truth(capsys, work):
    (work / "new.csv").write_text("\n".join(rows(60, first=200)))
    words = ["eval", "runs/data", "new.csv", "--json", "scores.json", "--plain"]
    for name in ("forecasts.csv", "forecasts.parquet", "forecasts.tsv"):
        assert main([*words, "--out", name]) == 0
        assert f"wrote {name}" in capsys.readouterr().out
    found = pl.read_csv("forecasts.csv")
    assert found.columns == ["time", "target", "forecast", "truth", "error"]
    held = json.loads((work / "scores.json").read_text())["scores"]["model"]
    assert found["error"].abs().mean() == pytest.approx(held["mean absolute error"], rel=1e-5)
    assert found["time"][-1] == "2024-01-11T19:00:00"  # that of the last row of the table
    assert found["truth"][-1] == round(100 + 10 * math.sin(259 / 4), 3)
    assert (found["forecast"] - found["truth"] - found["error"]).abs().max() < 1e-9
    assert pl.read_csv("forecasts.tsv", separator="\t").equals(found)
    columns = pl.read_parquet("forecasts.parquet")
    assert columns["time"].dtype == pl.Datetime("us")
    assert columns.drop("time").equals(found.drop("time"))


def test_the_source_is_not_overwritten(refused, work):
    assert "is the source, which would be overwritten" in refused(
        "eval", "runs/data", "data.csv", "--out", "./data.csv"
    )


def test_classes_and_their_truth(capsys, refused, work, detector):
    words = ["eval", "detector", "frames", "--plain"]
    assert main([*words, "--out", "classes.csv", "--json", "scores.json"]) == 0
    assert "Scores by class" in capsys.readouterr().out
    found = pl.read_csv("classes.csv")
    names = ["calm", "run", "walk"]
    assert found.columns == ["file", "frame", "truth", "predicted", *(f"probability of {name}" for name in names)]
    assert found["frame"].to_list() == list(range(30)) * 9
    with np.load(work / "frames" / "4.npz") as file:
        assert found.filter(pl.col("file") == "4.npz")["truth"].to_list() == file["y"].tolist()
    likely = found.select(f"probability of {name}" for name in names).to_numpy()
    np.testing.assert_allclose(likely.sum(1), 1, rtol=1e-5)
    assert found["predicted"].to_list() == [names[i] for i in likely.argmax(1)]
    held = json.loads((work / "scores.json").read_text())["classes"]
    right = (found["truth"] == found["predicted"]) & (found["truth"] == "run")
    assert held["confusion"]["run"]["run"] == right.sum()
    assert held["scores"]["run"]["recall"] == pytest.approx(right.sum() / held["scores"]["run"]["frames"])
    assert "out=classes.txt must end in one of .csv, .tsv, .parquet, .pq" in refused(*words, "--out", "classes.txt")
    assert "out=no/classes.csv: its folder does not exist" in refused(*words, "--out", "no/classes.csv")


def test_bad_input(capsys, refused, work):
    assert "is not a folder" in refused("eval", "nothing", "data.csv")
    assert "does not exist" in refused("eval", "runs/data", "none.csv")
    assert "the model reads a table, but clips is a folder of feature files" in refused("eval", "runs/data", "clips")
    (work / "short.csv").write_text("\n".join(rows(8)))
    assert "do not fill a window of 8" in refused("eval", "runs/data", "short.csv")
    (work / "less.csv").write_text("time,total\n2024-01-01,1\n")
    assert "has no column 'kind'" in refused("eval", "runs/data", "less.csv")
    (work / "new.csv").write_text("\n".join([*rows(30)[:20], *rows(40)[25:]]))
    assert "not regular in time, line 21" in refused("eval", "runs/data", "new.csv")
    assert main(["eval", "runs/data", "new.csv", "--gaps", "fill", "--plain"]) == 0
    assert "5 missing rows filled" in capsys.readouterr().out
    (work / "new.csv").write_text("\n".join(rows(30)).replace(",b", ",c"))
    assert "'kind' is 'c', a new category" in refused("eval", "runs/data", "new.csv")


@pytest.fixture(scope="module")
def detector(work):
    """A run on frames of three classes, one of them in the background."""
    (work / "frames").mkdir()
    rng = np.random.default_rng(1)
    for i in range(9):
        y = (np.arange(30) // 5 + i) % 3
        x = rng.normal(size=(30, 3)) + np.eye(3)[y]
        np.savez(work / "frames" / f"{i}.npz", x=x, y=np.array(["calm", "run", "walk"])[y])
    assert main(["train", "frames", "--background", "calm", "--out", "detector", *SMALL]) == 0
    return work / "detector"


def detected(capsys, work, *words):
    assert main(["eval", *map(str, words), "--json", "scores.json", "--plain"]) == 0
    capsys.readouterr()
    return json.loads((work / "scores.json").read_text())["scores"]["model"]["mean average precision"]


def test_the_background_is_that_of_the_run(capsys, refused, work, detector):
    of_run = detected(capsys, work, detector, "frames")
    assert of_run == detected(capsys, work, detector, "frames", "--background", "calm")
    assert of_run != detected(capsys, work, detector, "frames", "--background", "")
    assert of_run == detected(capsys, work, detector / "model", "frames")
    assert main(["fit-landmarks", "detector", "frames", "--out", "fixed", "--plain"]) == 0
    assert f"{of_run:.4g}" in capsys.readouterr().out
    assert ns.StreamModel.from_pretrained("fixed").info.background == "calm"
    assert "background='x' is for a folder of feature files" in refused(
        "eval", "runs/data", "data.csv", "--background", "x"
    )


def test_the_background_of_a_run_of_the_last_version(capsys, work, detector):
    of_run = detected(capsys, work, detector, "frames")
    shutil.copytree(detector, work / "old")
    held = work / "old" / "model" / "config.json"
    config = json.loads(held.read_text())
    for name in ("background", "file_seconds"):
        del config["info"][name]
    held.write_text(json.dumps(config))
    assert detected(capsys, work, "old", "frames") == of_run
    assert detected(capsys, work, "old/model", "frames") == of_run
    assert main(["fit-landmarks", "old", "frames", "--out", "old-fixed", "--plain"]) == 0
    assert ns.StreamModel.from_pretrained("old-fixed").info.background == "calm"


def test_the_seconds_of_a_file_are_those_of_the_run(capsys, work):
    soundfile = pytest.importorskip("soundfile")
    rng = np.random.default_rng(0)
    for label, pitch in (("low", 200), ("high", 3000)):
        (work / "sounds" / label).mkdir(parents=True)
        for i in range(4):
            wave = np.sin(2 * np.pi * pitch * np.arange(32000) / 16000) * 0.5 + rng.normal(size=32000) * 0.05
            soundfile.write(work / "sounds" / label / f"{i}.wav", wave, 16000)
    assert main(["train", "sounds", "--seconds", "1", "--out", "heard", *SMALL]) == 0
    tokens = "8 files with 72 tokens in total"
    assert tokens in capsys.readouterr().out
    assert main(["eval", "heard", "sounds", "--plain"]) == 0
    assert tokens in capsys.readouterr().out
    assert main(["eval", "heard", "sounds", "--seconds", "2", "--plain"]) == 0
    assert tokens not in capsys.readouterr().out


def test_a_model_whose_outputs_are_not_finite_has_no_scores(capsys, work):
    model = ns.StreamModel.from_pretrained("runs/clips/model")
    with torch.no_grad():
        model.encoder.norm.bias.fill_(10.0)
        model.head.weight.fill_(3e38)  # finite, but what it gives is not
    model.save_pretrained("poisoned")
    assert main(["eval", "poisoned", "clips", "--json", "scores.json", "--plain"]) == 0
    assert "the model's output is not finite for 180 of 180 tokens, so scores are missing" in capsys.readouterr().out
    record = json.loads((work / "scores.json").read_text())
    assert set(record["scores"]["model"].values()) == {None}
    assert record["classes"]["scores"]["1"]["F1"] is None
    assert "confusion" not in record["classes"]

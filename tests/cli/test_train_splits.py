"""`nystream train` with validation and test data of their own, and with groups."""

import json
import runpy
import shutil
import tomllib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from nystream.cli import main
from nystream.data import run as running
from nystream.models import StreamModel

small = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("small_run.py"))))
SMALL, write, stamps, load, trained = small.SMALL, small.write, small.stamps, small.load, small.trained


@pytest.fixture(autouse=True)
def _quick(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running, "MIN_UPDATES_PER_EPOCH", 2)


def rows(name, first, last, **columns):
    write(name, {"time": stamps(last)[first:], "total": load(last)[first:], **columns})


def scores(path):
    return json.loads(Path(path).read_text())


@pytest.mark.parametrize("linear", ["yes", "no"])
def test_the_scores_on_another_table_are_those_of_eval(capsys, tmp_path, linear):
    for name, first, last in (("data.csv", 0, 160), ("va.csv", 160, 230), ("te.csv", 230, 330)):
        rows(name, first, last)
    words = ("data.csv", "--target", "total,", "--horizon", "2", "--linear", linear, "--epochs", "1")
    out = trained(capsys, *words, "--valid", "va.csv", "--test", "te.csv")
    assert "158 rows for training, 68 rows for validation (va.csv), 98 rows for testing (te.csv)" in out
    config = tomllib.loads((tmp_path / "runs/data/config.toml").read_text())
    assert (config["valid"], config["test"]) == (str(tmp_path / "va.csv"), str(tmp_path / "te.csv"))
    assert main(["eval", "runs/data", "te.csv", "--json", "eval.json", "--plain"]) == 0
    capsys.readouterr()
    ours, theirs = scores("runs/data/scores.json")["test"], scores("eval.json")["scores"]
    for name in ("model", "persistence"):
        assert ours[name] == pytest.approx(theirs[name], rel=1e-6)


def test_a_table_shorter_than_the_lags_is_scored_from_the_window_on(capsys):
    rows("data.csv", 0, 300)
    rows("te.csv", 300, 330)
    out = trained(capsys, "data.csv", "--target", "total", "--test", "te.csv", "--epochs", "1")
    tokens = StreamModel.from_pretrained("runs/data").config.linear.tokens
    assert tokens > 29
    assert f"are fewer than the {tokens} that the model reads, so it lacks some lags there" in out
    assert scores("runs/data/scores.json")["test"]["model"]["mean absolute error"] > 0


def test_a_run_is_not_resumed_with_other_test_data(capsys, refused, tmp_path):
    rows("data.csv", 0, 160)
    rows("te.csv", 160, 230)
    words = ("data.csv", "--target", "total", "--variant", "co-full", "--test", "te.csv", "--out", "run")
    trained(capsys, *words, "--linear", "no")
    assert "already trained" in trained(capsys, *words, "--linear", "no")
    rows("te.csv", 161, 231)
    err = refused("train", *words, "--linear", "no", *SMALL)
    assert f"contains a run on other data: {tmp_path / 'data.csv'} or {tmp_path / 'te.csv'} has changed" in err
    assert "split is '' there and '0.8,0.1,0.1' here" in refused(
        "train", *words[:5], "--out", "run", "--split", "0.8,0.1,0.1", "--linear", "no", *SMALL
    )


def test_a_split_in_a_config_file(capsys, tmp_path):
    rows("data.csv", 0, 160)
    (tmp_path / "run.yaml").write_text(
        "source: data.csv\ntarget: total\nsplit: [0.5, 0.25, 0.25]\nwindow: 4\nembed_dim: 8\nnum_heads: 2\nepochs: 1\n"
    )
    assert main(["train", "--config", "run.yaml", "--plain"]) == 0
    assert "79 rows for training, 40 rows for validation, 40 rows for testing" in capsys.readouterr().out
    out = trained(capsys, "data.csv", "--target", "total", "--split", "2024-01-05,2024-01-06")
    assert "95 rows for training, 24 rows for validation, 40 rows for testing; validation begins at 2024-01-05" in out


def folder(path, files=12, seed=0, subjects=4):
    rng = np.random.default_rng(seed)
    path.mkdir()
    lines = ["file,label,subject"]
    for i in range(files):
        label = i // subjects % 2
        np.save(path / f"{i}.npy", rng.normal(size=(20, 3)) + 3 * label)
        lines.append(f"{i}.npy,{'ab'[label]},{path.name}{i % subjects}")
    (path / "labels.csv").write_text("\n".join(lines))


def test_groups_and_another_folder(capsys, refused, tmp_path):
    folder(tmp_path / "clips")
    folder(tmp_path / "new", files=8, seed=1)
    words = ("clips", "--group", "subject", "--epochs", "1")
    out = trained(capsys, *words, "--out", "drawn")
    assert "6 files for training, 3 files for validation, 3 files for testing, drawn with seed 0" in out
    assert "; none of the 4 groups of 'subject' is in two parts" in out
    out = trained(capsys, *words, "--test", "new", "--out", "given")
    assert "9 files for training, 3 files for validation, 8 files for testing" in out
    assert main(["eval", "given", "new", "--json", "eval.json", "--plain"]) == 0
    capsys.readouterr()
    ours, theirs = scores("given/scores.json"), scores("eval.json")
    assert ours["test"]["model"] == pytest.approx(theirs["scores"]["model"])
    assert ours["classes"]["test"] == theirs["classes"]
    labels = tmp_path / "clips" / "labels.csv"
    labels.write_text(labels.read_text().replace("clips3", "clips2"))
    assert "contains a run on other data" in refused("train", *words, "--out", "drawn", *SMALL[:-3], "--plain")
    assert "group='room' cannot be used" in refused("train", "clips", "--group", "room")
    assert "split='0.8,0.1,0.1' is for a table" in refused("train", "clips", "--split", "0.8,0.1,0.1")
    assert "does not exist" in refused("train", "clips", "--valid", "nothing")


def test_audio_of_another_folder(capsys, refused, tmp_path):
    soundfile = pytest.importorskip("soundfile")
    rng = np.random.default_rng(0)
    for source in ("sounds", "new"):
        for label, pitch in (("low", 200), ("high", 3000)):
            (tmp_path / source / label).mkdir(parents=True)
            for i in range(3):
                wave = np.sin(2 * np.pi * pitch * np.arange(12000) / 16000) * 0.5 + rng.normal(size=12000) * 0.05
                soundfile.write(tmp_path / source / label / f"{i}.wav", wave, 16000)
    out = trained(capsys, "sounds", "--window", "4", "--test", "new", "--epochs", "1")
    assert "4 files for training, 2 files for validation, 6 files for testing" in out
    shutil.copytree(tmp_path / "new" / "low", tmp_path / "new" / "middle")
    err = refused("train", "sounds", "--window", "4", "--test", "new")
    assert "has classes that" in err
    assert "class 'middle' is not one of high, low" in err


def test_the_same_data_to_validate_and_to_test_on_are_told(capsys, tmp_path):
    rows("data.csv", 0, 160)
    rows("other.csv", 160, 330)
    words = ("data.csv", "--target", "total", "--epochs", "1", "--valid", "other.csv", "--test")
    out = trained(capsys, *words, "../" + tmp_path.name + "/other.csv")
    assert f"valid and test are both {tmp_path / 'other.csv'}: its scores choose the weights that are kept" in out
    rows("new.csv", 330, 500)
    assert "are both" not in trained(capsys, *words, "new.csv")

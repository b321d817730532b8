"""`nystream train --teacher`: a run that learns from the model of another one."""

import runpy
import shutil
import tomllib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from nystream.cli import main
from nystream.data import run as running
from nystream.models import StreamModel

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


def test_a_teacher(capsys, tmp_path):
    table()
    arguments = ["data.csv", "--target", "total"]
    trained(capsys, *arguments, "--variant", "co-full", "--out", "full")
    alone = trained(capsys, *arguments, "--out", "alone")
    assert "learning from" not in alone
    for given in ("full", "full/model"):
        out = trained(capsys, *arguments, "--out", f"of-{given.replace('/', '-')}", "--teacher", given)
        assert f"also learning from {tmp_path / given}\n" in out
    first, second, plain = (
        StreamModel.from_pretrained(f"{run}/model").state_dict() for run in ("of-full", "of-full-model", "alone")
    )
    assert all(torch.equal(x, second[name]) for name, x in first.items())
    assert not all(torch.equal(x, plain[name]) for name, x in first.items())
    assert tomllib.loads((tmp_path / "of-full" / "config.toml").read_text())["teacher"] == str(tmp_path / "full")
    trained(capsys, *arguments, "--out", "of-full", "--teacher", "full")  # done: nothing is refused


def test_a_teacher_of_unknown_rows_is_doubted_and_so_is_its_pupil(capsys, tmp_path):
    table()
    arguments = ["data.csv", "--target", "total"]
    trained(capsys, *arguments, "--variant", "co-full", "--out", "full")
    (tmp_path / "full" / "model").rename(tmp_path / "lone")
    doubt = "; it is not known what it was trained on, so scores are fair only if it has not seen the test part"
    assert doubt in trained(capsys, *arguments, "--teacher", "lone", "--out", "pupil")
    assert doubt in trained(capsys, *arguments, "--teacher", "pupil", "--out", "pupil-of-a-pupil")
    for held in ("{", "[]"):
        (tmp_path / "pupil" / "scores.json").write_text(held)
        assert doubt in trained(capsys, *arguments, "--teacher", "pupil", "--out", f"of {held}")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--target", "other"], "labels is other there and total here; train it on this source, with the same options"),
        (["--target", "total", "--units", "kW"], "units is kW there and nothing here"),
        (["--target", "total", "--horizon", "2"], "horizon is 2 there and 1 here"),
    ],
)
def test_a_teacher_of_something_else_is_refused(capsys, refused, options, words):
    table(other=[i % 13 for i in range(160)])
    trained(capsys, "data.csv", *options, "--variant", "co-full", "--out", "full")
    err = refused("train", "data.csv", "--target", "total", "--out", "new", "--teacher", "full", *SMALL)
    assert "teacher was trained for another task: " in err
    assert words in err


def test_a_teacher_that_reads_in_another_way_is_refused(capsys, refused):
    table()
    trained(capsys, "data.csv", "--target", "total", "--variant", "co-full", "--out", "full")
    write("data.csv", {"time": stamps(160), "total": [x + 40 * (i > 20) for i, x in enumerate(load(160))]})
    err = refused("train", "data.csv", "--target", "total", "--out", "new", "--teacher", "full", *SMALL)
    assert "teacher was trained on rows that were read in another way (columns" in err


def test_a_teacher_that_is_nowhere(refused):
    table()
    err = refused("train", "data.csv", "--target", "total", "--teacher", "demand", *SMALL)
    assert "demand is not a folder; give a run folder, a model folder, or none" in err


def test_a_run_with_a_teacher_that_has_changed_is_refused(capsys, refused, tmp_path):
    table()
    arguments = ["data.csv", "--target", "total"]
    trained(capsys, *arguments, "--variant", "co-full", "--out", "full")
    trained(capsys, *arguments, "--teacher", "full", "--out", "pupil")
    shutil.rmtree(tmp_path / "full")
    trained(capsys, *arguments, "--variant", "co-full", "--seed", "1", "--out", "full")
    err = refused("train", *arguments, "--teacher", "full", "--out", "pupil", *SMALL)
    assert f"out=pupil contains a run with another teacher: {tmp_path / 'full'} has changed;" in err


def test_a_config_file_means_the_same_from_everywhere(capsys, monkeypatch, tmp_path):
    table()
    trained(capsys, "data.csv", "--target", "total", "--variant", "co-full", "--out", "full")
    (tmp_path / "run.toml").write_text('source = "data.csv"\ntarget = "total"\nteacher = "full"\n')
    trained(capsys, "--config", "run.toml", "--out", "pupil")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert main(["train", "--config", "../pupil/config.toml", "--out", "again", "--plain"]) == 0
    assert f"also learning from {tmp_path / 'full'}" in capsys.readouterr().out
    shutil.rmtree(tmp_path / "full")
    arguments = ["train", "--config", "../pupil/config.toml", "--out", "alone", "--plain"]
    assert main(arguments) == 2
    assert main([*arguments, "--teacher", "none"]) == 0
    assert "learning from" not in capsys.readouterr().out


def test_classes_from_a_teacher(capsys, tmp_path):
    generator = np.random.default_rng(0)
    for kind in ("a", "b"):
        for i in range(12):
            (tmp_path / "clips" / kind).mkdir(parents=True, exist_ok=True)
            np.save(
                tmp_path / "clips" / kind / f"{i}.npy", generator.normal(kind == "b", 1, (20, 3)).astype(np.float32)
            )
    trained(capsys, "clips", "--variant", "co-full", "--out", "full")
    out = trained(capsys, "clips", "--out", "taught", "--teacher", "full")
    assert f"also learning from {tmp_path / 'full'}\n" in out
    assert "other rows" in trained(capsys, "clips", "--out", "third", "--teacher", "full", "--seed", "5")

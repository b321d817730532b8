"""`nystream train` again: runs that were stopped, that are finished, or that an older version wrote."""

import json
import os
import re
import runpy
import signal
import time
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import nystream as ns
from nystream.cli import main
from nystream.data import expected_time
from nystream.data import run as running
from nystream.models import StreamModel
from nystream.train import recipe

small = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("small_run.py"))))
SMALL, table, trained = small.SMALL, small.table, small.trained


@pytest.fixture(autouse=True)
def _quick(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running, "MIN_UPDATES_PER_EPOCH", 2)


def test_a_run_that_was_stopped_goes_on(capsys, monkeypatch):
    table()
    arguments = ["data.csv", "--target", "total"]
    whole = trained(capsys, *arguments, "--out", "whole")

    def stop(*args, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(recipe, "fit_landmarks_together", stop)
        assert main(["train", *arguments, *SMALL]) == 130
        said = "1 epoch of training saved in runs/data; run the same command to resume"
        assert capsys.readouterr().err == f"nystream: stopped; {said}\n"
    assert "resuming runs/data at epoch 2 of 3\n" in trained(capsys, *arguments)
    first, second = (StreamModel.from_pretrained(f"{run}/model").state_dict() for run in ("whole", "runs/data"))
    assert all(torch.equal(x, second[name]) for name, x in first.items())
    assert "phase 2 of 2" in whole
    assert "resuming" not in whole


@pytest.fixture
def threads():
    """Sets torch's number of threads, until the end of the test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def threads_of(run):
    """The number of threads that a run was trained with, and the one in its config file."""
    scores, config = (run / name for name in ("scores.json", "config.toml"))
    return json.loads(scores.read_text())["hardware"]["threads"], tomllib.loads(config.read_text())["threads"]


@pytest.mark.parametrize("faster", [1, 3])
def test_the_faster_number_of_threads_is_chosen_once(capsys, monkeypatch, tmp_path, threads, faster):
    table()
    arguments = ["data.csv", "--target", "total", "--out", "run"]
    fit = expected_time.fit

    def slower_fit(*args, **options):
        time.sleep(0 if torch.get_num_threads() == faster else 0.2)
        return fit(*args, **options)

    def stop(*args, **options):
        raise KeyboardInterrupt

    threads(3)
    with monkeypatch.context() as patch:
        patch.setattr(expected_time, "fit", slower_fit)
        patch.setattr(recipe, "fit_landmarks_together", stop)
        assert main(["train", *arguments, *SMALL]) == 130
    assert f"ms per update with {faster} thread" in capsys.readouterr().out
    assert torch.get_num_threads() == 3
    threads(2)  # as on another machine
    trained(capsys, *arguments)
    assert threads_of(tmp_path / "run") == (faster, faster)
    assert torch.get_num_threads() == 2
    trained(capsys, "--config", "run/config.toml", "--out", "again")
    assert threads_of(tmp_path / "again") == (faster, faster)
    first, second = (StreamModel.from_pretrained(f"{run}/model").state_dict() for run in ("run", "again"))
    assert all(torch.equal(x, second[name]) for name, x in first.items())


def test_a_number_of_threads_that_is_given(capsys, refused, tmp_path):
    table()
    arguments = ["data.csv", "--target", "total", "--out", "run"]
    trained(capsys, *arguments, "--threads", "2")
    assert threads_of(tmp_path / "run") == (2, 2)
    assert "already trained" in trained(capsys, *arguments)
    assert "threads is 2 there and 1 here" in refused("train", *arguments, *SMALL, "--threads", "1")
    assert "threads=0 must be at least 1" in refused("train", *arguments, *SMALL, "--threads", "0")


def test_an_estimator_keeps_the_number_of_threads_of_torch(tmp_path, threads):
    table()
    threads(3)
    ns.Forecaster(target="total", window=8, embed_dim=8, num_heads=2, epochs=2).fit("data.csv", out="run")
    assert threads_of(tmp_path / "run") == (3, 0)


def test_a_run_that_is_asked_to_end_stops_like_one_that_is_interrupted(capsys, monkeypatch):
    table()
    with monkeypatch.context() as patch:
        patch.setattr(recipe, "fit_landmarks_together", lambda *args, **options: os.kill(os.getpid(), signal.SIGTERM))
        assert main(["train", "data.csv", "--target", "total", *SMALL]) == 143
    said = "1 epoch of training saved in runs/data; run the same command to resume"
    assert capsys.readouterr().err == f"nystream: stopped by SIGTERM; {said}\n"


PAPER = ("--patience", "0", "--layers", "1", "--decay", "no", "--recipe", "paper")


def written_by_the_last_version(run, **changes):
    """Rewrite the config file of a run as version 0.1 wrote it: its epochs are those of the first phase.

    It had neither quantiles nor decay nor another recipe than the paper's, so the run must be trained with `PAPER`.
    """
    config = run / "config.toml"
    lines = config.read_text().splitlines(keepends=True)
    assert lines[1] == "# epochs are those of all phases together\n"
    fields = tomllib.loads("".join(lines)) | changes
    assert (fields["layers"], fields.pop("decay"), fields.pop("recipe")) in ((1, "no", "paper"), (1, "no", "early"))
    for newer in ("patience", "quantiles", "minimum"):
        del fields[newer]
    config.write_text(lines[0] + "".join(f"{name} = {json.dumps(value)}\n" for name, value in fields.items()))


def test_a_run_of_the_last_version_is_resumed_and_repeated(capsys, monkeypatch, tmp_path):
    table()
    arguments = ["data.csv", "--target", "total", "--out", "run"]
    first = trained(capsys, *arguments, *PAPER)
    written_by_the_last_version(tmp_path / "run", epochs=2)  # and one to fine-tune
    assert "run is already trained (3 epochs" in trained(capsys, *arguments)
    (tmp_path / "run" / "scores.json").unlink()
    assert "resuming run: all 3 epochs are trained, only the scores are missing" in trained(capsys, *arguments)
    assert "run is already trained (3 epochs" in trained(capsys, *arguments)  # it is still a run of the last version
    assert main(["train", "--config", "run/config.toml", "--out", "again", "--plain"]) == 0
    one, other = (StreamModel.from_pretrained(f"{run}/model").state_dict() for run in ("run", "again"))
    assert all(torch.equal(x, other[name]) for name, x in one.items())
    assert "3 epochs of 2 updates: 2 with continual landmarks, then 1 with fixed landmarks" in first


@pytest.mark.parametrize(("variant", "epochs"), [("co-fixed", 18), ("co-full", 12)])
def test_a_run_of_the_last_version_with_its_usual_epochs_is_found(capsys, tmp_path, variant, epochs):
    table()
    arguments = ["data.csv", "--target", "total", "--variant", variant]
    trained(
        capsys,
        *arguments,
        *(PAPER if variant == "co-fixed" else PAPER[:-2]),
        "--epochs",
        str(epochs),
        "--patience",
        "0",
    )
    written_by_the_last_version(tmp_path / "runs" / "data", epochs=12, landmarks=4)
    size = SMALL[: SMALL.index("--epochs")]
    assert main(["train", *arguments, *size, "--plain"]) == 0
    assert f"runs/data is already trained ({epochs} epochs" in capsys.readouterr().out
    assert main(["train", *arguments, *size, "--epochs", "13", "--plain"]) == 0
    assert "this one goes to runs/data-2" in capsys.readouterr().out


def test_the_command_that_began_a_run_of_the_last_version_is_told_how_to_resume_it(capsys, tmp_path, refused):
    table()
    arguments = ["data.csv", "--target", "total", "--out", "run"]
    trained(capsys, *arguments, *PAPER)
    written_by_the_last_version(tmp_path / "run", epochs=2)
    err = refused("train", *arguments, *SMALL, "--epochs", "2")
    assert "epochs is 3 there and 2 here" in err
    assert "give --epochs 3 to resume it, or another folder" in err
    err = refused("train", *arguments, *SMALL, "--epochs", "2", "--horizon", "2")
    assert err.rstrip().endswith("; give another folder")


def test_the_same_command_finds_its_run_again(capsys, refused):
    table()
    arguments = ["data.csv", "--target", "total", "--variant", "co-full"]
    first, second = trained(capsys, *arguments), trained(capsys, *arguments)
    assert first.splitlines()[-8:] == second.splitlines()[-8:]
    assert re.search(r"runs/data is already trained \(3 epochs, finished 20.*\); its scores are below; give", second)
    assert "training for" not in second
    assert "already" not in first
    assert "runs/data-2" in trained(capsys, *arguments, "--horizon", "2")
    err = refused("train", *arguments, *SMALL, "--out", "runs/data", "--horizon", "3")
    assert "out=runs/data contains a run with other settings: horizon is 1 there and 3 here; give another folder" in err


def test_a_run_that_lacks_a_newer_setting_goes_on(capsys, tmp_path):
    table()
    arguments = ["data.csv", "--target", "total", "--variant", "co-full", "--out", "run"]
    trained(capsys, *arguments)
    config = tmp_path / "run" / "config.toml"
    lines = config.read_text().splitlines(keepends=True)
    config.write_text("".join(line for line in lines if not line.startswith("teacher")))
    trained(capsys, *arguments)


def test_data_that_have_grown_are_another_run(capsys, refused, tmp_path):
    table()
    arguments = ["data.csv", "--target", "total", "--variant", "co-full"]
    trained(capsys, *arguments)
    table(count=170)
    err = refused("train", *arguments, *SMALL, "--out", "runs/data")
    assert f"out=runs/data contains a run on other data: {tmp_path / 'data.csv'} has changed;" in err
    out = trained(capsys, *arguments)
    assert "runs/data has a run with other settings or other data: this one goes to runs/data-2" in out


def test_the_default_window_of_an_older_run_stays(capsys, tmp_path):
    """Its default did not depend on the step of the rows, and its file has no values for what was not given."""
    table(count=400)
    quick = ["--embed-dim", "8", "--num-heads", "2", "--epochs", "2", "--plain"]
    assert main(["train", "data.csv", "--target", "total", "--window", "64", *quick]) == 0
    config = tmp_path / "runs" / "data" / "config.toml"
    newer = config.read_text()
    assert "dropout = 0.1\n" in newer
    assert "weight_decay = 0.05\n" in newer
    assert "patience = 6\n" in newer
    config.write_text(re.sub(r"(dropout|weight_decay) = .*", r"\1 = -1.0", newer))
    capsys.readouterr()
    assert main(["train", "data.csv", "--target", "total", *quick]) == 0
    assert "runs/data is already trained (2 epochs" in capsys.readouterr().out
    (tmp_path / "runs" / "data" / "scores.json").unlink()
    assert main(["train", "data.csv", "--target", "total", "--window", "64", *quick]) == 0
    assert "resuming runs/data: all 2 epochs are trained" in capsys.readouterr().out
    config.write_text(newer)  # here, 64 was given
    assert main(["train", "data.csv", "--target", "total", "--out", "runs/data", *quick]) == 2
    err = capsys.readouterr().err
    assert "window is 64 there and 48 here; give --window 64 to resume it, or another folder" in err


def test_values_that_were_chosen_are_those_of_the_run_when_given(capsys):
    table()
    trained(capsys, "data.csv", "--target", "total")
    words = ("--dropout", "0.1", "--weight-decay", "0.05", "--patience", "6")
    assert "runs/data is already trained (3 epochs" in trained(capsys, "data.csv", "--target", "total", *words)

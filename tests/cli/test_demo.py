"""`nystream demo`, as it is typed."""

from __future__ import annotations

import dataclasses

import pytest

from nystream.cli import main
from nystream.demo import models


@pytest.fixture
def quick(monkeypatch, tmp_path):
    monkeypatch.setattr(models, "BUDGET", dataclasses.replace(models.BUDGET, steps_per_epoch=2, batch_size=2))
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("quick")
def test_it_runs_to_the_end_in_a_pipe(capsys, tmp_path):
    assert main(["demo", "--plain", "--weeks", "1", "--epochs", "3"]) == 0
    said = capsys.readouterr().out
    for words in ("full, window recomputed", "low-rank, fixed landmarks", "persistence", "ridge", "µs a step"):
        assert words in said
    assert max(len(line) for line in said.splitlines()) <= 100
    assert "nystream demo --weeks 1 --epochs 3" in (tmp_path / "demo" / "report.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("words", [["--weeks", "0"], ["--epochs", "1"], ["--seconds", "-1"]])
def test_bad_input_is_one_line(capsys, words):
    assert main(["demo", *words]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert words[0].strip("-") in said


@pytest.mark.usefixtures("quick")
def test_a_folder_that_cannot_be_is_refused_before_anything_is_trained(capsys, tmp_path):
    (tmp_path / "demo").write_text("a file")
    assert main(["demo", "--plain"]) == 2
    assert "demo" in capsys.readouterr().err

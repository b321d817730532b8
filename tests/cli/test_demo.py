"""`nystream demo` on the command line."""

from __future__ import annotations

import dataclasses
import io
import sys

import pytest
from rich.console import Console

from nystream import progress
from nystream.cli import demo, main
from nystream.cli.screen import fitting
from nystream.lab.demo import models, page, screen, summary
from nystream.lab.demo.summary import StepCost, SummaryRow
from nystream.lab.demo.terminal import Keyboard, Quit

QUICK = ["demo", "--plain", "--weeks", "1", "--epochs", "3"]


@pytest.fixture
def quick(monkeypatch, tmp_path):
    monkeypatch.setattr(models, "BUDGET", dataclasses.replace(models.BUDGET, steps_per_epoch=2, batch_size=2))
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def problem():
    return models.load()


@pytest.fixture(scope="module")
def learned(problem):
    budget = dataclasses.replace(models.BUDGET, epochs=3, steps_per_epoch=2, batch_size=2)
    return dict(models.train(problem, show=False, budget=budget))


@pytest.fixture
def ready(monkeypatch, tmp_path, problem, learned):
    """Replace training by models that are ready, and drawing by nothing; return the models by variant."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(models, "load", lambda: problem)
    monkeypatch.setattr(models, "train", lambda *_: iter(learned.items()))
    monkeypatch.setattr(summary, "ridge", summary.persistence)
    monkeypatch.setattr(page, "render", lambda *_: "the page")
    return learned


@pytest.fixture
def untrained(monkeypatch, tmp_path):
    """Fail if training starts before the options have been checked."""

    def train(*_):
        raise AssertionError("training began")

    monkeypatch.setattr(models, "train", train)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("quick")
def test_it_runs_to_the_end_in_a_pipe(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(progress, "MIN_REPORTED", -1.0)
    assert main(QUICK) == 0
    said, told = capsys.readouterr()
    for words in ("full, window recomputed", "low-rank, fixed landmarks", "persistence", "ridge", "µs per step"):
        assert words in said
    assert max(len(line) for line in (said + told).splitlines()) <= 80
    assert "nystream demo --weeks 1 --epochs 3" in (tmp_path / "demo" / "report.html").read_text(encoding="utf-8")
    for words in ("full attention, training: 6 of 6", "continual landmarks, training: 4 of 4", "scoring the models"):
        assert words in told


@pytest.mark.usefixtures("untrained")
@pytest.mark.parametrize(
    "words",
    [["--weeks", "0"], ["--epochs", "1"], ["--seconds", "-1"], ["--seconds", "0"], ["--seconds", "nan"],
     ["--seconds", "inf"]],
)  # fmt: skip
def test_bad_input_is_one_line(capsys, words):
    assert main(["demo", *words]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert words[0].strip("-") in said


@pytest.mark.usefixtures("untrained")
def test_a_folder_that_cannot_be_is_refused_before_anything_is_trained(capsys, tmp_path):
    (tmp_path / "afile").write_text("a file")
    assert main(["demo", "--out", "afile"]) == 2
    assert "out=afile is a file, but must be a folder" in capsys.readouterr().err
    (tmp_path / "demo" / "report.html").mkdir(parents=True)
    assert main(["demo"]) == 2
    assert "report.html is a folder" in capsys.readouterr().err


@pytest.mark.usefixtures("untrained")
@pytest.mark.parametrize(("package", "extra"), [("matplotlib", "plot"), ("sklearn", "train")])
def test_what_is_missing_is_named_before_anything_is_trained(capsys, monkeypatch, package, extra):
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    assert main(["demo"]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.count(f"pip install -c constraints.txt '.[{extra}]'") == 1
    assert "--no-plots" not in said


@pytest.mark.usefixtures("ready")
def test_the_table_is_there_whatever_becomes_of_the_page(capsys, monkeypatch):
    def fails(*_):
        raise OSError("no page")

    monkeypatch.setattr(page, "render", fails)
    assert main(QUICK) == 2
    said = capsys.readouterr()
    assert "low-rank, fixed landmarks" in said.out
    assert "no page" in said.err


@pytest.mark.usefixtures("ready")
def test_more_weeks_than_there_are_are_told_of(capsys):
    assert main(["demo", "--plain", "--weeks", "100", "--epochs", "3"]) == 0
    said = capsys.readouterr().out
    assert "weeks=100: only 15.7 were held out" in said
    assert "   15.7  2024-12-31" in said


@pytest.mark.usefixtures("ready")
def test_q_while_the_first_model_learns_leaves_nothing_to_show(capsys, monkeypatch, tmp_path):
    def train(*_):
        raise Quit
        yield

    monkeypatch.setattr(models, "train", train)
    assert main(QUICK) == 0
    assert "Stopped before a model was trained" in capsys.readouterr().out
    assert not list((tmp_path / "demo").iterdir())


@pytest.mark.parametrize("phase", ["learning", "timing"])
def test_q_leaves_what_there_is_so_far(capsys, monkeypatch, ready, phase):
    def stopped(*_):
        for variant, model in ready.items():
            yield variant, model
            if variant == "co-full-single" and phase == "learning":
                raise Quit

    def timed(*_, **__):
        raise Quit

    monkeypatch.setattr(models, "train", stopped)
    monkeypatch.setattr(summary, "timed", timed)
    assert main(QUICK) == 0
    said = capsys.readouterr().out
    assert "continual full" in said
    assert ("low-rank, fixed landmarks" in said) == (phase == "timing")
    assert "no page was written" in said


@pytest.mark.usefixtures("ready")
def test_a_screen_without_braille_is_a_log(monkeypatch):
    class Terminal(io.TextIOWrapper):
        def isatty(self):
            return True

    def follow(*_):
        raise AssertionError("drawn all the same")

    out = Terminal(io.BytesIO(), encoding="latin-1", write_through=True)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(screen, "follow", follow)
    assert main(["demo", "--weeks", "1", "--epochs", "3"]) == 0
    said = out.buffer.getvalue().decode("latin-1")
    assert "µs per step" in said
    assert "\x1b[?1049h" not in said


@pytest.mark.parametrize("width", [80, 60, 40])
def test_no_column_is_lost_where_the_terminal_is_narrow(width):
    lines = [
        SummaryRow("full, window recomputed", 0.000525, 0.706, StepCost(524288, 1217.5, 65544), "full"),
        SummaryRow("persistence", 0.0278, 5.377),
    ]
    held = Console(file=io.StringIO(), width=width, color_system=None)
    held.print(*fitting(demo.table(lines), held))
    said = held.file.getvalue()
    assert max(map(len, said.splitlines())) <= width
    for words in ("full, window recomputed", "persistence", "0.525", "0.706", "524,288", "1,218", "66 kB", "27.800"):
        assert words in said


def test_the_way_out_is_said_before_the_wait():
    assert Keyboard(0).how_to_leave == "q quits"
    assert Keyboard().how_to_leave == "Ctrl-C quits"

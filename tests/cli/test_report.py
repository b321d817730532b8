"""`nystream report`."""

import runpy
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
import tyro

from nystream.cli.report import Report

fake = runpy.run_path(str(Path(__file__).parents[1] / "lab" / "reproduce" / "fake_records.py"))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    records = [fake["cell"](model=model) for model in fake["MODELS"]]
    records.append(fake["baseline"]("gtzan", "logistic regression on the mean token", 0.54, splits=5))
    return fake["write"](tmp_path / "results", records)


def report(*arguments):
    tyro.cli(Report, args=list(arguments), config=(tyro.conf.FlagCreatePairsOff,)).run()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_both_files_by_default(folder, capsys):
    report()
    assert names(Path()) == ["report.html", "report.md", "results"]
    out, err = capsys.readouterr()
    assert not err
    assert "\x1b" not in out
    assert "…" not in out
    assert max(map(len, out.splitlines())) <= 80
    assert "wrote report.md" in out
    assert "wrote report.html" in out
    assert "CoNy-Fix − Co, 1 block: accuracy" in out
    assert "![" not in Path("report.md").read_text()
    assert Path("report.html").read_text().count("<svg") == 2


def test_rivals_and_deep_stacks(folder, capsys):
    fake["write"](folder, fake["beyond_the_paper"]())
    report()
    out = " ".join(capsys.readouterr().out.split())
    assert "chosen: CoNy-Fix, deep stack of 4, with decay, windows 16/32/64/256 − GRU, " in out
    assert "cells with other settings are in the report" in out
    for page in ("report.md", "report.html"):
        text = Path(page).read_text()
        assert "GTZAN, music genres: stacks and rivals" in text
        assert "GTZAN, music genres: the chosen model minus the best of each other kind" in text
    assert 'id="plot-gtzan-stacks"' in Path("report.html").read_text()


def test_plots_are_linked_from_where_the_page_is(folder, capsys):
    (Path() / "docs").mkdir()
    report("results", "--plots", "pictures", "--markdown", "docs/page.md", "--html", "None", "--plain")
    assert names(Path("pictures")) == [
        "gtzan-costs.png", "gtzan-costs.svg", "gtzan-differences.png", "gtzan-differences.svg",
    ]  # fmt: skip
    assert "](../pictures/gtzan-costs.png)" in Path("docs/page.md").read_text()
    assert names(Path()) == ["docs", "pictures", "results"]


def test_it_says_how_far_it_is(folder, monkeypatch, capsys):
    steps = []

    @contextmanager
    def track(what, total, show):
        yield lambda count, note: steps.append((what, total, show, note))

    monkeypatch.setattr("nystream.cli.report.track", track)
    report()
    assert steps == [("plots", 2, None, "gtzan-costs"), ("plots", 2, None, "gtzan-differences")]


def test_tables_only_without_matplotlib(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install -c constraints.txt '\.\[plot\]', or use --no-plots"):
        report("--plots", "pictures")
    assert names(Path()) == ["results"]
    report("--no-plots")
    assert "<svg" not in Path("report.html").read_text()


def test_without_scipy_the_extra_is_named(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install -c constraints.txt '\.\[train\]'"):
        report()
    assert names(Path()) == ["results"]


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        (["nowhere"], FileNotFoundError, "folder=nowhere does not exist; nystream reproduce"),
        (["results/gtzan-1-full.json"], NotADirectoryError, "folder=results/gtzan-1-full.json is a file"),
        (["empty"], ValueError, "folder=empty has no results yet; nystream reproduce"),
        (["--html", "no/such/page.html"], FileNotFoundError, "html=no/such/page.html"),
        (["--markdown", "results"], IsADirectoryError, "markdown=results is a folder"),
        (["--plots", "/proc/pictures"], OSError, "plots=/proc/pictures is not a folder that can be written to"),
        (["--plots", "pictures", "--html", "no/such/page.html"], FileNotFoundError, "html=no/such/page.html"),
        (["--plots", "results/gtzan-1-full.json"], NotADirectoryError, "is a file, but must be a folder"),
        (["--plots", "pictures", "--no-plots"], ValueError, "are both given"),
    ],
)
def test_bad_arguments_leave_nothing_behind(folder, arguments, error, said):
    Path("empty").mkdir()
    with pytest.raises(error, match=said):
        report(*arguments)
    assert names(Path()) == ["empty", "results"]

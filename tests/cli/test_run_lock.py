"""`nystream train` in a folder that another process trains in."""

import runpy
from pathlib import Path
from types import SimpleNamespace

from nystream import files
from nystream.data import run as running

small = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("small_run.py"))))


def test_a_folder_that_is_in_use_is_refused_in_one_line(capsys, refused, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running, "MIN_UPDATES_PER_EPOCH", 2)
    small.table()
    arguments = ["data.csv", "--target", "total", "--variant", "co-full"]
    with files.alone_in(tmp_path / "runs" / "data"):
        err = refused("train", *arguments, *small.SMALL)
        assert "runs/data is in use by process" in err
        assert "give another folder" in err
        assert [path.name for path in (tmp_path / "runs" / "data").iterdir()] == [".lock"]
    small.trained(capsys, *arguments)
    assert not list(tmp_path.rglob(".lock"))


def test_a_run_that_is_refused_leaves_no_folder(refused, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    small.table(count=40)
    err = refused("train", "data.csv", "--target", "total", "--window", "1000")
    assert "window=1000 is too long" in err
    assert [path.name for path in tmp_path.iterdir()] == ["data.csv"]

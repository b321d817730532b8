"""`nystream bench` at tiny sizes."""

import dataclasses
import json
import os
import sys

import pytest

from nystream.cli import main
from nystream.cli.bench import Bench
from nystream.files import require_writable
from nystream.lab.bench.sizes import ModelSizes

TINY = ["--window", "8", "--embed-dim", "8", "--num-heads", "2", "--landmarks", "3", "--ff-dim", "8"]
TINY += ["--input-dim", "5", "--output-dim", "3", "--backend", "torch"]


def test_one_part_from_end_to_end(capsys, tmp_path):
    json_path, plot_path = tmp_path / "bench.json", tmp_path / "bench.png"
    files = ["--json", str(json_path), "--plot", str(plot_path)]
    assert main(["bench", "--quick", "--parts", "model", *TINY, "--rounds", "3", *files]) == 0
    out, err = capsys.readouterr()
    assert "error" not in err  # there may be lines about how far it is
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 80
    for name in ("window recompute", "ring KV + SDPA", "continual-inference", "nystream torch", "nystream pool"):
        assert name in out
    found = json.loads(json_path.read_text())
    assert found["command"].startswith("nystream bench --parts model --window 8 --embed-dim 8 --num-heads 2")
    assert f"--rounds 3 --backend torch --json {json_path}" in found["command"]
    assert found["command"].endswith("--quick")
    assert {"commit", "hardware", "settings", "model", "targets"} < set(found)
    assert found["settings"]["rounds"] == 3
    assert plot_path.stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--parts", "model,speed"], "speed"),
        (["--parts", ""], "parts"),
        (["--streams", "1,many"], "streams='1,many'"),
        (["--streams", "0"], "streams="),
        (["--rounds", "0"], "rounds=0"),
        (["--threads", "-1"], "threads=-1"),
        (["--landmarks", "9"], "landmarks=9"),
        (["--num-heads", "3"], "num_heads=3"),
        (["--layers", "0"], "layers=0"),
        (["--json", "no/such/folder/a.json"], "json="),
        (["--json", "."], "json=. is a folder, but must be a file"),
        (["--json", f"{'a' * 300}.json"], ".json cannot be written: File name too long"),
        (["--json", os.devnull], f"json={os.devnull} exists and is not a file that can be overwritten"),
        (["--plot", "/"], "plot=/ is a folder, but must be a file"),
        (["--plot", f"{'a' * 300}.png"], ".png cannot be written: File name too long"),
        (["--plot", "a.png", "--parts", "phases"], "plot=a.png"),
        (["--plot", "a.bmp"], "plot=a.bmp"),
    ],
)
def test_bad_values_give_one_line(capsys, monkeypatch, arguments, named):
    monkeypatch.setattr("nystream.cli.bench.run", None)  # nothing is measured
    assert main(["bench", *TINY, *arguments]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith("nystream: error: ")
    assert err.count("\n") == 1
    assert named in err


def test_a_file_that_may_not_be_written_stops_it_before_anything_is_measured(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("nystream.cli.bench.run", None)
    path = tmp_path / "kept.json"
    path.write_text("kept")
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write over anything
    assert main(["bench", *TINY, "--json", str(path)]) == 2
    assert f"json={path} exists and is not a file that can be overwritten" in capsys.readouterr().err
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("kept.json", "kept")]


def test_looking_whether_a_file_can_be_written_leaves_it_as_it_was(tmp_path):
    path = tmp_path / "kept.json"
    require_writable("json", path)
    path.write_text("kept")
    require_writable("json", path)
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("kept.json", "kept")]


def test_without_matplotlib_it_fails_at_once(capsys, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["bench", *TINY, "--plot", str(tmp_path / "a.png")]) == 1
    out, err = capsys.readouterr()
    assert not out
    assert "pip install -c constraints.txt '.[plot]'" in err


def test_help_names_every_option(capsys):
    assert main(["bench", "--help"]) == 0
    out = capsys.readouterr().out
    options = ["parts", "streams", "threads", "rounds", "json", "plot", "quick"]
    options += [size.name.replace("_", "-") for size in dataclasses.fields(ModelSizes)]
    for option in options:
        assert f"--{option} " in out


def test_what_is_given_holds_in_a_quick_run_too():
    usual, quick = Bench().settings(), Bench(quick=True).settings()
    assert (usual.rounds, quick.rounds) == (300, 25)
    told = Bench(quick=True, rounds=300, streams=",".join(map(str, usual.streams))).settings()
    assert (told.rounds, told.streams) == (usual.rounds, usual.streams)

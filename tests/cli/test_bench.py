"""`nystream bench` at tiny sizes."""

import json
import sys

import pytest

from nystream.cli import main

TINY = ["--window", "8", "--embed-dim", "8", "--num-heads", "2", "--landmarks", "3", "--ff-dim", "8"]
TINY += ["--input-dim", "5", "--output-dim", "3", "--backend", "torch"]


def test_one_part_from_end_to_end(capsys, tmp_path):
    json_path, plot_path = tmp_path / "bench.json", tmp_path / "bench.png"
    files = ["--json", str(json_path), "--plot", str(plot_path)]
    assert main(["bench", "--quick", "--parts", "model", *TINY, "--rounds", "3", *files]) == 0
    out, err = capsys.readouterr()
    assert not err
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 80
    for name in ("window recompute", "ring KV + SDPA", "continual-inference", "nystream torch", "nystream pool"):
        assert name in out
    record = json.loads(json_path.read_text())
    assert record["command"].startswith("nystream bench --parts model --window 8")
    assert "--quick" in record["command"]
    assert {"commit", "hardware", "settings", "model", "targets"} < set(record)
    assert record["settings"]["rounds"] == 3
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
        (["--plot", "a.png", "--parts", "phases"], "plot=a.png"),
        (["--plot", "a.bmp"], "plot=a.bmp"),
    ],
)
def test_bad_values_give_one_line(capsys, arguments, named):
    assert main(["bench", *TINY, *arguments]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith("nystream: error: ")
    assert err.count("\n") == 1
    assert named in err


def test_without_matplotlib_it_fails_at_once(capsys, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["bench", *TINY, "--plot", str(tmp_path / "a.png")]) == 1
    out, err = capsys.readouterr()
    assert not out
    assert "pip install 'nystream[plot]'" in err


def test_help_names_every_option(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["bench", "--help"])
    assert stopped.value.code == 0
    out = capsys.readouterr().out
    for option in ("parts", "window", "streams", "threads", "rounds", "json", "plot", "quick"):
        assert f"--{option}" in out

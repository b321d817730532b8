"""`nystream costs`."""

import json
import os
import re
import subprocess
import sys
from collections import Counter

import pytest

import nystream as ns
from nystream.cli import main


def printed(capsys, *arguments):
    assert main(["costs", *arguments]) == 0
    out, err = capsys.readouterr()
    assert not err
    assert "\x1b" not in out
    assert "…" not in out
    assert max(map(len, out.splitlines())) <= 80
    return out


def rows(out, columns):
    cells = (re.split(r" {2,}", line.strip()) for line in out.splitlines())
    return [row for row in cells if row[0] in ns.VARIANTS and len(row) == columns]


def test_both_tables(capsys):
    out = printed(capsys)
    growth, exact = rows(out, 4), rows(out, 7)
    assert [row[0] for row in growth] == [row[0] for row in exact] == list(ns.VARIANTS)
    assert growth[0] == ["full", "n²d", "nd", "n² + nd"]
    assert exact[0] == ["full", "5.567 M", "5.567 M", "5.53 M", "69.12 k", "106.6 k", "276.5 kB"]
    assert exact[-2][:2] == ["co-fixed-single", "5.416 k"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["-n", "1024", "--num-heads", "16", "--layers", "2"],
        ["-n", "100000", "-d", "4096", "-m", "64", "--num-heads", "32", "--layers", "3"],
        ["-n", "1", "-d", "1", "-m", "1"],
        ["--sums", "partials"],
    ],
)
def test_other_sizes_fit_too(capsys, arguments):
    assert len(rows(printed(capsys, *arguments), 7)) == 9


@pytest.mark.parametrize("width", [60, 45])
@pytest.mark.parametrize("arguments", [[], ["--table", "electricity"]])
def test_a_narrow_terminal_loses_no_number(capsys, monkeypatch, width, arguments):
    def cells(out):
        return Counter(cell for line in out.splitlines() for cell in re.split(r" {2,}", line.strip()))

    wide = printed(capsys, *arguments)
    monkeypatch.setenv("COLUMNS", str(width))
    narrow = printed(capsys, *arguments)
    assert max(map(len, narrow.splitlines())) <= width
    numbers = re.compile(r"\*?[\d.,]+( [kMGB]+)?")
    missing = {cell for cell in cells(wide) - cells(narrow) if numbers.fullmatch(cell)}
    assert not missing


@pytest.mark.parametrize(("table", "odd", "cells"), [("gtzan", 2, 24), ("thumos14", 2, 24), ("electricity", 7, 12)])
def test_the_papers_tables(capsys, table, odd, cells):
    out = printed(capsys, "--table", table)
    assert len(rows(out, 8)) == cells // 2
    assert sum(row[column].startswith("*") for row in rows(out, 8) for column in (2, 5)) == odd
    assert f"does not follow from the formulas: {odd} of {cells}." in out


def test_the_numbers_as_json(capsys, tmp_path):
    path = tmp_path / "costs.json"
    printed(capsys, "--json", str(path), "--num-heads", "16", "--layers", "2", "--sums", "partials")
    found = json.loads(path.read_text())
    assert found["sizes"] == {"window": 120, "embed_dim": 192, "landmarks": 4, "layers": 2, "num_heads": 16}
    row = next(row for row in found["rows"] if row["variant"] == "co-fixed-single")
    assert row["paper_operations"] == ns.costs.flops("co-fixed-single", 120, 12, 4, 2, 16)
    run = ns.costs.executed("co-fixed-single", 120, 192, 4, 2, 16, form="partials")
    assert (row["executed_products"], row["executed_combines"]) == run
    assert main(["costs", "--json", "-", "--table", "gtzan"]) == 0
    cells = json.loads(capsys.readouterr().out)["cells"]
    assert cells[0] == {
        "variant": "full",
        "layers": 1,
        "column": "millions",
        "printed": "5.57",
        "formula": "5.57",
        "corrected": "5.57",
        "why": "",
    }


def test_the_bytes_are_those_of_the_library(capsys):
    assert main(["costs", "--json", "-", "-n", "130", "--num-heads", "4"]) == 0
    for row in json.loads(capsys.readouterr().out)["rows"]:
        attn = ns.MultiheadAttention(ns.AttentionConfig(row["variant"], 192, 4, 130, 4))
        assert ns.state.nbytes(attn.init_state(1)) == row["state_bytes"]


def test_it_draws(capsys, tmp_path):
    for name in ("a.png", "a.svg"):
        printed(capsys, "--plot", str(tmp_path / name))
        assert (tmp_path / name).stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--landmarks", "121"], "landmarks=121"),
        (["--num-heads", "5"], "num_heads=5"),
        (["-n", "0"], "window=0"),
        (["--layers", "0"], "layers must be"),
        (["--plot", "a.bmp"], "plot=a.bmp"),
        (["--plot", "no/such/folder/a.png"], "plot=no/such/folder/a.png"),
        (["--plot", "a.png", "--json", "."], "json=. is a folder"),
    ],
)
def test_bad_values_give_one_line(capsys, monkeypatch, tmp_path, arguments, named):
    monkeypatch.chdir(tmp_path)
    assert main(["costs", *arguments]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith("nystream: error: ")
    assert err.count("\n") == 1
    assert named in err
    assert not list(tmp_path.iterdir())


def test_without_matplotlib_nothing_is_printed(capsys, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["costs", "--plot", str(tmp_path / "a.png")]) == 1
    out, err = capsys.readouterr()
    assert not out
    assert "pip install -c constraints.txt '.[plot]'" in err


def test_in_a_pipe_that_knows_only_ascii():
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-m", "nystream", "costs"], capture_output=True, check=True, timeout=120, env=environment
    )
    assert b"co-fixed-retro" in done.stdout
    assert not done.stderr

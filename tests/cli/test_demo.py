"""The command `nystream`, and its demo at tiny sizes."""

import re
import subprocess
import sys

import pytest
import torch

import nystream as ns
from nystream import testing
from nystream.cli import demo, main

TINY = ["--tokens", "80", "--window", "10", "--landmarks", "3", "--embed-dim", "8", "--num-heads", "2"]


def rows(out):
    """variant -> error, microseconds, bytes with unit, operations with unit."""
    cells = (re.split(r" {2,}", line.strip()) for line in out.splitlines())
    return {row[0]: row[2:] for row in cells if row[0] in ns.VARIANTS}


def test_all_nine_variants_agree_with_the_reference(capsys):
    assert main(["demo", *TINY]) == 0
    out, err = capsys.readouterr()
    found = rows(out)
    assert tuple(found) == ns.VARIANTS
    for variant, (error, microseconds, size, operations) in found.items():
        assert float(error) < 1e-4, variant
        assert float(microseconds.replace(",", "")) > 0
        assert size.endswith(("B", "bytes"))
        assert float(operations.split()[0]) > 0
    assert not err
    assert max(map(len, out.splitlines())) <= 80
    assert "\x1b" not in out


def test_it_uses_the_width_it_is_given(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["demo", *TINY, "--plain"]) == 0
    assert tuple(rows(capsys.readouterr().out)) == ns.VARIANTS


def test_as_a_module_in_a_pipe():
    done = subprocess.run(
        [sys.executable, "-m", "nystream", "demo", *TINY], capture_output=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert tuple(rows(done.stdout.decode())) == ns.VARIANTS
    assert not done.stderr
    assert not [c for c in done.stdout if c < 32 and c != ord("\n")]


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == f"nystream {ns.__version__}"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--tokens", "12"], "tokens=12"),
        (["--landmarks", "11"], "landmarks=11"),
        (["--num-heads", "3"], "num_heads=3"),
        (["--window", "0"], "window=0"),
    ],
)
def test_bad_values_give_one_line(capsys, arguments, named):
    assert main(["demo", *TINY, *arguments]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith("nystream: error: ")
    assert err.count("\n") == 1
    assert named in err


@pytest.mark.parametrize("arguments", [["nonsense"], ["demo", "--tokns", "80"], ["demo", "--tokens", "many"]])
def test_bad_usage_is_refused(capsys, arguments):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    out, err = capsys.readouterr()
    assert not out
    assert arguments[-1] in err or arguments[-2] in err


def test_debug_shows_a_traceback(capsys):
    assert main(["--debug", "demo", "--landmarks", "500"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_a_missing_extra_is_named_with_the_line_that_installs_it(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "tyro", None)
    assert main(["demo"]) == 1
    assert "pip install 'nystream[cli]'" in capsys.readouterr().err


@pytest.mark.parametrize("variant", ["co-cont-single", "co-fixed-retro", "nystrom"])
def test_the_reference_at_some_times_is_the_reference(variant):
    attn = ns.MultiheadAttention(ns.AttentionConfig(variant, embed_dim=8, num_heads=2, window=10, landmarks=3))
    x = demo.generated_stream(40, 8, seed=0)
    if attn.config.fixed:
        attn.set_landmarks(*demo.centres(attn, x, seed=0))
    times = demo.checked_times(40, 10, 3)
    every = testing.reference_outputs(attn, x)[0]
    some = testing.reference_outputs(attn, x, times=times)[0]
    assert torch.equal(some, every[[t - 1 for t in times]])


def test_the_checked_times_cover_what_can_go_wrong():
    times = demo.checked_times(4000, 120, 4)
    assert {1, 119, 120, 121, 149, 150, 4000} <= set(times)
    assert len(times) <= 2 * demo.CHECKED

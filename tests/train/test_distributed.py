"""Two processes give the result of one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import distributed as dist

import nystream as ns

SCRIPT = Path(__file__).parent / "run_fit.py"


pytestmark = [
    pytest.mark.deploy,
    pytest.mark.skipif(not dist.is_gloo_available(), reason="this build of torch has no gloo"),
]
ENV = {**os.environ, "OMP_NUM_THREADS": "1"}


def alone(*args):
    subprocess.run([sys.executable, SCRIPT, *args], env=ENV, check=True, timeout=120)


def together(*args):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run([*torchrun, SCRIPT, *args], env=ENV, timeout=240, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def same(*folders, tolerance=1e-8):
    one, two = (ns.StreamModel.from_pretrained(folder) for folder in folders)
    for (name, a), b in zip(one.state_dict().items(), two.state_dict().values(), strict=True):
        # float64, summed in another order; AdamW divides by the size of a gradient, so rounding may be enlarged.
        assert torch.allclose(a, b, atol=tolerance), name


@pytest.mark.parametrize("options", [[], ["average"]], ids=["weights", "averages"])
def test_torchrun_changes_nothing(tmp_path, options):
    alone(tmp_path / "one", *options)
    together(tmp_path / "two", *options)
    same(tmp_path / "one" / "model", tmp_path / "two" / "model")
    lines = [(tmp_path / name / "metrics.jsonl").read_text().splitlines() for name in ("one", "two")]
    assert len(lines[0]) == len(lines[1]) == 6
    for a, b in zip(*lines, strict=True):
        assert json.loads(a)["train_loss"] == pytest.approx(json.loads(b)["train_loss"], rel=1e-9)


def test_two_phases_in_two_processes(tmp_path):
    alone(tmp_path / "one", "phases")
    together(tmp_path / "two", "phases")
    same(tmp_path / "two" / "0", tmp_path / "two" / "1", tolerance=0.0)
    # Clusters are found among numbers that differ in their last bits.
    same(tmp_path / "one" / "0", tmp_path / "two" / "0", tolerance=1e-5)

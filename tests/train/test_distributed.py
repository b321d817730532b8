"""Two processes give what one gives."""

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


@pytest.mark.skipif(not dist.is_gloo_available(), reason="this build of torch has no gloo")
def test_torchrun_changes_nothing(tmp_path):
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, SCRIPT, tmp_path / "one"], env=env, check=True, timeout=120)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run([*torchrun, SCRIPT, tmp_path / "two"], env=env, timeout=240, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    one, two = (ns.StreamModel.from_pretrained(tmp_path / name / "model") for name in ("one", "two"))
    for (name, a), b in zip(one.state_dict().items(), two.state_dict().values(), strict=True):
        # float64, summed in another order; AdamW divides by the size of a gradient, so rounding may be enlarged.
        assert torch.allclose(a, b, atol=1e-8), name
    lines = [(tmp_path / name / "metrics.jsonl").read_text().splitlines() for name in ("one", "two")]
    assert len(lines[0]) == len(lines[1]) == 6
    for a, b in zip(*lines, strict=True):
        assert json.loads(a)["train_loss"] == pytest.approx(json.loads(b)["train_loss"], rel=1e-9)

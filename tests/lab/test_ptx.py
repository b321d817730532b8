"""Every kernel compiles for a GPU, to what the record says, and has room there. This needs no GPU."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "results" / "ptx.json"
SHARED = {"sm_90": 227 * 1024, "others": 99 * 1024}  # bytes of shared memory that a program may use
# Bytes that a thread spills. ptxas spills a few where that lets more programs run at once; thousands if the lanes of a
# warp do not go along the pairs, which depends on the version of Triton.
STEPS, STEP, RENEWAL = 40, 128, 512


@pytest.mark.deploy
@pytest.mark.skipif(not importlib.util.find_spec("triton"), reason="Triton is not available for this platform")
def test_every_kernel_compiles_to_what_is_on_record(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))  # everything is compiled, whatever has been before
    command = [sys.executable, "-m", "lab", "ptx"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr


def test_kernels_fit_on_a_gpu_and_hardly_spill():
    record = json.loads(RECORD.read_text())
    ways = {"fit bf16 learned", "fit_many bf16 learned", "autocast to float16", "autocast to bfloat16"}
    assert ways <= {case.partition(":")[0] for case in record["cases"]}
    for case, digests in record["cases"].items():
        for kernel in (record["kernels"][digest] for digest in digests.split()):
            on_hopper = not case.startswith("pool") and "sm_89" not in case
            assert kernel["shared"] <= SHARED["sm_90" if on_hopper else "others"], (case, kernel)
            if on_hopper:
                assert kernel["spilled"] <= STEPS, (case, kernel)
            elif " rings: " in case and "m=8" not in case:
                assert kernel["spilled"] <= (STEP if kernel["kernel"] == "step" else RENEWAL), (case, kernel)

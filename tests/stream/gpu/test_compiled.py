"""All kernels compile for a GPU, at the sizes of the paper's models; this needs no GPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.deploy

SIZES = ((120, 192, 16, 4), (64, 1024, 8, 16), (512, 512, 8, 16))
SCRIPT = Path(__file__).resolve().parents[3] / "benchmarks" / "_gpu_compile.py"
MAX_SHARED = 99 * 1024  # bytes of a program, on GPUs with little
# Bytes of a lane. Renewals spill a few, because with more registers fewer programs share a multiprocessor: an H200 is
# slower without (`LIMITS` in stream/gpu/tiles.py). At most 64 with Triton 3.6, and 116 with 3.7; thousands if the lanes
# of a warp do not go along the pairs, which depends on the version, too.
MAX_SPILLED = {"step": 128}


@pytest.mark.parametrize("ring_dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("variant", ["co-fixed-single", "co-cont-single", "co-full-single"])
@pytest.mark.parametrize("sizes", SIZES)
def test_kernels_compile_for_a_gpu(variant, sizes, ring_dtype):
    command = [sys.executable, str(SCRIPT), variant, *map(str, sizes), ring_dtype]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=600, env=os.environ | {"TRITON_INTERPRET": "0"}
    )
    kernels = [json.loads(line) for line in done.stdout.splitlines()]
    expected = {"enter", "add_norm", "plan"} | {
        "co-fixed-single": {"products", "weights", "step", "rebuild"},
        "co-cont-single": {"step", "rebuild", "collect", "refresh", "full"},
        "co-full-single": {"full"},
    }[variant]
    assert {kernel["kernel"] for kernel in kernels} == expected
    assert max(kernel["shared"] for kernel in kernels) <= MAX_SHARED
    assert [kernel for kernel in kernels if kernel["spilled"] > MAX_SPILLED.get(kernel["kernel"], 512)] == []

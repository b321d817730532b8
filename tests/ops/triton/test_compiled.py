"""The kernels compiled for a GPU, which needs none: compiled/, in a process in which Triton does not interpret them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.deploy


def test_kernels_compile_for_a_gpu():
    pytest.importorskip("triton", reason="Triton is not available for this platform")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-n",
            "2",
            str(Path(__file__).parent / "compiled"),
        ],
        env=os.environ | {"TRITON_INTERPRET": "0"},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr

"""The kernels under Triton's interpreter, which needs no GPU: the files in interpreted/, each in its own process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FILES = sorted(path.name for path in (Path(__file__).parent / "interpreted").glob("test_*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES)
def test_interpreted(file):
    pytest.importorskip("triton", reason="Triton is not available for this platform")
    path = Path(__file__).parent / "interpreted" / file
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(path)],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr

import os
import signal
from pathlib import Path

# Triton runs kernels in its interpreter, on the CPU, if this is set before anything imports it.
os.environ.setdefault("TRITON_INTERPRET", "1")

import pytest
import torch
from hypothesis import settings

settings.register_profile(
    "default",
    deadline=None,  # the first call of a shape is slow, and so is a loaded machine
    derandomize=bool(os.environ.get("CI")),
    max_examples=25,
    print_blob=True,
)
settings.load_profile("default")

# Tests that run in the background inherit an interrupt that is ignored, and so would the programs that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

torch.set_num_threads(1)  # the workers share the cores, and what is tested is too small for two threads


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of the data sets; tests that need it are skipped if NYSTREAM_DATA is not set."""
    folder = os.environ.get("NYSTREAM_DATA")
    if not folder:
        pytest.skip("set NYSTREAM_DATA to the folder that holds the data sets")
    path = Path(folder)
    if not path.is_dir():
        pytest.fail(f"NYSTREAM_DATA is {folder!r}, which is not a folder")
    return path

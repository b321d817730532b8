import os
import re
import shutil
import signal
import subprocess
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

# Chromium's own requests would be blocked too: no name can be resolved.
CHROMIUM_FLAGS = (
    "--no-sandbox",
    "--disable-background-networking",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)

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


@pytest.fixture(scope="session")
def lacking():
    """Skips a test for want of a tool; where the tools are part of the checks, it fails."""
    return pytest.fail if os.environ.get("CI") else pytest.skip


@pytest.fixture(scope="session")
def outside_environ():
    """The environment for programs that must not find the checkout."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


@pytest.fixture(scope="session")
def run_outside(outside_environ):
    """Runs a command that must not find the checkout and must not fail; returns what it prints."""

    def run(*command, cwd, **env):
        done = subprocess.run(command, cwd=cwd, env=outside_environ | env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


@pytest.fixture(scope="module")
def chromium(lacking):
    """Starts Chromium with flags."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        lacking("a page needs playwright: pip install playwright")
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        lacking("a page needs Chromium: apt-get install chromium")
    with sync_playwright() as driver:
        yield lambda *flags: driver.chromium.launch(executable_path=path, args=[*CHROMIUM_FLAGS, *flags])


@pytest.fixture(scope="module")
def browser(chromium):
    browser = chromium()
    yield browser
    browser.close()


@pytest.fixture
def visit():
    """Opens pages; afterwards, nothing may have been asked of another host, and nothing gone wrong that was not
    expected."""
    contexts, requests, errors = [], [], []

    def visit(browser, address, expected="(?!)", **options):
        context = browser.new_context(**options)
        contexts.append(context)
        hosts = tuple(re.sub("^http", scheme, address) for scheme in ("http", "ws"))

        def note(error):
            if not re.search(expected, error):
                errors.append(error)

        context.on("request", lambda request: requests.append((request.url, hosts)))
        page = context.new_page()
        page.on("websocket", lambda socket: requests.append((socket.url, hosts)))
        page.on("pageerror", lambda error: note(str(error)))
        page.on("console", lambda message: note(message.text) if message.type == "error" else None)
        page.goto(address)
        return page

    yield visit
    for context in contexts:
        context.close()
    assert requests or not contexts
    assert [url for url, hosts in requests if not url.startswith((*hosts, "blob:", "data:"))] == []
    assert errors == []

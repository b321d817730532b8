"""Take the picture of the service's page: python docs/screenshot.py -> docs/img/page.png. It needs Chromium."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import sync_playwright

import nystream as ns

IMAGE = Path(__file__).parent / "img" / "page.png"
STREAMS = ("north", "south", "east", "west")
HISTORY = 220  # records of each stream before the picture
SECONDS = 12  # of records while the page looks
SIZE = {"width": 1240, "height": 800}


@contextmanager
def service() -> Iterator[str]:
    """`nystream serve demand` on a free port, with a store of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        words = ["serve", "demand", "--port", str(port), "--store", f"{folder}/streams.db"]
        process = subprocess.Popen([sys.executable, "-m", "nystream", *words], stderr=subprocess.DEVNULL)
        try:
            while True:
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1).close()
                    break
                except (urllib.error.URLError, OSError):
                    if process.poll() is not None:
                        sys.exit("the service ended")
                    time.sleep(0.1)
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()


def push(host: str, begun: threading.Event, end: threading.Event) -> None:
    """Push the sample to all streams, each from another day on; `begun` is set when they have a history."""
    with urllib.request.urlopen(f"http://{host}/v1/demo?limit=1000", timeout=30) as reply:
        records = json.load(reply)["records"]
    with ns.Client(f"ws://{host}") as client:
        number = 0
        while not end.is_set():
            client.push_many(STREAMS, [records[number + 24 * place] for place in range(len(STREAMS))])
            number += 1
            if number > HISTORY:
                begun.set()
                time.sleep(0.1)


def main() -> None:
    chromium = shutil.which("chromium") or sys.exit("chromium is missing: apt-get install chromium")
    with service() as host, sync_playwright() as driver:
        begun, end = threading.Event(), threading.Event()
        pushing = threading.Thread(target=push, args=(host, begun, end))
        pushing.start()
        try:
            begun.wait()
            browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = browser.new_page(viewport=SIZE, color_scheme="light")
            page.goto(f"http://{host}/")
            page.click("button[aria-pressed='true']")  # the page begins with the stream that was last used
            page.click(f"button[title='{STREAMS[0]}']")
            page.wait_for_timeout(1000 * SECONDS)
            page.screenshot(path=IMAGE, full_page=True)
            browser.close()
        finally:
            end.set()
            pushing.join()


if __name__ == "__main__":
    main()

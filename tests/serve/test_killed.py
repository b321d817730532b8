"""A service that is killed under load: nothing that was acknowledged is lost or applied twice."""

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import nystream as ns

ROOT = Path(__file__).parents[2]
STREAMS, KILLS = 20, 3


class Process:
    """`nystream serve` on a loopback port."""

    def __init__(self, model, store, *options):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        words = [model, "--store", store, "--port", self.port, *options]
        self._words = [sys.executable, "-m", "nystream", "serve", *map(str, words)]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self._words, stderr=subprocess.PIPE, env=os.environ, cwd=ROOT)

    def wait_until_ready(self, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert self.process.poll() is None, self.process.stderr.read().decode()
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=1).close()
                return
            except (urllib.error.URLError, OSError):
                time.sleep(0.05)
        pytest.fail("the service is not ready")

    def end(self, number):
        self.process.send_signal(number)
        _, err = self.process.communicate(timeout=30)
        return self.process.returncode, err.decode()


@pytest.fixture
def process(model, tmp_path):
    model.save_pretrained(tmp_path / "model")
    service = Process(tmp_path / "model", tmp_path / "streams.db", "--snapshot-every", "25")
    yield service
    if service.process.poll() is None:
        service.end(signal.SIGKILL)


@pytest.mark.deploy
def test_nothing_acknowledged_is_lost(process, records, uninterrupted):
    got = [[] for _ in range(STREAMS)]

    async def follow(client, stream, stop):
        while not stop.is_set():
            number = len(got[stream]) + 1
            got[stream].append(await client.push(f"stream {stream}", records(stream, number)))
            await asyncio.sleep(0.002)

    async def grown():
        before = [len(answers) for answers in got]
        while any(len(answers) < old + 40 for old, answers in zip(before, got, strict=True)):
            await asyncio.sleep(0.01)

    async def work():
        chance = random.Random(0)
        stop = asyncio.Event()
        async with ns.AsyncClient(f"ws://127.0.0.1:{process.port}") as client:
            tasks = [asyncio.create_task(follow(client, stream, stop)) for stream in range(STREAMS)]
            for _ in range(KILLS):
                await grown()
                await asyncio.sleep(chance.random())
                await asyncio.to_thread(process.end, signal.SIGKILL)
                process.start()
            await grown()
            stop.set()
            await asyncio.gather(*tasks)
            return [await client.open(f"stream {stream}") for stream in range(STREAMS)]

    asyncio.run(asyncio.wait_for(work(), 240))
    for stream, answers in enumerate(got):
        expected = uninterrupted([records(stream, number) for number in range(1, len(answers) + 1)])
        assert len(answers) > 40 * KILLS
        assert [of_record[0]["token"] for of_record in answers] == list(range(1, len(answers) + 1))
        values = [[of_record[0]["output"]["sum"] for of_record in these] for these in (answers, expected)]
        np.testing.assert_allclose(*values, atol=1e-5)


@pytest.mark.deploy
def test_a_service_ends_in_order(process):
    process.wait_until_ready()
    with ns.Client(f"ws://127.0.0.1:{process.port}") as client:
        assert client.push("k", [1, 2])[0]["token"] == 1
        code, err = process.end(signal.SIGTERM)
        assert code == 143
        assert '"event": "all streams are written"' in err
        assert "Traceback" not in err
        process.start()
        assert client.push("k", [1, 2])[0]["token"] == 2

"""Small services for the tests: in this process, or as a real server on a free loopback port."""

import dataclasses
import os
import shutil
import subprocess
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch

import nystream as ns
from nystream.live import Sessions
from nystream.serve.app import create_app
from nystream.serve.settings import Settings


def small_model(seed=0):
    torch.manual_seed(seed)
    attention = ns.AttentionConfig("co-cont-single", embed_dim=8, num_heads=2, window=6, landmarks=3)
    config = ns.ModelConfig(input_dim=2, output_dim=1, attention=attention)
    return ns.StreamModel(config, ns.ModelInfo(inputs=("a", "b"), labels=("sum",))).eval()


@pytest.fixture(autouse=True)
def _no_tokens(monkeypatch):
    monkeypatch.delenv("NYSTREAM_TOKENS", raising=False)


@pytest.fixture
def model():
    return small_model()


@pytest.fixture
def records():
    """Records by stream and number."""

    def record(stream, number):
        return {"a": (stream * 7 + number) % 11 / 3, "b": (stream + number * 5) % 13 / 4 - 1}

    return record


@pytest.fixture
def uninterrupted(model):
    """The answers to records of one stream, as a session of its own gives them."""

    def answers(records):
        sessions = Sessions(model, capacity=1)
        return [
            [answer.to_dict(record=number) for answer in sessions.take("one", record)]
            for number, record in enumerate(records, 1)
        ]

    return answers


@pytest.fixture
def make_app(model, tmp_path):
    def make(**options):
        options = {"store": tmp_path / "streams.db", "max_wait_ms": 0.5} | options
        return create_app(Sessions(model, capacity=4), Settings(**options))

    return make


@pytest.fixture
def http(make_app):
    """An HTTP client of a service in this process."""
    from starlette.testclient import TestClient

    with ExitStack() as every:

        def make(app=None, headers=None, **options):
            client = TestClient(app or make_app(**options), base_url="http://localhost", headers=headers)
            stack = every.enter_context(ExitStack())
            stack.enter_context(client)
            client.stop = stack.close
            return client

        yield make


@pytest.fixture(scope="session")
def redis_url():
    """A Redis of its own, in a folder with a short name: a socket's is limited."""
    pytest.importorskip("redis", reason="a store in Redis needs redis-py: pip install redis")
    if shutil.which("redis-server") is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("Redis is missing: apt-get install redis-server")
    with tempfile.TemporaryDirectory(prefix="redis") as folder:
        words = ["redis-server", "--port", "0", "--unixsocket", f"{folder}/socket", "--dir", folder, "--save", ""]
        words += ["--appendonly", "yes", "--appendfsync", "always"]
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        try:
            while not Path(folder, "socket").exists():
                assert process.poll() is None
                time.sleep(0.01)
            yield f"unix://{folder}/socket"
        finally:
            process.terminate()
            process.wait(10)


class Server:
    """The server of `nystream serve` in a thread."""

    def __init__(self, app, port=0):
        from nystream.serve import server

        self.app = app
        settings = dataclasses.replace(app.state.service.settings, port=port)
        address = server.listening(settings)
        self.port = address.getsockname()[1]
        self._server = server.Server(server.configured(app, settings), app.state.service)
        self._thread = threading.Thread(target=self._server.run, args=[[address]])
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)
            assert self._thread.is_alive()

    def limit_frames(self, most):
        """Accept smaller frames than the service says, as a proxy might."""
        self._server.config.ws_max_size = most

    @property
    def url(self):
        return f"ws://127.0.0.1:{self.port}"

    def kill(self):
        """Cut all connections, as if the process was killed, and stop."""
        for connection in list(self._server.server_state.connections):
            connection.loop.call_soon_threadsafe(connection.transport.abort)
        self.stop()

    def stop(self):
        self._server.should_exit = True
        self._thread.join(20)
        assert not self._thread.is_alive()


@pytest.fixture
def serve(make_app):
    servers = []

    def start(app=None, port=0, **options):
        servers.append(Server(app or make_app(**options), port))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


os.environ.setdefault("NUMBA_NUM_THREADS", "2")

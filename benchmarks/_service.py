"""Shared by the benchmarks of the service: a model of GTZAN's size, its records, and a service of its own process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import torch

import nystream as ns

WIDTH = 128  # of a record
START_SECONDS, END_SECONDS = 90.0, 20.0
SAMPLES = np.random.default_rng(0).normal(size=(64, WIDTH)).astype(np.float32).tolist()


def gtzan_model(seed: int = 0) -> ns.StreamModel:
    """The one-block model of GTZAN, with random weights."""
    torch.manual_seed(seed)
    attention = ns.AttentionConfig("co-fixed-single", embed_dim=192, num_heads=16, window=120, landmarks=4)
    config = ns.ModelConfig(input_dim=WIDTH, output_dim=10, attention=attention, ff_dim=192)
    model = ns.StreamModel(config, ns.ModelInfo("classification", labels=tuple(f"genre {i}" for i in range(10))))
    ns.fit_landmarks(model, [torch.randn(8, 240, WIDTH)])
    return model.eval()


def record(stream: int, number: int) -> Any:
    """The record of a stream with this number."""
    return SAMPLES[(7 * stream + number) % len(SAMPLES)]


class Service:
    """`nystream serve` in a process of its own, which can be killed and started again.

    Args:
        model: Folder of the model.
        store: The SQLite file of its streams.
        options: More options of the command.

    Attributes:
        start_seconds: How long the last start took, until the service was ready.
    """

    def __init__(self, model: Path, store: Path, *options: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._store, self._log = store, store.with_suffix(".log")
        words = ["serve", str(model), "--port", str(self.port), "--store", str(store), *options]
        self._command = [sys.executable, "-m", "nystream", *words]
        self.start_seconds = 0.0
        self.start()

    @property
    def url(self) -> str:
        """The address for WebSockets."""
        return f"ws://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the service and wait until it is ready."""
        began = time.perf_counter()
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stderr=log)
        while time.perf_counter() < began + START_SECONDS and self.process.poll() is None:
            try:
                self._get("/readyz")
                self.start_seconds = time.perf_counter() - began
                return
            except OSError:
                time.sleep(0.02)
        self.kill()
        raise RuntimeError(f"the service did not start; its log ends with {self._log.read_text()[-2000:]}")

    def stop(self) -> None:
        """End the service in order; one that has too much to do still is killed."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End the service at once, with SIGKILL."""
        self.process.kill()
        self.process.wait()

    def cpu_seconds(self) -> float:
        """Processor time that it has taken since its start."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_bytes(self) -> int:
        """Resident memory."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def store_bytes(self) -> tuple[int, int]:
        """Sizes of the file of streams and of its WAL."""
        wal = self._store.with_name(f"{self._store.name}-wal")
        file, wal_size = (path.stat().st_size if path.exists() else 0 for path in (self._store, wal))
        return file, wal_size

    def metrics(self) -> dict[str, float]:
        """What `/metrics` says."""
        lines = (line.rpartition(" ") for line in self._get("/metrics").splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in lines}

    def _get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as response:
            text: str = response.read().decode()
        return text

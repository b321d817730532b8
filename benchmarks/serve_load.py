"""How many live streams `nystream serve` holds, and how long an answer takes.

Streams of the one-block model of GTZAN (random weights) push 4 tokens a second each, with Poisson arrivals, over
WebSockets on the loopback interface. The service is a process of its own. A latency counts from the time at which a
record was to be sent, so that a client that falls behind does not hide it.

    python benchmarks/serve_load.py --streams 1000 --seconds 20
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import torch
import websockets
from _common import write_results

import nystream as ns

RATE = 4.0  # tokens a second and stream
WARM_UP_SECONDS = 3.0  # that are not measured
CASES: dict[str, list[str]] = {
    "log": ["--durability", "log"],
    "snapshot": ["--durability", "snapshot"],
    "none": ["--durability", "none"],
    "log, max-batch 1": ["--durability", "log", "--max-batch", "1"],
    "none, max-batch 1": ["--durability", "none", "--max-batch", "1"],
}


def save_model(folder: Path) -> None:
    torch.manual_seed(0)
    attention = ns.AttentionConfig("co-fixed-single", embed_dim=192, num_heads=16, window=120, landmarks=4)
    config = ns.ModelConfig(input_dim=128, output_dim=10, attention=attention, ff_dim=192)
    model = ns.StreamModel(config, ns.ModelInfo("classification", labels=tuple(f"genre {i}" for i in range(10))))
    ns.fit_landmarks(model, [torch.randn(8, 240, 128)])
    model.save_pretrained(folder)


class Service:
    """`nystream serve` in a process of its own."""

    def __init__(self, model: Path, store: Path, options: list[str]) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        words = ["serve", str(model), "--port", str(self.port), "--store", str(store), *options]
        self._log = store.with_suffix(".log").open("w")
        self.process = subprocess.Popen([sys.executable, "-m", "nystream", *words], stderr=self._log)
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=1).close()
                return
            except OSError:
                time.sleep(0.1)
        raise TimeoutError("the service did not start")

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_bytes(self) -> int:
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def metrics(self) -> dict[str, float]:
        text = urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5).read().decode()
        lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in lines}

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
        self._log.close()


class Load:
    """Clients that push at given times, whatever the answers do.

    Args:
        port: The service's.
        streams: Number of streams.
        connections: Number of WebSockets that share them.
        seconds: Duration.
    """

    def __init__(self, port: int, streams: int, connections: int, seconds: float) -> None:
        self._url = f"ws://127.0.0.1:{port}/v1/stream"
        self._streams, self._connections, self._seconds = streams, connections, seconds
        self._records = np.random.default_rng(0).normal(size=(64, 128)).astype(np.float32).tolist()
        self._due: dict[tuple[str, int], float] = {}
        self.latencies: list[float] = []
        self.errors = 0
        self._count_from = 0.0

    async def run(self) -> None:
        options: dict[str, Any] = {"compression": None, "max_size": 1 << 24, "ping_interval": None}
        sockets = [await websockets.connect(self._url, **options) for _ in range(self._connections)]
        keys = [f"stream {i}" for i in range(self._streams)]
        for place, one in enumerate(sockets):
            await one.send(msgpack.packb([{"type": "open", "key": key} for key in keys[place :: len(sockets)]]))
        opened = [0] * len(sockets)
        for place, one in enumerate(sockets):
            while opened[place] < len(keys[place :: len(sockets)]):
                frame = msgpack.unpackb(await one.recv())
                opened[place] += len(frame) if isinstance(frame, list) else 1
        readers = [asyncio.create_task(self._read(one)) for one in sockets]
        await self._write(sockets, keys)
        end = time.perf_counter() + 10
        while self._due and time.perf_counter() < end:
            await asyncio.sleep(0.05)
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*(one.close() for one in sockets))

    async def _write(self, sockets: list[Any], keys: list[str]) -> None:
        chance, numbers = random.Random(0), [0] * len(keys)
        began = due = time.perf_counter()
        self._count_from = began + WARM_UP_SECONDS
        while due < began + WARM_UP_SECONDS + self._seconds:
            frames: dict[int, list[dict[str, Any]]] = {}
            now = time.perf_counter()
            while due <= now:
                stream = chance.randrange(len(keys))
                numbers[stream] += 1
                number = numbers[stream]
                self._due[keys[stream], number] = due
                record = self._records[(stream + number) % len(self._records)]
                push = {"type": "push", "key": keys[stream], "number": number, "record": record}
                frames.setdefault(stream % len(sockets), []).append(push)
                due += chance.expovariate(RATE * len(keys))
            for place, messages in frames.items():
                for message in messages:  # a client of one stream would send each alone
                    await sockets[place].send(msgpack.packb(message))
            await asyncio.sleep(max(0.0, due - time.perf_counter()))

    async def _read(self, one: Any) -> None:
        async for data in one:
            now, frame = time.perf_counter(), msgpack.unpackb(data)
            for message in frame if isinstance(frame, list) else [frame]:
                due = self._due.pop((message["key"], message["number"]), None)
                if message["type"] != "answer":
                    self.errors += 1
                elif due is not None and due >= self._count_from:
                    self.latencies.append(now - due)


def measure(name: str, model: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        service = Service(model, Path(folder) / "streams.db", CASES[name])
        try:
            load = Load(service.port, arguments.streams, arguments.connections, arguments.seconds)
            before, ours, began = service.cpu_seconds(), _own_cpu(), time.perf_counter()
            asyncio.run(load.run())
            took = time.perf_counter() - began
            metrics = service.metrics()
            result: dict[str, Any] = {
                "case": name,
                "streams": arguments.streams,
                "answers": len(load.latencies),
                "unanswered": len(load._due),
                "errors": load.errors,
                "records_per_batch": round(
                    metrics["nystream_batch_records_sum"] / metrics["nystream_batch_records_count"], 2
                ),
                "service_cores": round((service.cpu_seconds() - before) / took, 2),
                "client_cores": round((_own_cpu() - ours) / took, 2),
                "service_memory_mb": round(service.memory_bytes() / 1e6),
                "store_mb": round(sum(path.stat().st_size for path in Path(folder).glob("*.db*")) / 1e6, 1),
            }
            for level in (50, 99, 99.9):
                result[f"p{level}_ms"] = round(float(np.percentile(load.latencies or [np.nan], level)) * 1000, 2)
            return result
        finally:
            service.stop()


def _own_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--connections", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument(
        "--folder", type=Path, default=None, help="where the store is written; by default a temporary one"
    )
    parser.add_argument("--write", action="store_true", help="write results/serve_load.json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        save_model(model)
        results = []
        for name in arguments.cases:
            results.append(measure(name, model, arguments))
            print(json.dumps(results[-1]), flush=True)
    if arguments.write:
        write_results("serve_load", {"cases": results})


if __name__ == "__main__":
    main()

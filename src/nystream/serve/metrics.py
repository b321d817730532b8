"""What `/metrics` shows, for Prometheus."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nystream.extras import require
from nystream.serve.protocol import RequestError

if TYPE_CHECKING:
    from nystream.serve.batcher import Request
    from nystream.serve.engine import Reply

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
OUTCOMES = ("answered", "dropped", "rejected", "repeated")


class Metrics:
    """Counters of one service, in a registry of their own, so that several services can be in one process."""

    def __init__(self) -> None:
        prometheus = require("a service", "prometheus_client")
        self.registry = registry = prometheus.CollectorRegistry()
        self._text = prometheus.generate_latest

        def counter(name: str, help: str, *labels: str) -> Any:
            return prometheus.Counter(f"nystream_{name}", help, labels, registry=registry)

        def gauge(name: str, help: str) -> Any:
            return prometheus.Gauge(f"nystream_{name}", help, registry=registry)

        def histogram(name: str, help: str, buckets: tuple[float, ...]) -> Any:
            return prometheus.Histogram(f"nystream_{name}", help, buckets=buckets, registry=registry)

        records = counter("records", "Records by what became of them", "outcome")
        self.records = {outcome: records.labels(outcome) for outcome in OUTCOMES}
        self.refused = counter("refused", "Requests that were refused, by the code of the error", "code")
        self.snapshots = counter("snapshots", "Snapshots of streams that were written")
        self.evictions = counter("evictions", "Streams that were removed from memory because they were idle")
        self.restored = counter("restored", "Streams that were loaded from the store")
        self.replayed = counter("replayed", "Records that were replayed from the log")
        self.streams = gauge("streams_in_memory", "Streams in memory")
        self.queue = gauge("queue_records", "Requests that wait")
        self.queue_bytes = gauge("queue_bytes", "Bytes of requests without a reply")
        self.connections = gauge("connections", "Open WebSockets")
        self.latency_seconds = histogram("latency_seconds", "From the arrival of a record to its answer", SECONDS)
        self.commit_seconds = histogram("commit_seconds", "Duration of a commit to the log", SECONDS)
        self.batch_records = histogram("batch_records", "Records that ran together", SIZES)

    def count(self, replies: Sequence[tuple[Request, Reply]]) -> None:
        """Note how long the records took whose replies are about to be delivered."""
        now = time.perf_counter()
        for request, _ in replies:
            if request.kind == "push":
                self.latency_seconds.observe(now - request.arrived)

    def refuse(self, error: RequestError) -> None:
        """Count a refusal that is about to be sent."""
        if error.code != "store_failed":  # counted where it failed
            self.refused.labels(error.code).inc()

    def text(self) -> bytes:
        """Return all values in Prometheus's text format."""
        text: bytes = self._text(self.registry)
        return text

"""What a service did in the last minutes, second by second: its counters, read once a second."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from nystream.serve.metrics import SECONDS, Metrics
from nystream.serve.protocol import Message

SAMPLE_SECONDS = 1.0
KEPT = 300  # samples
LATENCY_SAMPLES = 60  # that the latencies shown are of


class Sample(NamedTuple):
    """The counters at some time."""

    time: float
    records: int  # taken in since the start
    latencies: tuple[int, ...]  # records by latency: up to each of SECONDS, and above


class Activity:
    """The counters of the last minutes. Reading them takes microseconds, and nothing is counted for this alone.

    Args:
        metrics: Those of the service.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._samples: deque[Sample] = deque([self._sample()], maxlen=KEPT + 1)

    async def run(self) -> None:
        """Read the counters once a second, until cancelled."""
        while True:
            await asyncio.sleep(SAMPLE_SECONDS)
            self._samples.append(self._sample())

    def to_dict(self) -> Message:
        """Return the throughput and the latencies, as JSON-compatible values."""
        samples = list(self._samples)
        pairs = pairwise(samples)
        # By the time that passed: the event loop may be late.
        rates = [round((now.records - before.records) / (now.time - before.time), 2) for before, now in pairs]
        now, before = self._sample(), samples[-min(LATENCY_SAMPLES, len(samples))]
        counts = [new - old for new, old in zip(now.latencies, before.latencies, strict=True)]
        return {
            "records": {name: int(value) for name, value in self._outcomes().items()},
            "throughput": {"seconds": SAMPLE_SECONDS, "rates": rates},
            "latency": {
                "seconds": round(now.time - before.time, 1),
                "edges_ms": [1000 * edge for edge in SECONDS],
                "counts": counts,
                "p50_ms": quantile_ms(counts, 0.5),
                "p99_ms": quantile_ms(counts, 0.99),
            },
        }

    def _outcomes(self) -> dict[str, float]:
        outcomes = {}
        for outcome, counter in self._metrics.records.items():
            (metric,) = counter.collect()
            outcomes[outcome] = next(sample.value for sample in metric.samples if sample.name.endswith("_total"))
        return outcomes

    def _sample(self) -> Sample:
        (metric,) = self._metrics.latency_seconds.collect()
        upto = [int(sample.value) for sample in metric.samples if sample.name.endswith("_bucket")]
        counts = tuple(now - before for before, now in zip([0, *upto], upto, strict=False))
        outcomes = self._outcomes()
        return Sample(time.monotonic(), int(sum(outcomes.values()) - outcomes["repeated"]), counts)


def quantile_ms(counts: Sequence[int], level: float) -> float | None:
    """Return a quantile of latencies given how many are in each bucket, on a line within it; None if there are none.

    Latencies above the last edge count as the last edge.
    """
    if not (total := sum(counts)):
        return None
    wanted, below, low = level * total, 0, 0.0
    for count, high in zip(counts, SECONDS, strict=False):
        if below + count >= wanted:
            return round(1000 * (low + (high - low) * (wanted - below) / count), 3)
        below, low = below + count, high
    return 1000.0 * SECONDS[-1]

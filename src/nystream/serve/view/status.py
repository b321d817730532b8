"""The model and the state of a service, for those who look at it."""

from __future__ import annotations

import time

from nystream.live import Sessions
from nystream.live.answers import Interpreter
from nystream.serve.protocol import Message
from nystream.serve.service import Front
from nystream.serve.view.activity import Activity
from nystream.version import __version__


class Status:
    """Describes a service as JSON-compatible values.

    Args:
        sessions: Those of the service.
        service: The service.
        name: Of the model.
    """

    def __init__(self, sessions: Sessions, service: Front, name: str) -> None:
        self._service, self._began = service, time.monotonic()
        self.activity = Activity(service.metrics)
        self._fixed = {"version": __version__, "model": _model(sessions, name), "service": _service(sessions, service)}

    def to_dict(self) -> Message:
        """Return everything: what does not change, and the present."""
        return {**self._fixed, **self.now()}

    def now(self) -> Message:
        """Return what changes."""
        metrics = self._service.metrics
        return {
            "uptime_seconds": round(time.monotonic() - self._began, 1),
            "ready": self._service.batcher.ready,
            "streams_in_memory": int(_value(metrics.streams)),
            "waiting": int(_value(metrics.queue)),
            "connections": int(_value(metrics.connections)),
            "memory_bytes": self._service.memory_bytes(),
            "store_bytes": self._service.store_bytes(),
            **self.activity.to_dict(),
        }


def _model(sessions: Sessions, name: str) -> Message:
    model, info = sessions.model, sessions.model.info
    blocks = model.config.blocks
    landmarks = [block.landmarks for block in blocks if block.record.landmarks != "none"]
    answers = Interpreter(info, model.config.output_dim, sessions.reader.ahead)
    return {
        "name": name,
        "task": info.task,
        "kind": answers.kind,
        "variants": list(dict.fromkeys(block.variant for block in blocks)),
        "window": model.config.window,
        "landmarks": landmarks[0] if landmarks else None,
        "blocks": len(blocks),
        "width": model.config.embed_dim,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "inputs": model.config.input_dim,
        "outputs": model.config.output_dim,
        "labels": list(answers.names),
        "units": list(info.units),
        "seconds": info.seconds,
        "horizons": list(info.horizons) or ([info.horizon] if info.horizon else []),
        "quantiles": list(info.quantiles),
        "several": info.several,
    }


def _service(sessions: Sessions, service: Front) -> Message:
    settings = service.settings
    return {
        "durability": settings.durability,
        "backend": sessions.backend,
        "max_streams": settings.max_streams,
        "max_batch": settings.max_batch,
        "max_wait_ms": settings.max_wait_ms,
        "bytes_per_stream": sessions.bytes_per_stream,
        "tokens": bool(service.tokens),
    }


def _value(gauge: object) -> float:
    (metric,) = gauge.collect()  # type: ignore[attr-defined]  # of prometheus_client
    value: float = metric.samples[0].value
    return value

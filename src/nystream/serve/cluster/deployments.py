"""What runs on the cluster: replicas that have streams, and gateways that clients connect to."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Callable
from typing import Any

from nystream.extras import require
from nystream.live import Sessions
from nystream.models import StreamModel
from nystream.serve.app import application
from nystream.serve.auth import Tokens
from nystream.serve.cluster.lanes import Condition, Lanes, Returned, Sent, returned
from nystream.serve.logs import log_to_stderr
from nystream.serve.metrics import Metrics
from nystream.serve.migration import identity
from nystream.serve.protocol import RequestError
from nystream.serve.service import Front, batcher_of, open_store, process_bytes
from nystream.serve.settings import Settings
from nystream.version import __version__

APPLICATION, GATEWAY, REPLICA = "nystream", "gateway", "replica"
ROUTER = "ray.serve.experimental.consistent_hash_router.ConsistentHashRouter"
HEALTH_SECONDS = 30.0  # without a sign of life, after which Ray replaces a process
MAX_ONGOING = 10_000  # calls to a replica or connections of a gateway; they have limits of their own


class Replica:
    """Streams in the memory of one process: those whose requests reach it.

    Args:
        model: What steps them.
        settings: Those of the service.
        version: What identifies the service.
    """

    def __init__(self, model: StreamModel, settings: Settings, version: str) -> None:
        log_to_stderr()
        sessions = Sessions(model, settings.missing, settings.gaps, settings.backend)
        self._metrics = Metrics()
        self._batcher = batcher_of(sessions, open_store(settings, model), settings, self._metrics)
        self._name = f"{socket.gethostname()} {os.getpid()}"
        self._version = version
        self._started = False

    async def take(self, requests: list[Sent]) -> tuple[list[Returned], Condition]:
        """Run requests; return the replies, in order, and how this replica is."""
        if not self._started:  # here, because it needs the event loop of the calls
            self._batcher.start()
            self._started = True
        try:
            replies = [returned(reply) for reply in await self._batcher.ask_all(requests)]
        except RequestError as error:
            replies = [returned(error)] * len(requests)
        return replies, Condition(self._name, self._batcher.streams, process_bytes() or 0)

    def about(self) -> dict[str, Any]:
        """Return what it is, and the id of its process."""
        return {"version": self._version, "process": os.getpid()}

    def __del__(self) -> None:
        if self._started:  # Ray calls this when it ends a replica in order
            self._batcher.stop()


class Gateway(Front):
    """Takes the requests of clients, and passes them on."""

    batcher: Lanes

    def memory_bytes(self) -> int | None:
        return (process_bytes() or 0) + sum(replica.memory_bytes for replica in self.batcher.replicas)


def gateway(model: StreamModel, settings: Settings, tokens: Tokens, name: str) -> Callable[[], Any]:
    """Return what builds the application of a gateway, in the process that runs it."""

    def build() -> Any:
        serve = require("a gateway", "ray.serve")
        log_to_stderr()
        replicas = serve.get_deployment_handle(REPLICA, APPLICATION)

        async def send(lane: int, requests: list[Sent]) -> tuple[list[Returned], Condition]:
            replica = replicas.options(session_id=str(lane))
            replies: tuple[list[Returned], Condition] = await replica.take.remote(requests)
            return replies

        metrics = Metrics()
        service = Gateway(settings, tokens, metrics, Lanes(send, settings, metrics))
        sessions = Sessions(model, settings.missing, settings.gaps, settings.backend, capacity=1)  # describes the model
        return application(service, sessions, name)

    return build


def version_of(model: StreamModel, settings: Settings, tokens: Tokens) -> str:
    """Return what identifies a service: if this has not changed, its processes need not be replaced."""
    return hashlib.sha256(f"{__version__} {identity(model)} {settings!r} {tokens.fingerprint}".encode()).hexdigest()


def cluster_application(
    model: StreamModel, settings: Settings, tokens: Tokens, replicas: int, gateways: int, name: str = ""
) -> Any:
    """Return the service as an application of Ray Serve."""
    serve = require("a service on Ray", "ray.serve")
    config = require("a service on Ray", "ray.serve.config")
    quiet = {"enable_access_log": False}  # it has a line for every call
    options: dict[str, Any] = {
        "max_ongoing_requests": MAX_ONGOING,
        "logging_config": quiet,
        "health_check_timeout_s": HEALTH_SECONDS,
    }
    # No other replica may answer for the one that has a lane, however busy it is.
    router = config.RequestRouterConfig(
        request_router_class=ROUTER, request_router_kwargs={"num_fallback_replicas": 0, "num_virtual_nodes": 256}
    )
    streams = serve.deployment(
        Replica, name=REPLICA, num_replicas=replicas, request_router_config=router, **options
    ).bind(model, settings, version_of(model, settings, tokens))  # fmt: skip

    class Ingress:
        def __init__(self, streams: Any) -> None:  # Ray starts the replicas because of it
            self.streams = streams

    ingress = serve.ingress(gateway(model, settings, tokens, name))(Ingress)
    # Gateways need little of a CPU: they fit beside the replicas.
    options["ray_actor_options"] = {"num_cpus": 0}
    return serve.deployment(ingress, name=GATEWAY, num_replicas=gateways, **options).bind(streams)

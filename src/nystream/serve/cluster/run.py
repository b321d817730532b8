"""Running the service on a Ray cluster."""

from __future__ import annotations

import dataclasses
import logging
import os
import signal
import threading
from typing import Any

from nystream import clusters
from nystream.config.checks import positive_int
from nystream.extras import require
from nystream.live import Sessions
from nystream.models import StreamModel
from nystream.serve.auth import Tokens
from nystream.serve.cluster.deployments import APPLICATION, GATEWAY, REPLICA, cluster_application, version_of
from nystream.serve.lanes import LANES
from nystream.serve.logs import log_to_stderr
from nystream.serve.metrics import Metrics
from nystream.serve.service import batcher_of, is_folder, open_store
from nystream.serve.settings import Settings
from nystream.serve.stores.redis import SCHEMES

ANSWER_SECONDS = 2.0  # for a replica to answer

log = logging.getLogger(__name__)


def run_on_ray(
    model: StreamModel, settings: Settings, address: str, replicas: int = 1, gateways: int = 1, *, name: str = ""
) -> None:
    """Serve on a Ray cluster until SIGINT or SIGTERM; if the service runs there already, change it and return.

    Args:
        model: What to serve.
        settings: How to serve it.
        address: As in `ray.init`; "local" starts a cluster on this machine.
        replicas: Number of processes that have streams.
        gateways: Number of processes that clients connect to.
        name: Of the model, for the page of the service.
    """
    positive_int("replicas", replicas)
    positive_int("gateways", gateways)
    require_shared(settings)
    log_to_stderr()
    tokens, sizes = Tokens.of(settings), {"replicas": replicas, "gateways": gateways}
    with clusters.connected(address, cpus=max(replicas, os.cpu_count() or 1)) as ray:
        serve = require("a service on Ray", "ray.serve")
        found = ray.cluster_resources().get("CPU", 0)
        if found < replicas:
            log.warning("waiting for more machines", extra={"fields": {"CPUs": found, "replicas": replicas}})
        is_running = APPLICATION in serve.status().applications
        if is_running and settings.migrate:
            raise ValueError("migrate: the service runs on this cluster; end it first, so that no stream advances")
        settings = prepared(model, settings)
        if is_running and running_version() == version_of(model, settings, tokens):
            scale(replicas, gateways)
        else:
            deploy(cluster_application(model, settings, tokens, replicas, gateways, name), settings)
        if is_running:
            log.info("the service on this cluster was changed", extra={"fields": sizes})
            return
        log.info("serving", extra={"fields": {"host": settings.host, "port": settings.port, **sizes}})
        ended = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: ended.set())
        ended.wait()
        serve.delete(APPLICATION)


def deploy(application: Any, settings: Settings) -> None:
    """Start the service on the cluster that this process is connected to, or change it."""
    serve = require("a service on Ray", "ray.serve")
    files = {"ssl_certfile": settings.tls_cert, "ssl_keyfile": settings.tls_key}
    tls = {name: str(path) for name, path in files.items() if path is not None}
    serve.start(http_options={"host": settings.host, "port": settings.port, **tls})
    serve.run(application, name=APPLICATION, route_prefix="/", external_scaler_enabled=True)


def running_version() -> str:
    """Return what identifies the service that runs on the cluster."""
    serve = require("a service on Ray", "ray.serve")
    replicas = serve.get_deployment_handle(REPLICA, APPLICATION)
    for lane in range(LANES):  # a replica that hangs has some of them
        try:
            return str(
                replicas.options(session_id=str(lane)).about.remote().result(timeout_s=ANSWER_SECONDS)["version"]
            )
        except TimeoutError:
            continue
    raise TimeoutError("the service on this cluster does not answer; end it and start it again")


def scale(replicas: int, gateways: int) -> None:
    """Change the number of processes of the service that runs on the cluster, without replacing any."""
    ray, context = require("a service on Ray", "ray"), require("a service on Ray", "ray.serve.context")
    common = require("a service on Ray", "ray.serve._private.common")
    controller = context._get_global_client()._controller  # as Ray's own REST API does; Python has no other way
    for name, count in ((REPLICA, replicas), (GATEWAY, gateways)):
        ray.get(controller.update_deployment_replicas.remote(common.DeploymentID(name, APPLICATION), count))


def require_shared(settings: Settings) -> None:
    """Raise if the replicas of a service could not share its store, or would not write every record to it."""
    if settings.durability != "log":
        raise ValueError(f"durability={settings.durability!r} loses records when a stream moves; a cluster needs log")
    store = str(settings.store)
    if not store.startswith(SCHEMES) and not is_folder(store):
        raise ValueError(
            f"store={store} is a file, which the machines of a cluster cannot share; give redis://HOST:PORT, or a "
            f"folder that all of them see, with a slash at the end: streams/"
        )


def prepared(model: StreamModel, settings: Settings) -> Settings:
    """Check the store, and continue streams of another model; return the settings for the cluster."""
    sessions = Sessions(model, settings.missing, settings.gaps, settings.backend)
    store = open_store(settings, model)
    try:
        batcher_of(sessions, store, settings, Metrics())
    finally:
        store.close()
    return dataclasses.replace(settings, migrate=False)

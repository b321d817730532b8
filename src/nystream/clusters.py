"""Connecting to a Ray cluster."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nystream import extras

LOCAL = "local"
OBJECT_STORE = 128 * 2**20  # bytes that Ray reserves for objects; ours are small
CONNECT_TIMEOUT = 10.0  # seconds


@contextmanager
def connected(address: str, cpus: int | None = None) -> Iterator[Any]:
    """Yield `ray`, connected to a cluster; at the end, it is disconnected, and ended if it was started here.

    Args:
        address: As in `ray.init`; "local" starts a cluster on this machine.
        cpus: CPUs that a local cluster pretends to have; by default, those of this machine.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_TQDM_PATCH_PRINT", "0")  # leave the user's print alone
    ray = extras.require("ray=", "ray")
    if ray.is_initialized():  # whoever started it shuts it down
        yield ray
        return
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == LOCAL:
        options |= {"include_dashboard": False, "object_store_memory": OBJECT_STORE, "num_cpus": cpus}
    hint = ""
    try:
        if _answers(address):
            hint = "; if it asks for a token, set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN"
        ray.init(address=address, **options)
    except (OSError, ValueError, RuntimeError) as error:
        raise ConnectionError(f"ray={address!r} cannot be reached: {error}{hint}") from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _answers(address: str) -> bool:
    """Whether the address names a machine, and it accepts connections; raise if not, as Ray would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return False
    socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT).close()
    return True

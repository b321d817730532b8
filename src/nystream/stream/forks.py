"""Pools across a fork: no child finds a lock that a thread of its parent held, or a state that was half-written.

A fork copies the memory as it is at that moment, but of all threads only the one that forks. So it waits until nobody
pushes: every pool's lock is taken before the fork, and is free again after it, in the parent and in the child.
"""

from __future__ import annotations

import os
from threading import Lock
from typing import Protocol
from weakref import WeakSet

# A push lasts far less. Whoever has to wait so long is a signal handler that forks in the midst of a push of its own
# thread: the lock is released, in the child too, when that push goes on.
PATIENCE = 10.0


class Locked(Protocol):
    _lock: Lock


_entering = Lock()  # held while `_pools` is read or changed
_pools: WeakSet[Locked] = WeakSet()
_held: list[Locked] = []  # those whose locks the fork that goes on holds


def enter(pool: Locked) -> None:
    """From now on, a fork waits for this pool."""
    with _entering:
        _pools.add(pool)


def _before() -> None:
    _entering.acquire()
    for pool in list(_pools):
        if pool._lock.acquire(timeout=PATIENCE):
            _held.append(pool)


def _after_in_parent() -> None:
    while _held:
        _held.pop()._lock.release()
    _entering.release()


def _after_in_child() -> None:
    """New locks: those that were waited for in the parent are not to be relied on."""
    global _entering
    while _held:
        _held.pop()._lock = Lock()
    _entering = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)

"""Make pools safe to fork: a child process never inherits a locked pool or a half-written state.

A fork copies all memory, but only the thread that forks. So a fork waits until no thread is pushing: it takes the locks
of all pools, and releases them afterwards in the parent and in the child.
"""

from __future__ import annotations

import os
from threading import Lock
from typing import Protocol
from weakref import WeakSet

# A push takes far less than this. Only a signal handler that forks during a push of its own thread waits so long; that
# push releases the lock when it continues, in the child, too.
TIMEOUT_SECONDS = 10.0


class Locked(Protocol):
    _lock: Lock


_pools_lock = Lock()
_pools: WeakSet[Locked] = WeakSet()
_locked: list[Locked] = []  # pools whose locks are held by the current fork


def register(pool: Locked) -> None:
    """Let forks wait for this pool from now on."""
    with _pools_lock:
        _pools.add(pool)


def _before() -> None:
    _pools_lock.acquire()
    for pool in list(_pools):
        if pool._lock.acquire(timeout=TIMEOUT_SECONDS):
            _locked.append(pool)


def _after_in_parent() -> None:
    while _locked:
        _locked.pop()._lock.release()
    _pools_lock.release()


def _after_in_child() -> None:
    """Make new locks: other threads of the parent may have been waiting for the old ones."""
    global _pools_lock
    while _locked:
        _locked.pop()._lock = Lock()
    _pools_lock = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)

"""Snapshots: one stream's state as bytes that any pool of the same model goes on from, whatever its backend.

A snapshot is what `state.pack` makes of the state, and a fingerprint of the weights: a state means nothing to others.
"""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch import nn

import nystream.state as states

WHAT = "the snapshot"


def fingerprint(model: nn.Module) -> str:
    """A hash of every weight and buffer that is saved: names, dtypes, shapes and bytes."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(states.raw_bytes(tensor))
    return digest.hexdigest()


class Snapshots:
    """Makes and reads the snapshots of one model, whose weights stay as they are."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._hash: str | None = None
        with torch.inference_mode(False), torch.no_grad():
            self._fresh = model.init_state(1)

    def dump(self, state: Any) -> bytes:
        """The bytes of one stream's state."""
        return states.pack(state, self._model, like=self._fresh, weights=self._weights)

    def load(self, blob: Any) -> Any:
        """The state in a snapshot, or in what `save_state` wrote of one stream, which says nothing of weights."""
        if not isinstance(blob, bytes | bytearray | memoryview):
            raise TypeError(f"blob is a {type(blob).__name__}, but must be the bytes that snapshot() gave")
        blob = bytes(blob)
        state = states.unpack(blob, self._model, like=self._fresh, source=WHAT)
        theirs = states.metadata(blob).get("weights", self._weights)
        if theirs != self._weights:
            raise ValueError(
                f"{WHAT} belongs to other weights ({theirs:.8}… there, {self._weights:.8}… here); "
                f"a stream can only go on with the weights it began with"
            )
        rows = state.time.shape[0]
        if rows != 1:
            raise ValueError(f"{WHAT} has {rows} streams, but must have one; state.select() takes one out")
        return state

    @property
    def _weights(self) -> str:
        """Worked out when it is needed, and without a lock, which a fork could leave held: it is the same each time."""
        if self._hash is None:
            self._hash = fingerprint(self._model)
        return self._hash

"""Snapshots: the state of one stream as bytes, from which any pool of the same model, with any backend, can resume.

A snapshot is a state packed by `state.pack`, with a fingerprint of the weights, because a state is meaningless with
other weights.
"""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch import nn

import nystream.state as states

SOURCE = "the snapshot"


def fingerprint(model: nn.Module) -> str:
    """A hash of all saved weights and buffers: names, dtypes, shapes and bytes."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(states.raw_bytes(tensor))
    return digest.hexdigest()


class Snapshots:
    """Writes and reads the snapshots of a model whose weights do not change."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._hash: str | None = None
        with torch.inference_mode(False), torch.no_grad():
            self._fresh = model.init_state(1)

    def dump(self, state: Any) -> bytes:
        """The snapshot of a state of one stream."""
        return states.pack(state, self._model, like=self._fresh, weights=self._weights)

    def load(self, blob: Any) -> Any:
        """The state in a snapshot, or in a file of `save_state`, which has no fingerprint of the weights."""
        if not isinstance(blob, bytes | bytearray | memoryview):
            raise TypeError(f"blob is a {type(blob).__name__}, but must be the bytes that snapshot() returned")
        blob = bytes(blob)
        state = states.unpack(blob, self._model, like=self._fresh, source=SOURCE)
        theirs = states.metadata(blob).get("weights", self._weights)
        if theirs != self._weights:
            raise ValueError(
                f"{SOURCE} belongs to other weights ({theirs:.8}… there, {self._weights:.8}… here); "
                f"a stream can only be resumed with the weights it was started with"
            )
        rows = state.time.shape[0]
        if rows != 1:
            raise ValueError(f"{SOURCE} has {rows} streams, but must have one; state.select() selects one")
        return state

    @property
    def _weights(self) -> str:
        """The fingerprint, computed when needed. Needs no lock, which a fork might copy: every thread gets the same."""
        if self._hash is None:
            self._hash = fingerprint(self._model)
        return self._hash

"""Tokens at given places, with sums in a fixed order.

A place that is read several times gets several gradients, which are added. On a CPU, the threads behind `x[:, places]`
add them in any order, so that two runs with the same seed differ in the last bits, and by much more after many updates.
`index_select` and `index_add` keep to the order of the places, and are faster. On a GPU it is the other way round.
"""

from __future__ import annotations

from torch import Tensor

from nystream.ops import ring


def at(x: Tensor, places: Tensor) -> Tensor:
    """x[:, places]: the same places [...] of all rows of x [B, T, ...]."""
    if x.device.type != "cpu":
        return x[:, places]
    return x.index_select(1, places.flatten()).unflatten(1, places.shape)


def by_row(x: Tensor, places: Tensor) -> Tensor:
    """The places [B, ...] of x [B, T, ...], which each row has for itself."""
    if x.device.type != "cpu":
        return x[_rows(places), places]
    return x.flatten(0, 1).index_select(0, _flat(x, places)).unflatten(0, places.shape)


def add(x: Tensor, places: Tensor, tokens: Tensor) -> Tensor:
    """x [B, S, ...] with tokens [B, T, ...] added at places [B, T]."""
    if x.device.type != "cpu":
        return x.index_put((_rows(places), places), tokens, accumulate=True)
    return x.flatten(0, 1).index_add(0, _flat(x, places), tokens.flatten(0, 1)).view_as(x)


def _rows(places: Tensor) -> Tensor:
    return ring.rows(places).reshape(-1, *[1] * (places.dim() - 1))


def _flat(x: Tensor, places: Tensor) -> Tensor:
    return (_rows(places) * x.shape[1] + places).flatten()

"""The attention of one block in a graph, one file per kind of landmarks.

`project` maps the inputs of the attention, one row per token, to what the window needs; it reads no state. `attend`
puts these into the window, and returns the attention's output, one row per token, before the output projection.
`attend_span` does so for many tokens at once, where a variant allows it.
"""

from __future__ import annotations

from typing import Any

from nystream.export.attention.continual import Continual
from nystream.export.attention.fixed import Fixed
from nystream.export.attention.full import Full
from nystream.export.attention.tiers import TieredFixed, is_long

Attention = Fixed | TieredFixed | Full | Continual


def attention(module: Any, name: str, leaf: str) -> Attention:
    """The attention of a `MultiheadAttention`; `name` and `leaf` are prefixes of its states and of their leaves."""
    kind = module.config.record.kernel
    if kind == "fixed":
        return (TieredFixed if is_long(module.config) else Fixed)(module, name, leaf)
    return (Full if kind == "full" else Continual)(module, name, leaf)

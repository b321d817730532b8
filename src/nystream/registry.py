"""Variant name -> the module that implements it."""

from __future__ import annotations

from types import ModuleType

from nystream.config import VARIANTS
from nystream.ops.attention import (
    co_cont_retro,
    co_cont_single,
    co_fixed_retro,
    co_fixed_single,
    co_full_retro,
    co_full_single,
    full,
    nystrom,
    nystrom_fixed,
)

_MODULES: dict[str, ModuleType] = {
    "full": full,
    "co-full-single": co_full_single,
    "co-full-retro": co_full_retro,
    "nystrom": nystrom,
    "nystrom-fixed": nystrom_fixed,
    "co-cont-single": co_cont_single,
    "co-cont-retro": co_cont_retro,
    "co-fixed-single": co_fixed_single,
    "co-fixed-retro": co_fixed_retro,
}

assert tuple(_MODULES) == VARIANTS


def variant_ops(variant: str) -> ModuleType:
    """The `forward`, `init_state`, `step` and `steps` of a variant (see `nystream.ops.attention`)."""
    return _MODULES[variant]

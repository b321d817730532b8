"""The attention variants: each is declared once, in a record, from which all other code reads its properties.

This package does not import torch. The functions that a record names are imported on first use.
"""

from nystream.variants.record import RECOMPUTE_BELOW, Roles, Variant
from nystream.variants.registry import VARIANTS, continual_form, get, names, register_variant, unregister

__all__ = [
    "RECOMPUTE_BELOW",
    "VARIANTS",
    "Roles",
    "Variant",
    "continual_form",
    "get",
    "names",
    "register_variant",
    "unregister",
]

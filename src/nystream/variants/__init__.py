"""The variants of attention: each declares itself once, in a record, and everything else reads that.

Nothing here needs torch: what a record names is imported when it is used.
"""

from nystream.variants.record import RECOMPUTE_BELOW, Roles, Variant
from nystream.variants.registry import VARIANTS, continual_form, get, names, of_family, register_variant, unregister

__all__ = [
    "RECOMPUTE_BELOW",
    "VARIANTS",
    "Roles",
    "Variant",
    "continual_form",
    "get",
    "names",
    "of_family",
    "register_variant",
    "unregister",
]

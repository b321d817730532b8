"""The nine attentions of the paper."""

from __future__ import annotations

from nystream.variants.record import Roles, Variant

CO_FULL = Roles("co-full-retro", "full", "co-full-single")
CO_CONT = Roles("co-cont-retro", "nystrom", "co-cont-single")
CO_FIXED = Roles("co-fixed-retro", "nystrom-fixed", "co-fixed-single")

SLIDING = ("partials", "recompute", "subtract")
REFERENCE = "nystream.ops.attention.reference:attend"

BUILT_IN: tuple[Variant, ...] = (
    Variant(
        name="full",
        symbol="Att",
        rows="all",
        options=("dropout", "attn_mask"),
        roles=Roles("full", "full", "full"),
        fixed_form="nystrom-fixed",
        ops="nystream.ops.attention.full",
        reference=REFERENCE,
        costs="nystream.costs.full:FULL",
    ),
    Variant(
        name="co-full-single",
        symbol="Co",
        family="co-full",
        rows="newest",
        options=("dropout",),
        roles=CO_FULL,
        fixed_form="co-fixed-single",
        kernel="full",
        ops="nystream.ops.attention.co_full_single",
        reference=REFERENCE,
        costs="nystream.costs.full:CO_FULL_SINGLE",
    ),
    Variant(
        name="co-full-retro",
        symbol="Co",
        family="co-full",
        rows="all",
        sums=("auto", "recompute", "subtract"),  # "auto" is a form of its own: rows are summed afresh as the data ask
        options=("dropout",),
        roles=CO_FULL,
        fixed_form="co-fixed-retro",
        ops="nystream.ops.attention.co_full_retro",
        reference=REFERENCE,
        costs="nystream.costs.full:CO_FULL_RETRO",
    ),
    Variant(
        name="nystrom",
        symbol="Ny",
        rows="all",
        landmarks="window",
        roles=Roles("nystrom", "nystrom", "nystrom"),
        fixed_form="nystrom-fixed",
        ops="nystream.ops.attention.nystrom",
        reference=REFERENCE,
        costs="nystream.costs.means:NYSTROM",
    ),
    Variant(
        name="nystrom-fixed",
        symbol="Ny-Fix",
        rows="all",
        landmarks="fixed",
        roles=Roles("nystrom-fixed", "nystrom-fixed", "nystrom-fixed"),
        fixed_form="nystrom-fixed",
        ops="nystream.ops.attention.nystrom_fixed",
        reference=REFERENCE,
        costs="nystream.costs.fixed:NYSTROM_FIXED",
    ),
    Variant(
        name="co-cont-single",
        symbol="CoNy-Cont",
        family="co-cont",
        rows="newest",
        landmarks="stream",
        sums=SLIDING,
        roles=CO_CONT,
        fixed_form="co-fixed-single",
        kernel="continual",
        ops="nystream.ops.attention.co_cont_single",
        reference=REFERENCE,
        costs="nystream.costs.means:CO_CONT_SINGLE",
    ),
    Variant(
        name="co-cont-retro",
        symbol="CoNy-Cont",
        family="co-cont",
        rows="all",
        landmarks="stream",
        sums=SLIDING,
        roles=CO_CONT,
        fixed_form="co-fixed-retro",
        ops="nystream.ops.attention.co_cont_retro",
        reference=REFERENCE,
        costs="nystream.costs.means:CO_CONT_RETRO",
    ),
    Variant(
        name="co-fixed-single",
        symbol="CoNy-Fix",
        family="co-fixed",
        rows="newest",
        landmarks="fixed",
        sums=SLIDING,
        roles=CO_FIXED,
        fixed_form="co-fixed-single",
        kernel="fixed",
        ops="nystream.ops.attention.co_fixed_single",
        reference=REFERENCE,
        costs="nystream.costs.fixed:CO_FIXED_SINGLE",
    ),
    Variant(
        name="co-fixed-retro",
        symbol="CoNy-Fix",
        family="co-fixed",
        rows="all",
        landmarks="fixed",
        sums=SLIDING,
        roles=CO_FIXED,
        fixed_form="co-fixed-retro",
        ops="nystream.ops.attention.co_fixed_retro",
        reference=REFERENCE,
        costs="nystream.costs.fixed:CO_FIXED_RETRO",
    ),
)

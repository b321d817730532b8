"""The records of the paper's nine variants, in the order of its appendix."""

from __future__ import annotations

from typing import Any

from nystream.variants.record import Roles, Variant

SLIDING = ("partials", "recompute", "subtract")

# Fields shared by the two variants of a continual family.
CO_FULL: dict[str, Any] = {
    "family": "co-full",
    "symbol": "Co",
    "roles": Roles("co-full-retro", "full", "co-full-single"),
    "options": ("dropout",),
}
CO_CONT: dict[str, Any] = {
    "family": "co-cont",
    "symbol": "CoNy-Cont",
    "roles": Roles("co-cont-retro", "nystrom", "co-cont-single"),
    "landmarks": "stream",
    "sums": SLIDING,
}
CO_FIXED: dict[str, Any] = {
    "family": "co-fixed",
    "symbol": "CoNy-Fix",
    "roles": Roles("co-fixed-retro", "nystrom-fixed", "co-fixed-single"),
    "landmarks": "fixed",
    "sums": SLIDING,
}


def _plain(name: str, symbol: str, costs: str, **fields: Any) -> Variant:
    return _variant(name, costs, "nystrom-fixed", rows="all", symbol=symbol, roles=Roles(name, name, name), **fields)


def _variant(name: str, costs: str, fixed_form: str, **fields: Any) -> Variant:
    file = name.replace("-", "_")
    return Variant(
        name=name,
        fixed_form=fixed_form,
        ops=f"nystream.ops.attention.{file}",
        reference="nystream.ops.attention.reference:attend",
        costs=f"nystream.costs.{costs}:{file.upper()}",
        **fields,
    )


BUILT_IN: tuple[Variant, ...] = (
    _plain("full", "Att", "full", options=("dropout", "attn_mask")),
    _variant(
        "co-full-single",
        "full",
        "co-fixed-single",
        rows="newest",
        kernel="full",
        **CO_FULL | {"options": ("dropout", "decay")},
    ),
    # Its "auto" is a form of its own: a row is recomputed when its running sum has lost precision.
    _variant("co-full-retro", "full", "co-fixed-retro", rows="all", sums=("auto", "recompute", "subtract"), **CO_FULL),
    _plain("nystrom", "Ny", "means", landmarks="window"),
    _plain("nystrom-fixed", "Ny-Fix", "fixed", landmarks="fixed"),
    _variant(
        "co-cont-single", "means", "co-fixed-single", rows="newest", kernel="continual", options=("decay",), **CO_CONT
    ),
    _variant("co-cont-retro", "means", "co-fixed-retro", rows="all", **CO_CONT),
    _variant(
        "co-fixed-single", "fixed", "co-fixed-single", rows="newest", kernel="fixed", options=("decay",), **CO_FIXED
    ),
    _variant("co-fixed-retro", "fixed", "co-fixed-retro", rows="all", **CO_FIXED),
)

"""The cost model of a variant: the formulas that its record refers to, and their argument and result types."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import nystream.variants as variants
from nystream.ops.cut import Cut, cut
from nystream.variants.record import load

FORMS = ("recompute", "partials", "subtract", "auto")
STACKS = ("paper", "deep")


class Memory(NamedTuple):
    """Stored numbers (not bytes): `valley` between two steps, `peak` within one."""

    valley: int
    peak: int


class Growth(NamedTuple):
    """Orders of growth of the operations per step and of the memory between steps (valley) and within one (peak)."""

    operations: str
    valley: str
    peak: str


class Executed(NamedTuple):
    """Multiply-adds per step, of matrix products and of combining partial sums."""

    products: float
    combines: float

    @property
    def total(self) -> float:
        return self.products + self.combines


class Stored(NamedTuple):
    """Numbers stored per stream: `tokens` in the dtype of the model, `sums` in the dtype of the accumulators."""

    tokens: int
    sums: int


class Sizes(NamedTuple):
    """The arguments of the formulas behind `executed` and `state_bytes`. `d` is the total width of all heads."""

    n: int
    d: int
    m: int
    heads: int
    form: str
    update_size: int = 1
    pinv_iters: int = 6

    @property
    def gamma(self) -> int:
        """Multiply-adds of Γ and its inverse."""
        return self.d * self.m**2 + 4 * self.pinv_iters * self.heads * self.m**3

    @property
    def cut(self) -> Cut:
        """How the window is cut for partial sums."""
        return cut(self.n // self.update_size, self.update_size, self.m)

    @property
    def partials(self) -> int:
        """S: the number of partial sums of a window."""
        return {"partials": 2 + self.cut.totals, "subtract": 1}.get(self.form, 0) if self.m else 0


Operations = Callable[[int, int, int], float]
Numbers = Callable[[int, int, int], Memory]


@dataclass(frozen=True, kw_only=True)
class CostModel:
    """The cost formulas of a variant. All are optional.

    `flops` and `memory` are functions of n (window), d (width) and m (landmarks, 0 if there are none); `executed` and
    `state` are functions of `Sizes`. A `corrected_` formula replaces the paper's in corrected counts, and a `fresh_`
    formula replaces it for later blocks of a paper stack, which read n new rows at every step. Both default to the
    plain formula.
    """

    flops: Operations | None = None
    corrected_flops: Operations | None = None
    fresh_flops: Operations | None = None
    memory: Numbers | None = None
    corrected_memory: Numbers | None = None
    fresh_memory: Numbers | None = None
    growth: Growth | None = None
    corrected_growth: Growth | None = None
    executed: Callable[[Sizes], Executed] | None = None
    fresh_executed: Callable[[Sizes], Executed] | None = None
    state: Callable[[Sizes], Stored] | None = None


def formula(variant: str, *names: str) -> Any:
    """Return the first of the named formulas that the variant has."""
    model = load("costs", variants.get(variant).costs)
    for name in names:
        if (value := getattr(model, name, None)) is not None:
            return value
    raise ValueError(
        f"variant {variant!r} has no formula for {names[-1]}; register it with "
        f"costs=nystream.costs.CostModel({names[-1]}=...)"
    )


def growth(variant: str, *, corrected: bool = False) -> Growth:
    """Return the orders of growth in the paper's table, or the corrected ones.

    For continual landmarks the paper gives the operations of a step that renews a landmark. The corrected order is
    that of the mean over all steps, of which m in n renew one. The corrected memory includes what has to be stored
    until it leaves the window. As m <= n, nd covers dm and nm covers m².
    """
    result: Growth = formula(variant, *(("corrected_growth",) if corrected else ()), "growth")
    return result


def stacked(variant: str, layers: int, kind: str, corrected: bool = False) -> list[tuple[int, Any]]:
    """Return the formulas of the blocks of a paper stack, each with the number of blocks it applies to."""
    first = (f"corrected_{kind}", kind) if corrected else (kind,)
    if layers == 1:
        return [(1, formula(variant, *first))]
    later = (f"fresh_{kind}", *first) if corrected else first
    roles = roles_of(variant)
    blocks = [
        (1, formula(roles.first, *first)),
        (layers - 2, formula(roles.middle, *later)),
        (1, formula(roles.last, *later)),
    ]
    return [(count, block) for count, block in blocks if count]


def roles_of(variant: str) -> variants.Roles:
    """Return the variants of a paper stack."""
    roles = variants.get(variant).roles
    if roles is None:
        raise ValueError(f"variant {variant!r} has no roles in a stack='paper' of several blocks")
    return roles


def require_stack(variant: str, stack: str) -> None:
    """Raise if several blocks of the variant cannot form such a stack."""
    if stack not in STACKS:
        raise ValueError(f"stack must be one of {', '.join(STACKS)}, got {stack!r}")
    if stack == "deep" and not variants.get(variant).single:
        raise ValueError(f"stack='deep' needs a single-output variant, got variant {variant!r}")


def positive_integer(name: str, value: object) -> int:
    """Return `value` as an int, or raise ValueError if it is not a positive integer."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = 0
    if number < 1 or isinstance(value, bool):
        raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")
    return number


def check_arguments(variant: str, n: int, d: int, m: int | None) -> tuple[int, int, int]:
    """Return n, d and m as ints. For a variant without landmarks, m may be None, and is then 0."""
    record = variants.get(variant)
    window, width = positive_integer("n", n), positive_integer("d", d)
    if m is None:
        if record.low_rank:
            raise ValueError(f"m must be given for variant {variant!r} (an integer from 1 to n={window}), got None")
        return window, width, 0
    landmarks = positive_integer("m", m)
    if landmarks > window:
        raise ValueError(f"m must be at most n={window}, got {landmarks}")
    return window, width, landmarks


def check_form(form: str) -> None:
    if form not in FORMS:
        raise ValueError(f"form must be one of {', '.join(FORMS)}, as in AttentionConfig.sums, got {form!r}")

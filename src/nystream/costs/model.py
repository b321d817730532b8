"""What a variant says that it costs: the formulas of its record, and what they take and give."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import nystream.variants as variants
from nystream.ops.segments import segment_count
from nystream.variants.record import load

FORMS = ("recompute", "partials", "subtract", "auto")
STACKS = ("paper", "deep")


class Memory(NamedTuple):
    """Numbers (not bytes) held: `valley` between two steps, `peak` within one."""

    valley: int
    peak: int


class Growth(NamedTuple):
    """Orders of growth: operations of a step, numbers held between two steps and within one."""

    operations: str
    valley: str
    peak: str


class Executed(NamedTuple):
    """Multiply-adds a step: of matrix products, and of combining partial sums."""

    products: float
    combines: float

    @property
    def total(self) -> float:
        """Both."""
        return self.products + self.combines


class Stored(NamedTuple):
    """Numbers that a stream keeps: in the dtype of the model, and in that of the accumulators."""

    tokens: int
    sums: int


class Sizes(NamedTuple):
    """What the counts of `executed` and `state_bytes` depend on; d is the width of all heads."""

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
    def partials(self) -> int:
        """S: how many partial sums a window keeps."""
        if self.form == "partials":
            groups = self.n // self.update_size
            segments = segment_count(groups)
            return 4 + segments + -(-groups // segments)
        return 1 if self.form == "subtract" else 0


Operations = Callable[[int, int, int], float]
Numbers = Callable[[int, int, int], Memory]


@dataclass(frozen=True, kw_only=True)
class CostModel:
    """The costs of a variant; any of them may be missing.

    `flops` and `memory` are functions of n (window), d (width) and m (landmarks, 0 where there are none), `executed`
    and `state` of `Sizes`. What is `corrected` differs from the paper's count; what is `fresh` is the cost as a later
    block of a paper stack, whose n rows are all new at every step. Each stands for the plain one unless told.
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
    """The first of these costs that the variant declares."""
    model = load("costs", variants.get(variant).costs)
    for name in names:
        if (value := getattr(model, name, None)) is not None:
            return value
    raise ValueError(
        f"variant {variant!r} does not declare its {names[-1]}; register it with "
        f"costs=nystream.costs.CostModel({names[-1]}=...)"
    )


def stacked(variant: str, layers: int, kind: str, corrected: bool = False) -> list[tuple[int, Any]]:
    """The formulas of the blocks of a paper stack, and how many blocks have each."""
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
    """The variants of a paper stack."""
    roles = variants.get(variant).roles
    if roles is None:
        raise ValueError(f"variant {variant!r} has no roles in a stack='paper' of several blocks")
    return roles


def require_stack(variant: str, stack: str) -> None:
    """A stack of two or more blocks is "paper", or "deep" and made of single-output blocks."""
    if stack not in STACKS:
        raise ValueError(f"stack must be one of {', '.join(STACKS)}, got {stack!r}")
    if stack == "deep" and not variants.get(variant).single:
        raise ValueError(f"stack='deep' is made of single-output variants, got variant {variant!r}")


def positive_integer(name: str, value: object) -> int:
    """Return `value` as an int, or say which argument is not an integer of at least 1."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = 0
    if number < 1 or isinstance(value, bool):
        raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")
    return number


def check_arguments(variant: str, n: int, d: int, m: int | None) -> tuple[int, int, int]:
    """Return n, d and m as ints; m is 0 where a variant without landmarks was given none."""
    if variant not in variants.names():
        raise ValueError(f"variant must be one of {', '.join(variants.names())}, got {variant!r}")
    window, width = positive_integer("n", n), positive_integer("d", d)
    if m is None:
        if variants.get(variant).low_rank:
            raise ValueError(f"m must be given for variant {variant!r} (an integer from 1 to n={window}), got None")
        return window, width, 0
    landmarks = positive_integer("m", m)
    if landmarks > window:
        raise ValueError(f"m must be at most n={window}, got {landmarks}")
    return window, width, landmarks


def check_form(form: str) -> None:
    """`form` is one that a window can have."""
    if form not in FORMS:
        raise ValueError(f"form must be one of {', '.join(FORMS)}, as AttentionConfig has them, got {form!r}")

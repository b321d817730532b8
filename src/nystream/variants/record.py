"""What a variant is: a frozen record that everything else reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import Any, Literal, NamedTuple

# Below this window, reading the rings afresh beats keeping partials in eager torch for batches of streams; for a single
# stream it does so up to about 1,000 (benchmarks/step.py measures both).
RECOMPUTE_BELOW = 128

CHOICES: dict[str, tuple[str, ...]] = {
    "rows": ("newest", "all"),
    "landmarks": ("none", "window", "stream", "fixed"),
    "sums": ("auto", "partials", "recompute", "subtract"),
    "options": ("dropout", "attn_mask"),
}
KERNELS = {"full": "none", "continual": "stream", "fixed": "fixed"}  # of the compiled pool: the landmarks of each
FUNCTIONS = ("forward", "init_state", "step", "steps")


class Roles(NamedTuple):
    """The variants of the blocks of a paper stack: the first, those between, and the last."""

    first: str
    middle: str
    last: str


@dataclass(frozen=True, kw_only=True)
class Variant:
    """What a variant declares about itself. Nothing is read from its name.

    Functions can be given as they are, or by import path ("package.module:name"), which is imported when it is needed.

    Args:
        name: what `AttentionConfig(variant=...)` calls it.
        ops: a module, or any object, with `forward`, `init_state`, `step` and `steps` as in `nystream.ops.attention`.
        rows: the rows that it returns: the "newest", or "all" of the window.
        landmarks: "none"; means over the "window", computed afresh; means renewed along the "stream"; or "fixed".
        family: what a model of such blocks is called; the variant's own name unless told.
        sums: the forms in which it can keep its window, of which "recompute" is one. The first is what "auto" stands
            for, except that "partials" is left to windows of 128 tokens and more.
        options: which options of `MultiheadAttention` its `forward` takes: "dropout", "attn_mask" (as `mask=`).
        roles: the names of the first, middle and last block of a paper stack; None if it cannot be part of one.
        fixed_form: the name of the variant that it becomes when its landmarks are fixed.
        kernel: the kernel of the compiled pool that runs it: "full", "continual" or "fixed".
        receptive_field: (window, landmarks) -> how many tokens an output can depend on. Unless told, the window; with
            landmarks renewed along the stream, also the tokens that live on in the oldest one.
        symbol: the paper's name.
        reference: (cfg, q, k, v, t, q_tilde, k_tilde) -> the output at time t of a stream [..., T, D] in float64, as
            `nystream.ops.attention.reference.attend`: what the contract suite compares with.
        costs: a `nystream.costs.CostModel`.
    """

    name: str
    ops: Any
    rows: Literal["newest", "all"]
    landmarks: Literal["none", "window", "stream", "fixed"] = "none"
    family: str = ""
    sums: tuple[str, ...] = ("recompute",)
    options: tuple[str, ...] = ()
    roles: Roles | None = None
    fixed_form: str | None = None
    kernel: Literal["full", "continual", "fixed"] | None = None
    receptive_field: Callable[[int, int], int] | None = None
    symbol: str | None = None
    reference: str | Callable[..., Any] | None = None
    costs: Any = None

    # Attributes, not properties: every step reads them.
    single: bool = field(init=False, repr=False, compare=False)
    low_rank: bool = field(init=False, repr=False, compare=False)
    fixed: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ValueError(f"name={self.name!r} must be a name, such as 'co-mean-single'")
        for attribute, choices in CHOICES.items():
            value = getattr(self, attribute)
            several = attribute in ("sums", "options")
            if several and not isinstance(value, tuple):
                raise TypeError(f"{attribute}={value!r} must be a tuple of {', '.join(choices)}")
            for word in value if several else (value,):
                if word not in choices:
                    raise ValueError(f"{attribute}={word!r} is not known; it must be one of {', '.join(choices)}")
        if "recompute" not in self.sums:
            raise ValueError(f"sums={self.sums!r} must have 'recompute', which short windows are kept by")
        if self.kernel is not None and (self.rows != "newest" or KERNELS.get(self.kernel) != self.landmarks):
            raise ValueError(
                f"kernel={self.kernel!r} does not go with rows={self.rows!r} and landmarks={self.landmarks!r}: kernels "
                f"return the newest rows, 'full' without landmarks, 'continual' with those of the stream, 'fixed'"
            )
        derived = {
            "family": self.family or self.name,
            "roles": self.roles and _roles(self.roles),
            "single": self.rows == "newest",
            "low_rank": self.landmarks != "none",
            "fixed": self.landmarks == "fixed",
        }
        for attribute, value in derived.items():
            object.__setattr__(self, attribute, value)

    def __reduce__(self) -> Any:
        """Configs are copied and pickled with the record: by its name, as functions are."""
        from nystream.variants.registry import get

        return get, (self.name,)

    @property
    def means(self) -> bool:
        """Whether the landmarks are means over the stream."""
        return self.landmarks in ("window", "stream")

    @property
    def plain(self) -> bool:
        """Whether all blocks of a paper stack are of one variant, which works on all rows."""
        return self.roles is not None and self.roles.first == self.roles.last

    @property
    def last_block(self) -> bool:
        """Whether it is the last block of its own paper stack, and so what a model of one block has."""
        return self.roles is not None and self.roles.last == self.name

    @property
    def forms(self) -> tuple[str, ...]:
        """What `AttentionConfig.sums` can be."""
        return ("auto", *(form for form in self.sums if form != "auto"))

    def form(self, sums: str, window: int, update_size: int = 1) -> str:
        """The form of a window that `sums` stands for."""
        if sums == "auto":
            sums = "recompute" if self.sums[0] == "partials" and window < RECOMPUTE_BELOW else self.sums[0]
        return "recompute" if sums == "partials" and window == update_size else sums

    def reach(self, window: int, landmarks: int | None) -> int:
        """How many tokens an output can depend on: a token lives on in its landmark after it left the window."""
        if self.receptive_field is not None:
            return self.receptive_field(window, landmarks or 0)
        return window + (-(-window // landmarks) - 1 if landmarks and self.landmarks == "stream" else 0)

    @cached_property
    def functions(self) -> Any:
        """The module or object with `forward`, `init_state`, `step` and `steps`."""
        ops = load("ops", self.ops)
        missing = [name for name in FUNCTIONS if not callable(getattr(ops, name, None))]
        if missing:
            raise ValueError(f"ops={self.ops!r} of variant {self.name!r} has no {', '.join(missing)}")
        return ops


def load(argument: str, value: Any) -> Any:
    """What an import path ("package.module" or "package.module:name") names; anything else is taken as it is."""
    if not isinstance(value, str):
        return value
    module, _, name = value.partition(":")
    try:
        return getattr(import_module(module), name) if name else import_module(module)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"{argument}={value!r} cannot be imported: {error}") from error


def _roles(names: tuple[str, ...]) -> Roles:
    if not isinstance(names, tuple) or len(names) != 3 or not all(isinstance(name, str) for name in names):
        raise ValueError(f"roles={names!r} must be the names of the first, middle and last block of a paper stack")
    return Roles(*names)

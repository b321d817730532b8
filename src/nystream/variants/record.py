"""The record of a variant: a frozen dataclass with everything that other code needs to know about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import Any, Literal, NamedTuple

# For windows shorter than this, recomputing the sums from the rings is faster than maintaining partial sums, in eager
# torch with a batch of streams. For a single stream the limit is about 1,000 (benchmarks/step.py measures both).
RECOMPUTE_BELOW = 128

CHOICES: dict[str, tuple[str, ...]] = {
    "rows": ("newest", "all"),
    "landmarks": ("none", "window", "stream", "fixed"),
    "sums": ("auto", "partials", "recompute", "subtract"),
    "options": ("dropout", "attn_mask", "decay"),
}
LANDMARKS_OF_KERNEL = {"full": "none", "continual": "stream", "fixed": "fixed"}
FUNCTIONS = ("forward", "init_state", "step", "steps")


class Roles(NamedTuple):
    """The variants of the first, middle and last blocks of a paper stack."""

    first: str
    middle: str
    last: str


@dataclass(frozen=True, kw_only=True)
class Variant:
    """Everything the library knows about one attention variant. Nothing is inferred from its name.

    `ops`, `reference` and `costs` can be objects, or import paths ("package.module:name") that are imported on first
    use.

    Args:
        name: The value of `AttentionConfig.variant` that selects it.
        ops: A module, or any object, with the functions `forward`, `init_state`, `step` and `steps`, as in
            `nystream.ops.attention`.
        rows: The rows it returns: the "newest", or "all" rows of the window.
        landmarks: "none", "window" (segment means, recomputed for every window), "stream" (segment means, renewed as
            the stream advances) or "fixed".
        family: The name of a model built from such blocks. Default: the name of the variant.
        sums: The supported implementations of the sliding window; "recompute" must be one of them. "auto" selects the
            first, except that "partials" is replaced by "recompute" for windows shorter than 128 tokens.
        options: The options of `MultiheadAttention` that it supports: "dropout" and "attn_mask" (passed to `forward`,
            the latter as `mask=`), "decay" (passed to `forward`, `step`, `steps` and the reference).
        roles: The variants of the first, middle and last block of a paper stack. None: it cannot be used in one.
        fixed_form: The variant it becomes when its landmarks are fixed.
        kernel: The kernel that runs it in a compiled pool: "full", "continual" or "fixed". None: no kernel.
        receptive_field: A function (window, landmarks) -> number of tokens an output can depend on. Default: the
            window, plus, for landmarks renewed along the stream, the tokens that only the oldest landmark still covers.
        symbol: The name used in the paper.
        reference: The float64 reference that the contract suite compares with: a function (cfg, q, k, v, t, q_tilde,
            k_tilde) -> the output at time t of a stream [..., T, D], like `nystream.ops.attention.reference.attend`.
        costs: A `nystream.costs.CostModel`.
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

    # Attributes rather than properties, because every step reads them.
    single: bool = field(init=False, repr=False, compare=False)
    low_rank: bool = field(init=False, repr=False, compare=False)
    fixed: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ValueError(f"name={self.name!r} must be a non-empty string, such as 'co-mean-single'")
        for attribute, choices in CHOICES.items():
            value = getattr(self, attribute)
            several = attribute in ("sums", "options")
            if several and not isinstance(value, tuple):
                raise TypeError(f"{attribute}={value!r} must be a tuple of {', '.join(choices)}")
            for word in value if several else (value,):
                if word not in choices:
                    raise ValueError(f"{attribute}={word!r} is not known; it must be one of {', '.join(choices)}")
        if "recompute" not in self.sums:
            raise ValueError(f"sums={self.sums!r} must include 'recompute', which short windows use")
        if self.kernel is not None and (
            self.rows != "newest" or LANDMARKS_OF_KERNEL.get(self.kernel) != self.landmarks
        ):
            raise ValueError(
                f"kernel={self.kernel!r} does not support rows={self.rows!r} with landmarks={self.landmarks!r}: "
                f"kernels need rows='newest', and 'full' landmarks='none', 'continual' 'stream', 'fixed' 'fixed'"
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
        """Pickle by name, as functions are: configs are copied and pickled together with their record."""
        from nystream.variants.registry import get

        return get, (self.name,)

    @property
    def means(self) -> bool:
        """Whether the landmarks are means over the stream."""
        return self.landmarks in ("window", "stream")

    @property
    def plain(self) -> bool:
        """Whether every block of a paper stack is the same variant, which returns all rows."""
        return self.roles is not None and self.roles.first == self.roles.last

    @property
    def last_block(self) -> bool:
        """Whether it is the last block of its own paper stack, and therefore the block of a one-block model."""
        return self.roles is not None and self.roles.last == self.name

    @property
    def forms(self) -> tuple[str, ...]:
        """The valid values of `AttentionConfig.sums`."""
        return ("auto", *(form for form in self.sums if form != "auto"))

    def form(self, sums: str, window: int, update_size: int = 1) -> str:
        """Return the implementation of the sliding window that `sums` selects."""
        if sums == "auto":
            sums = "recompute" if self.sums[0] == "partials" and window < RECOMPUTE_BELOW else self.sums[0]
        return "recompute" if sums == "partials" and window == update_size else sums

    def reach(self, window: int, landmarks: int | None) -> int:
        """Return the number of tokens an output can depend on.

        With continual landmarks this exceeds the window: a landmark may still include tokens that have left it.
        """
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
    """Import the object at a path ("package.module" or "package.module:name"); return any other value unchanged."""
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

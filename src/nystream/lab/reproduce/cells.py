"""Cells: a cell is one model with one setting, trained and scored over all splits and seeds."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from nystream import variants
from nystream.config.attention import PINVS
from nystream.config.checks import number, one_of, positive_int

# The paper's names of its six models, in the order of its tables.
RECORDS = [record for record in map(variants.get, variants.VARIANTS) if record.last_block]
MODELS: dict[str, str] = {record.name: record.symbol or record.name for record in RECORDS}

# A plain model computes over a window what its continual twin computes over a stream, so the twin is trained instead: n
# times cheaper if a stream has a target at every token. Only `nystrom` differs: its segments are those of the window.
TWINS = {record.roles.middle: record.name for record in RECORDS if record.roles and not record.plain}

RIDGE = 0.1  # default of λ

FULL = tuple(record.name for record in RECORDS if not record.low_rank)
FIXED = tuple(record.name for record in RECORDS if record.fixed)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One model with one setting.

    Args:
        task: "gtzan", "thumos14" or "electricity".
        model: One of `MODELS`, by the variant of its last block.
        layers: Number of blocks.
        landmarks: Number of landmarks m; None for full attention.
        window, embed_dim, num_heads: The window n, the width d and the number of heads.
        pinv, pinv_ridge: The inverse of Γ with fixed landmarks. Phase one always uses the paper's.
        method: How fixed landmarks are fitted, as in `fit_landmarks`.
        learned: Whether fixed landmarks are trained further, starting from the cluster centres.
        distilled: Whether the model also learns from one with full attention.
        protocol: How data are split: "splits" or "filtered" (GTZAN), "seeds" (the others).
        tokens: "paper", or "lags" for the richer tokens of electricity.
        stack: For several blocks: "paper" gives the output of the window model; in "deep", every block streams.
    """

    task: str
    model: str
    layers: int
    landmarks: int | None
    window: int
    embed_dim: int
    num_heads: int
    pinv: str = "newton"
    pinv_ridge: float = RIDGE
    method: Literal["qk", "x"] = "qk"
    learned: bool = False
    distilled: bool = False
    protocol: str = "splits"
    tokens: str = "paper"
    stack: Literal["paper", "deep"] = "paper"

    def __post_init__(self) -> None:
        one_of("model", self.model, tuple(MODELS))
        one_of("pinv", self.pinv, PINVS)
        one_of("method", self.method, ("qk", "x"))
        for name in ("layers", "window", "embed_dim", "num_heads"):
            positive_int(name, getattr(self, name))
        none_or_some = "none" if self.model in FULL else "at least 1"
        if (self.landmarks is None) != (self.model in FULL):
            raise ValueError(
                f"landmarks={self.landmarks!r} does not fit model {self.model!r}, which has {none_or_some}"
            )
        if self.landmarks is not None and not 1 <= self.landmarks <= self.window:
            raise ValueError(f"landmarks={self.landmarks} must be 1 to {self.window}, the window")
        changed = self.pinv != "newton" or self.method != "qk" or self.learned
        if changed and self.model not in FIXED:
            raise ValueError(f"model {self.model!r} has no fixed landmarks, which pinv, method and learned are for")
        number("pinv_ridge", self.pinv_ridge)
        if not 0 < self.pinv_ridge < math.inf:
            raise ValueError(f"pinv_ridge={self.pinv_ridge!r} must be greater than 0 and finite")
        if self.pinv_ridge != RIDGE and self.pinv != "ridge":
            raise ValueError(f"pinv_ridge={self.pinv_ridge!r} is for pinv='ridge', but pinv is {self.pinv!r}")
        if self.pinv == "none" and self.method == "qk":
            raise ValueError("pinv='none' needs pairs of landmarks: method='x'")
        one_of("stack", self.stack, ("paper", "deep"))
        if self.stack == "deep" and not (self.layers > 1 and self.model in TWINS.values()):
            raise ValueError(
                f"stack='deep' is for continual models of several blocks, not for {self.layers} of {self.model!r}"
            )
        if self.distilled and self.model in FULL:
            raise ValueError(f"distilled: model {self.model!r} has full attention, which is the teacher")

    @property
    def fixed(self) -> bool:
        return self.model in FIXED

    @property
    def twin(self) -> Cell:
        """The continual cell whose training this one shares."""
        return dataclasses.replace(self, model=TWINS.get(self.model, self.model))

    @property
    def teacher(self) -> Cell:
        """The continual cell with full attention that is otherwise the same."""
        return dataclasses.replace(self.phase_one, model="co-full-single", landmarks=None, distilled=False)

    @property
    def phase_one(self) -> Cell:
        """The cell whose training is the first phase of this one, with the inverse of the paper."""
        model = variants.continual_form(self.twin.model) if self.fixed else self.twin.model
        return dataclasses.replace(self, model=model, pinv="newton", pinv_ridge=RIDGE, method="qk", learned=False)

    def named(self, usual: Cell) -> str:
        """A name for files: the model, and what differs from the `usual` cell of the same model and depth."""
        parts = [self.task, str(self.layers), variants.get(self.model).family]
        for field, letter in (("window", "n"), ("embed_dim", "d"), ("num_heads", "h"), ("landmarks", "m")):
            if getattr(self, field) != getattr(usual, field):
                parts.append(f"{letter}{getattr(self, field)}")
        if self.pinv == "ridge":
            short = f"{self.pinv_ridge:g}"
            parts.append(f"ridge{short if float(short) == self.pinv_ridge else repr(self.pinv_ridge)}")
        elif self.pinv != usual.pinv:
            parts.append(self.pinv if self.pinv != "none" else "noinverse")
        if self.method != usual.method:
            parts.append(f"by-{self.method}")
        parts += [name for name in ("learned", "distilled") if getattr(self, name)]
        parts += ["deep"] * (self.stack == "deep")
        parts += [value for value in (self.protocol, self.tokens) if value not in (usual.protocol, usual.tokens)]
        return "-".join(parts)

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def grid(
    usual: Cell,
    models: Sequence[str],
    layers: Sequence[int],
    landmarks: Sequence[int | None] = (None,),
    settings: Sequence[dict[str, Any]] = ({},),
) -> Iterator[Cell]:
    """All requested cells without duplicates; those that share a training follow each other.

    In `landmarks`, None is the usual m. Each of the `settings` changes fields of the cells that it applies to: another
    inverse and learned landmarks apply to fixed landmarks, distillation to all landmarks, and the deep stack to
    continual models of several blocks.
    """
    families = list(TWINS.values())
    order = sorted(models, key=lambda model: families.index(str(TWINS.get(model, model))))
    cells: dict[Cell, None] = {}
    for depth in layers:
        for m in landmarks:
            for model in order:
                landmark_count = None if model in FULL else usual.landmarks if m is None else m
                for setting in settings:
                    if _applies(model, depth, setting):
                        changes = {"model": model, "layers": depth, "landmarks": landmark_count, **setting}
                        cells[dataclasses.replace(usual, **changes)] = None
    yield from cells


def _applies(model: str, layers: int, setting: dict[str, Any]) -> bool:
    if setting.get("stack") == "deep" and not (layers > 1 and model in TWINS.values()):
        return False
    if model not in FIXED and any(setting.get(name) for name in ("pinv", "pinv_ridge", "method", "learned")):
        return False
    return not (model in FULL and setting.get("distilled"))

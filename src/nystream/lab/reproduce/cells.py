"""Cells: a cell is one model with one setting, trained and scored over all splits and seeds."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from nystream import variants
from nystream.config.attention import PINVS
from nystream.config.checks import boolean, number, one_of, positive_int, probability

# The paper's names of its six models, in the order of its tables.
RECORDS = [record for record in map(variants.get, variants.VARIANTS) if record.last_block]
MODELS: dict[str, str] = {record.name: record.symbol or record.name for record in RECORDS}

# Recurrent models, for comparison.
RIVALS: dict[str, str] = {"gru": "GRU", "lstm": "LSTM"}

# A plain model computes over a window what its continual twin computes over a stream, so the twin is trained instead: n
# times cheaper if a stream has a target at every token. Only `nystrom` differs: its segments are those of the window.
TWINS = {record.roles.middle: record.name for record in RECORDS if record.roles and not record.plain}

RIDGE = 0.1  # default of λ

FULL = tuple(record.name for record in RECORDS if not record.low_rank)
FIXED = tuple(record.name for record in RECORDS if record.fixed)
CONTINUAL = tuple(TWINS.values())

# Fields that came later. They are left out of a cell's dictionary at their defaults, so that older records and work
# folders still belong to the same cells.
LATER: dict[str, Any] = {
    "decay": False, "at_once": False, "transferred": False, "windows": None, "dropout": None, "one_scale": False,
}  # fmt: skip


class InapplicableError(ValueError):
    """A setting that the model of a cell does not have; `rule` says which models have it."""

    def __init__(self, rule: str, cell: Cell) -> None:
        blocks = "1 block" if cell.layers == 1 else f"{cell.layers} blocks"
        super().__init__(f"{rule}, not for {blocks} of {cell.model!r}")
        self.rule = rule


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One model with one setting.

    Args:
        task: "gtzan", "thumos14" or "electricity".
        model: One of `MODELS`, by the variant of its last block, or one of `RIVALS`.
        layers: Number of blocks, or of recurrent layers.
        landmarks: Number of landmarks m; None for full attention and recurrent models.
        window, embed_dim, num_heads: The window n, the width d and the number of heads. Recurrent models have only the
            width; like the others, they are scored and trained from token n on if the task says so.
        pinv, pinv_ridge: The inverse of Γ with fixed landmarks. Phase one always uses the paper's.
        method: How fixed landmarks are fitted, as in `fit_landmarks`.
        learned: Whether fixed landmarks are trained further, starting from the cluster centres.
        distilled: Whether the model also learns from one with full attention. For full attention itself, that is
            another model of the same kind, with other initial weights.
        protocol: How data are split: "splits" or "filtered" (GTZAN), "seeds" (the others).
        tokens: "paper", or "lags" for the richer tokens of electricity.
        stack: For several blocks: "paper" gives the output of the window model; in "deep", every block streams.
        decay: Whether recent tokens weigh more, as in `AttentionConfig`. These models have no positions.
        at_once: Whether the landmarks of all blocks are fixed at once, after a first phase with full attention that
            takes a quarter of the epochs, rather than block after block and late, as in the paper.
        transferred: With `at_once`, whether each block's attention first learns to give what full attention gave.
        windows: One window per block of a deep stack; `window` is the largest of them.
        dropout: Dropout; None for that of the task.
        one_scale: Whether inputs are scaled by one number, so that they keep their relative size, and not each by its
            own.
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
    decay: bool = False
    at_once: bool = False
    transferred: bool = False
    windows: tuple[int, ...] | None = None
    dropout: float | None = None
    one_scale: bool = False

    def __post_init__(self) -> None:
        one_of("model", self.model, (*MODELS, *RIVALS))
        one_of("pinv", self.pinv, PINVS)
        one_of("method", self.method, ("qk", "x"))
        for name in ("layers", "window", "embed_dim", "num_heads"):
            positive_int(name, getattr(self, name))
        without = self.model in FULL or self.recurrent
        if (self.landmarks is None) != without:
            raise ValueError(
                f"landmarks={self.landmarks!r} does not fit model {self.model!r}, which has "
                f"{'none' if without else 'at least 1'}"
            )
        if self.landmarks is not None and not 1 <= self.landmarks <= self.window:
            raise ValueError(f"landmarks={self.landmarks} must be 1 to {self.window}, the window")
        self._check_inverse()
        self._check_stack()
        if self.dropout is not None:
            probability("dropout", self.dropout)
            object.__setattr__(self, "dropout", float(self.dropout))

    def _check_inverse(self) -> None:
        if (self.pinv != "newton" or self.method != "qk" or self.learned) and self.model not in FIXED:
            raise InapplicableError("pinv and learned are for fixed landmarks", self)
        number("pinv_ridge", self.pinv_ridge)
        if not 0 < self.pinv_ridge < math.inf:
            raise ValueError(f"pinv_ridge={self.pinv_ridge!r} must be greater than 0 and finite")
        if self.pinv_ridge != RIDGE and self.pinv != "ridge":
            raise ValueError(f"pinv_ridge={self.pinv_ridge!r} is for pinv='ridge', but pinv is {self.pinv!r}")
        if self.pinv == "none" and self.method == "qk":
            raise ValueError("pinv='none' needs pairs of landmarks: method='x'")

    def _check_stack(self) -> None:
        one_of("stack", self.stack, ("paper", "deep"))
        boolean("decay", self.decay)
        boolean("at_once", self.at_once)
        boolean("transferred", self.transferred)
        boolean("one_scale", self.one_scale)
        if self.stack == "deep" and not (self.layers > 1 and self.model in CONTINUAL):
            raise InapplicableError("stack='deep' is for continual models of several blocks", self)
        if self.decay and not (self.model in CONTINUAL and (self.layers == 1 or self.stack == "deep")):
            raise InapplicableError("decay is for continual models of one block, or of several with stack='deep'", self)
        if self.at_once and not (self.fixed and (self.layers == 1 or self.stack == "deep")):
            raise InapplicableError("at_once is for fixed landmarks in one block or a deep stack", self)
        if self.transferred and not self.at_once:
            raise ValueError("transferred=True is for at_once=True")
        if self.windows is None:
            return
        object.__setattr__(self, "windows", tuple(self.windows))
        for window in self.windows:
            positive_int("windows", window)
        if self.stack != "deep":
            raise ValueError(f"windows={self.windows} is for stack='deep', but stack is {self.stack!r}")
        if len(self.windows) != self.layers:
            raise InapplicableError(f"windows={self.windows} is for {len(self.windows)} blocks", self)
        if self.window != max(self.windows):
            raise ValueError(f"window={self.window} must be the largest of windows={self.windows}")
        if len(set(self.windows)) == 1:
            raise ValueError(f"windows={self.windows} are all the same; give window={self.window} alone")
        if self.landmarks is not None and self.landmarks > min(self.windows):
            raise ValueError(f"landmarks={self.landmarks} must be at most {min(self.windows)}, the smallest window")

    @property
    def fixed(self) -> bool:
        return self.model in FIXED

    @property
    def recurrent(self) -> bool:
        return self.model in RIVALS

    @property
    def twin(self) -> Cell:
        """The continual cell whose training this one shares."""
        return dataclasses.replace(self, model=TWINS.get(self.model, self.model))

    @property
    def teacher(self) -> Cell:
        """The cell that a distilled one learns from: the continual one with full attention that is otherwise the same.

        The teacher of a recurrent model has one block, and the setting of the table.
        """
        changes: dict[str, Any] = {"model": "co-full-single", "landmarks": None, "distilled": False}
        if self.recurrent:
            changes |= {"layers": 1, "dropout": None}
        return dataclasses.replace(self.phase_one, **changes)

    @property
    def phase_one(self) -> Cell:
        """The cell whose training is the first phase of this one, with the inverse of the paper."""
        changes: dict[str, Any] = {"pinv": "newton", "pinv_ridge": RIDGE, "method": "qk", "learned": False}
        changes |= {"model": self.twin.model, "at_once": False, "transferred": False}
        if self.at_once:
            changes |= {"model": "co-full-single", "landmarks": None}
        elif self.fixed:
            changes["model"] = variants.continual_form(self.twin.model)
        return dataclasses.replace(self, **changes)

    def named(self, usual: Cell) -> str:
        """A name for files: the model, and what differs from the `usual` cell of the same model and depth."""
        parts = [self.task, str(self.layers), self.model if self.recurrent else variants.get(self.model).family]
        for field, letter in (("window", "n"), ("embed_dim", "d"), ("num_heads", "h"), ("landmarks", "m")):
            if field == "window" and self.windows:
                parts.append("n" + "-".join(map(str, self.windows)))
            elif getattr(self, field) != getattr(usual, field):
                parts.append(f"{letter}{getattr(self, field)}")
        if self.pinv == "ridge":
            parts.append(f"ridge{_short(self.pinv_ridge)}")
        elif self.pinv != usual.pinv:
            parts.append(self.pinv if self.pinv != "none" else "noinverse")
        if self.method != usual.method:
            parts.append(f"by-{self.method}")
        parts += [name for name in ("learned", "distilled") if getattr(self, name)]
        parts += ["deep"] * (self.stack == "deep") + ["decay"] * self.decay + ["at-once"] * self.at_once
        parts += ["transferred"] * self.transferred
        parts += [] if self.dropout is None else [f"dropout{_short(self.dropout)}"]
        parts += ["one-scale"] * self.one_scale
        parts += [value for value in (self.protocol, self.tokens) if value not in (usual.protocol, usual.tokens)]
        return "-".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values, without later ones that have their defaults."""
        fields = {
            name: value for name, value in dataclasses.asdict(self).items() if name not in LATER or value != LATER[name]
        }
        return fields | ({"windows": list(self.windows)} if self.windows else {})


def _short(value: float) -> str:
    """A number for names: as short as possible, and another number has another name."""
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


class Grid(NamedTuple):
    """The requested cells, and the (model, layers) that no setting applies to, by the rule that says why."""

    cells: list[Cell]
    left_out: dict[str, list[tuple[str, int]]]


def grid(
    usual: Cell,
    models: Sequence[str],
    layers: Sequence[int],
    landmarks: Sequence[int | None] = (None,),
    settings: Sequence[dict[str, Any]] = ({},),
) -> Grid:
    """All requested cells without duplicates; those that share a training follow each other.

    In `landmarks`, None is the usual m. Each of the `settings` changes fields of the cells that it applies to.
    """
    families = [*CONTINUAL, *RIVALS]
    order = sorted(models, key=lambda model: families.index(str(TWINS.get(model, model))))
    cells: dict[Cell, None] = {}
    rules: dict[tuple[str, int], str] = {}
    for depth in layers:
        for m in landmarks:
            for model in order:
                without = model in FULL or model in RIVALS
                landmark_count = None if without else usual.landmarks if m is None else m
                for setting in settings:
                    changes = {"model": model, "layers": depth, "landmarks": landmark_count, **setting}
                    try:
                        cells[dataclasses.replace(usual, **changes)] = None
                    except InapplicableError as error:
                        rules.setdefault((model, depth), error.rule)
    left_out: dict[str, list[tuple[str, int]]] = {}
    there = {(cell.model, cell.layers) for cell in cells}
    for key, rule in rules.items():
        if key not in there:
            left_out.setdefault(rule, []).append(key)
    return Grid(list(cells), left_out)

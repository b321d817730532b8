"""The settings of a training run: the options of `nystream train`, and the fields of its config file."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import json
import math
import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from nystream.config.checks import fields_of, one_of, positive_int, whole
from nystream.config.option import option
from nystream.data.forecast_options import horizon_setting, quantiles_setting
from nystream.data.option_groups import (
    ClassOptions,
    HeldOutOptions,
    ModelOptions,
    Names,
    TableOptions,
    TaskName,
    Variant,
)
from nystream.data.reader import Policy
from nystream.data.timestamps.zone import find_zone

LISTS = ("source", "target", "time", "columns", "categorical", "known", "units", "split")
# Comments in the config file of a run. The fingerprint of its data follows the first. Runs of older versions lack the
# second: their epochs are those of the first phase.
DATA, ALL_PHASES = "# tokens and targets ", "# epochs are those of all phases together\n"
CONFIG = "config.toml"  # in a run folder
WORDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


@dataclass(kw_only=True)
class SourceOption:
    """What to train on."""

    source: Names = option(
        "",
        "A table (.csv, .parquet), several tables or a folder of tables, each of which is a series, a folder of "
        "feature files (.npy, .npz), or a folder with one subfolder of audio files per class. It can be given in the "
        "config file instead.",
        "SOURCE",
    )


@dataclass(kw_only=True)
class Settings(ModelOptions, ClassOptions, HeldOutOptions, TableOptions, SourceOption):
    """The settings of one training run.

    The options of `nystream train` are these fields, with the same help.
    """

    # 0 is torch's number, as in Python; with -1 two updates are timed, and the faster number becomes that of the run.
    threads: int = option(0, "Number of torch threads on a CPU.", "N", "torch's default or 1, whichever is faster")

    def __post_init__(self) -> None:
        if not self.source:
            raise ValueError("source is missing: give a table, or a folder of feature files or of audio")
        self.horizon, self.quantiles = horizon_setting(self.horizon), quantiles_setting(self.quantiles)
        if math.isnan(self.minimum) or self.minimum == math.inf:
            raise ValueError(f"minimum={self.minimum} must be a number, or -inf for none")
        for field in dataclasses.fields(self):
            value, wanted = getattr(self, field.name), type(field.default)
            if field.name in ("decay", "linear") and isinstance(value, bool):  # as YAML reads yes and no
                value = "yes" if value else "no"
                setattr(self, field.name, value)
            if field.name in LISTS and isinstance(value, list | tuple):
                setattr(self, field.name, tuple(map(str, value)))
            elif wanted is float and isinstance(value, int) and not isinstance(value, bool):
                setattr(self, field.name, float(value))
            elif type(value) is not wanted and field.name != "horizon":
                given = WORDS.get(type(value), f"a {type(value).__name__}")
                raise TypeError(f"{field.name}={value!r} must be {WORDS[wanted]}, not {given}")
        for name, choices in (
            ("missing", get_args(Policy)),
            ("gaps", get_args(Policy)),
            ("task", get_args(TaskName)),
            ("variant", get_args(Variant)),
            ("stack", ("deep", "paper")),
            ("decay", ("auto", "yes", "no")),
            ("recipe", ("auto", "early", "paper")),
            ("linear", ("auto", "yes", "no")),
            ("decimal", ("", ".", ",")),
        ):
            one_of(name, getattr(self, name), choices)
        for name in ("skip_lines", "skip_end"):
            whole(name, getattr(self, name))
        if self.timezone:
            find_zone(self.timezone)
        for name in ("embed_dim", "num_heads", "batch_size"):
            positive_int(name, getattr(self, name))
        for name in ("window", "landmarks", "layers", "epochs", "hop", "seed"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}={getattr(self, name)} must be at least {0 if name == 'seed' else 1}")

        for name in ("dropout", "weight_decay", "patience", "threads"):
            value, most = getattr(self, name), 1.0 if name == "dropout" else math.inf
            if value != -1 and not 0 <= value < most:
                raise ValueError(f"{name}={value} must be at least 0{' and below 1' if name == 'dropout' else ''}")

    def to_toml(self) -> str:
        return ALL_PHASES + "".join(f"{name} = {_toml(value)}\n" for name, value in dataclasses.asdict(self).items())


def read_config(path: Path) -> dict[str, Any]:
    """Read the fields of a TOML or YAML config file; unknown fields are an error."""
    if not path.is_file():
        raise FileNotFoundError(f"config={path} is not a file")
    text = path.read_text(encoding="utf-8")
    try:
        if path.suffix.lower() in (".yaml", ".yml"):
            import yaml

            try:
                fields = _with_floats(yaml.safe_load(text))
            except yaml.YAMLError as error:
                raise ValueError(str(error)) from error
        elif path.suffix.lower() == ".toml":
            fields = tomllib.loads(text)
        else:
            raise ValueError("its name must end in .toml, .yaml or .yml")
        fields = fields_of(Settings, fields, "it")
    except ValueError as error:
        raise ValueError(f"config={path} cannot be used: {error}") from error
    if DATA in text:  # of a run, perhaps by an older version
        fields = {"decay": "no", "recipe": "paper", "linear": "no"} | fields
        if ALL_PHASES not in text and fields.get("variant") == "co-fixed":
            fields["epochs"] += fields.get("layers", 1) * max(1, fields["epochs"] // 2)
    return fields


def paths_in(source: Names) -> tuple[Path, ...]:
    """The paths of a source: one, or those of several tables."""
    return tuple(map(Path, (source,) if isinstance(source, str) else source))


def names_in(given: Names, known: Collection[str] = ()) -> tuple[str, ...]:
    """Split a list such as a,b into names; a name in quotes, or one that is in `known`, may contain commas."""
    if isinstance(given, tuple):
        return given
    if given and given in known:  # "" is no name, even if a column has none
        return (given,)
    fields = next(csv.reader([given], skipinitialspace=True), [])
    return tuple(name.strip() for name in fields if name.strip())


def _toml(value: Any) -> str:
    """A value as TOML, which differs from JSON in surrogate pairs, infinity and the character DEL."""
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _with_floats(fields: Any) -> Any:
    """Convert text to a number where a float is needed: YAML reads 3.0e-3 as a number, but 3e-3 as text."""
    for field in dataclasses.fields(Settings):
        if isinstance(fields, dict) and type(field.default) is float and isinstance(fields.get(field.name), str):
            with contextlib.suppress(ValueError):
                fields[field.name] = float(fields[field.name])
    return fields

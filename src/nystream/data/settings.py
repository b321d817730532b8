"""A run in a few fields: what `nystream train` takes as options, and what its config file holds."""

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
from typing import Any, Literal, get_args

from nystream.config.checks import fields_of, one_of, positive_int
from nystream.data.reader import Policy

Variant = Literal["co-fixed", "co-cont", "co-full"]
TaskName = Literal["auto", "classification", "detection"]
Names = str | tuple[str, ...]  # with commas between them, or one by one

LISTS = ("target", "columns", "categorical", "units")
# Comments in the config file of a run: what data it was on follows the first. Runs of older versions lack the second:
# their epochs are those of the first phase.
DATA, ALL_PHASES = "# tokens and targets ", "# epochs are those of all phases together\n"
WORDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One training run; 0 and "" stand for what is chosen from the data.

    Args:
        source: a table (.csv, .parquet), a folder of feature files (.npy, .npz), or a folder of audio for each class.
        target: columns to forecast: a name, several with commas between them, or a list of names.
        horizon: how many rows ahead.
        time: the column that says when a row was measured; found unless told, "none" for none.
        time_format: how times are written, as for Python's strptime; found unless told.
        decimal: what stands before the fraction of a number, "." or ","; found unless told.
        columns: what a token is made of; every column that can be used unless told.
        categorical: columns of numbers that are categories.
        units: of the targets, as these are given.
        missing: what is done about an empty field.
        gaps: what is done about rows that are missing in time.
        task: of a folder of feature files; found from its labels unless told.
        background: the class that is not to be detected, if there is one.
        seconds: of an audio file, at most; the rest is left away.
        window: tokens n that the model looks back on.
        landmarks: m, at most `window`; 4 unless told, fewer in a shorter window. co-full has none.
        variant: co-fixed (two phases of training), co-cont or co-full.
        embed_dim: width of the model.
        num_heads: heads of its attention.
        layers: blocks.
        stack: of several blocks, "deep" or "paper".
        teacher: a run folder or model folder of another model on the same data, to learn from too.
        epochs: of all phases of training together; 18 unless told.
        lr: largest learning rate.
        batch_size: pieces of streams an update.
        seed: of weights, splits of files and the order of the data.
        device: cpu, cuda, or auto: cuda where there is a GPU.
    """

    source: str = ""
    target: Names = ""
    horizon: int = 1
    time: str = ""
    time_format: str = ""
    decimal: str = ""
    columns: Names = ""
    categorical: Names = ""
    units: Names = ""
    missing: Policy = "fail"
    gaps: Policy = "fail"
    task: TaskName = "auto"
    background: str = ""
    seconds: float = 30.0
    window: int = 0
    landmarks: int = 0
    variant: Variant = "co-fixed"
    embed_dim: int = 64
    num_heads: int = 4
    layers: int = 1
    stack: Literal["deep", "paper"] = "deep"
    teacher: str = ""
    epochs: int = 0
    lr: float = 3e-3
    batch_size: int = 8
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        if not self.source:
            raise ValueError("source is missing: give a table, or a folder of feature files or of audio")
        for field in dataclasses.fields(self):
            value, wanted = getattr(self, field.name), type(field.default)
            if field.name in LISTS and isinstance(value, list | tuple):
                object.__setattr__(self, field.name, tuple(map(str, value)))
            elif wanted is float and isinstance(value, int) and not isinstance(value, bool):
                object.__setattr__(self, field.name, float(value))
            elif type(value) is not wanted:
                given = WORDS.get(type(value), f"a {type(value).__name__}")
                raise TypeError(f"{field.name}={value!r} must be {WORDS[wanted]}, not {given}")
        for name, choices in (
            ("missing", get_args(Policy)),
            ("gaps", get_args(Policy)),
            ("task", get_args(TaskName)),
            ("variant", get_args(Variant)),
            ("stack", ("deep", "paper")),
            ("decimal", ("", ".", ",")),
        ):
            one_of(name, getattr(self, name), choices)
        for name in ("horizon", "embed_dim", "num_heads", "layers", "batch_size"):
            positive_int(name, getattr(self, name))
        for name in ("window", "landmarks", "epochs", "seed"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}={getattr(self, name)} must be at least {0 if name == 'seed' else 1}")

    def to_toml(self) -> str:
        return ALL_PHASES + "".join(f"{name} = {_toml(value)}\n" for name, value in dataclasses.asdict(self).items())


def read_config(path: Path) -> dict[str, Any]:
    """The fields of a config file, TOML or YAML; what is not known is refused."""
    if not path.is_file():
        raise FileNotFoundError(f"config={path} is not a file")
    text = path.read_text(encoding="utf-8")
    try:
        if path.suffix.lower() in (".yaml", ".yml"):
            import yaml

            try:
                held = _numbers(yaml.safe_load(text))
            except yaml.YAMLError as error:
                raise ValueError(str(error)) from error
        elif path.suffix.lower() == ".toml":
            held = tomllib.loads(text)
        else:
            raise ValueError("its name must end in .toml, .yaml or .yml")
        return _with_all_epochs(fields_of(Settings, held, "it"), text)
    except ValueError as error:
        raise ValueError(f"config={path} cannot be used: {error}") from error


def names_in(given: Names, known: Collection[str] = ()) -> tuple[str, ...]:
    """The names of a list like a,b; one that is `known` as it is written, or stands in quotes, may have commas."""
    if isinstance(given, tuple):
        return given
    if given and given in known:  # nothing given is no name, though a column may have none
        return (given,)
    fields = next(csv.reader([given], skipinitialspace=True), [])
    return tuple(name.strip() for name in fields if name.strip())


def _with_all_epochs(held: dict[str, Any], text: str) -> dict[str, Any]:
    """The fields of a config file, where a run of an older version wrote it with the epochs of all its phases."""
    if DATA not in text or ALL_PHASES in text or held.get("variant") != "co-fixed":
        return held
    epochs = held["epochs"]
    return held | {"epochs": epochs + held.get("layers", 1) * max(1, epochs // 2)}


def _toml(value: Any) -> str:
    """A value of a field as TOML has it, which knows no pairs of surrogates and does not spell out infinity."""
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _numbers(held: Any) -> Any:
    """YAML's text that is a number, where a number is needed: it takes 3e-3 for text, and 3.0e-3 for a number."""
    if not isinstance(held, dict):
        return held
    floats = {field.name for field in dataclasses.fields(Settings) if type(field.default) is float}
    found = {}
    for name, value in held.items():
        if name in floats and isinstance(value, str):
            with contextlib.suppress(ValueError):
                value = float(value)
        found[name] = value
    return found

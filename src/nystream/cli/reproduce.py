"""`nystream reproduce`: train and score the models of the paper's tables and figures."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from tyro.conf import Positional

from nystream.cli.bench import numbers
from nystream.cli.options import plain_option, typed
from nystream.config.option import option, option_of
from nystream.data.settings import Settings
from nystream.data.table import counted
from nystream.files import require_folder
from nystream.lab.reproduce import store
from nystream.lab.reproduce.cells import FIXED, FULL, MODELS, RIVALS, Grid, grid
from nystream.lab.reproduce.cluster import on_ray
from nystream.lab.reproduce.job import Job, data_folder
from nystream.lab.reproduce.problems import PaperProblem, problem
from nystream.lab.reproduce.run import Outcome, Runner, baselines, left, one_by_one, run
from nystream.lab.reproduce.steps import time_steps
from nystream.lab.rivals import steppers
from nystream.landmarks import kmeans
from nystream.models import pretrained
from nystream.variants.registry import nearest

AS_IN_TABLE, FEW, CHOSEN = "as in the table", "few, for a laptop", "chosen on validation data"
SIZES = ("window", "embed_dim", "num_heads")
COUNTS = ("splits", "seeds", "epochs", "batch_size", "piece", "context", "threads")
SHORT = {name.lower(): variant for variant, name in MODELS.items()}  # att, co, ny, ny-fix, cony-cont, cony-fix
NAMES = {variant: short for short, variant in SHORT.items()} | {rival: rival for rival in RIVALS}


@dataclass
class Reproduce:
    """Train and score the models of one of the paper's tables, and write one record per cell to results/.

    A cell is one model with one setting, trained once per split of the data and seed. Cells that are done are not run
    again: run the same command to resume. `nystream report` makes tables and plots from the records.

    Examples:
        nystream reproduce gtzan                    # a first look, on a laptop
        nystream reproduce gtzan --splits 5 --seeds 5      # the paper's protocol
        nystream reproduce gtzan --models cony-fix --layers 1 --landmarks 2,4,8,16
    """

    task: Positional[Literal["gtzan", "thumos14", "electricity"]] = option(
        help="gtzan: music genres; thumos14: actions in videos; electricity: demand one hour ahead."
    )
    data: Path | None = option(None, "Folder with the data sets.", "FOLDER", "$NYSTREAM_DATA")
    models: str = option(
        ",".join(SHORT),
        "Models of the table, by the paper's names or as variants (co-fixed-single). att: full attention; co: "
        "continual; ny: low rank; ny-fix: with fixed landmarks; cony-cont, cony-fix: the same two, continual; all: "
        "these six. gru, lstm: recurrent models of the same width, for comparison.",
        "LIST",
        "all",
    )
    layers: str = option("", "Numbers of blocks, or of recurrent layers, such as 1,2.", "LIST", AS_IN_TABLE)
    landmarks: str = option(
        "", "Numbers of landmarks m, such as 2,4,8,16,32,64 for the paper's figures.", "LIST", AS_IN_TABLE
    )
    splits: int = option(
        0, "Number of splits of the data: 5 in the paper, 1 for electricity, which is split by time.", "N", FEW
    )
    seeds: int = option(0, "Number of seeds per split, trained together: 5 in the paper.", "N", FEW)
    epochs: int = option(0, "Number of epochs, the same for all models.", "N", CHOSEN)
    lr: float = option(0.0, "Learning rate.", "RATE", CHOSEN)
    batch_size: int = option(0, "Number of windows, or pieces of streams, per update.", "N", CHOSEN)
    piece: int = option(0, "Length of the pieces of streams, in tokens.", "N", CHOSEN)
    context: int = option(
        0, "Number of tokens that are read before each piece, without a loss.", "N", "0: a piece starts a new state"
    )
    weight_decay: float | None = option(None, "Weight decay.", "NUMBER", CHOSEN)
    dropout: float | None = option(None, "Dropout.", "NUMBER", CHOSEN)
    pinv: str = option(
        "newton",
        "One or several inverses of Γ for fixed landmarks: newton (the paper's), exact, ridge, none. All but newton "
        "are run only for models with fixed landmarks.",
        "LIST",
    )
    ridge: str = option("0.1", "One or several λ for the inverse ridge, such as 0.03,0.1.", "LIST")
    learned: bool = option(
        False, "Run only models with fixed landmarks, and train the landmarks further, from the cluster centres."
    )
    distilled: bool = option(
        False,
        "Let the models also learn from one with full attention, which learns from another one of its kind.",
    )
    stack: str = option(
        "paper",
        "How several blocks stream: paper gives the same output as applying the model to the window; deep, for "
        "continual models only, gives each block its own window, which is much cheaper but a different function.",
        "paper|deep",
    )
    windows: str = option(
        "", "One window per block of a deep stack, such as 16,64,256; the number of blocks follows.", "LIST", "equal"
    )
    decay: bool = option(
        False,
        "Run only continual models, of one block or deep, and let recent tokens weigh more, in place of positions.",
    )
    at_once: bool = option(
        False,
        "Run only fixed landmarks, in one block or deep: train with full attention for a quarter of the epochs, then "
        "fix the landmarks of all blocks at once.",
    )
    transferred: bool = option(
        False, "With at-once, let each block's attention first learn to give what full attention gave."
    )
    one_scale: bool = option(
        False, "Scale all inputs by one number, so that they keep their relative size, and not each by its own."
    )
    window: int = option(0, "Window length n.", "N", AS_IN_TABLE)
    embed_dim: int = option(0, "Width d of the model.", "D", AS_IN_TABLE)
    num_heads: int = option(0, "Number of attention heads.", "H", AS_IN_TABLE)
    protocol: str = option(
        "", "How the data are split; filtered is the fault-filtered split of GTZAN.", "NAME", AS_IN_TABLE
    )
    tokens: str = option(
        "paper",
        "Tokens of electricity: lags adds the values of a day and a week ago, and makes the change the target.",
        "paper|lags",
    )
    device: str = option_of(Settings, "device", "auto")
    threads: int = option(0, "Number of torch threads on a CPU.", "N", "torch's default")
    ray: str | None = option(
        None,
        "Send the cells to the Ray cluster at this address: auto (the one this machine is part of), HOST:6379, "
        "ray://HOST:10001, or local to start one here. All machines need nystream, the same data folder, and a shared "
        "work folder.",
        "ADDRESS",
    )
    gpus_per_cell: float = option(
        1.0, "Share of a GPU per cell on a Ray cluster; with 0.25, four cells share a GPU.", "SHARE"
    )
    results: Path = option(Path("results"), "Folder for the records, one file per cell.", "FOLDER")
    work: Path = option(
        Path("runs"), "Folder for checkpoints and trained models, from which a stopped run resumes.", "FOLDER"
    )
    again: bool = option(
        False, "Score finished cells again, and replace their records. Trained models are taken from the work folder."
    )
    steps: bool = option(True, "Do not measure the time per step of every cell on this machine.")
    steps_again: bool = option(False, "Measure the time per step again, also of cells that have it.")
    plain: bool = plain_option()

    def run(self) -> None:
        show = False if self.plain else None
        self.check()
        grid = self.grid(problem(self.task))
        jobs = self.jobs(grid, show)
        todo = left(jobs, self.results, self.again)
        if todo:
            pretrained.require()
        if any(job.cell.model in FIXED for job in todo):
            kmeans.require()
        if self.steps and any(job.cell.recurrent for job in jobs):
            steppers.require()
        for name in ("results", "work") if todo else ():
            require_folder(name, getattr(self, name))
        print(self.heading(jobs, len(jobs) - len(todo)), flush=True)
        if grid.left_out:
            print(f"left out: {left_out(grid)}", flush=True)
        runner: Runner = one_by_one
        if self.ray is not None:
            runner = partial(on_ray, address=self.ray, gpus=self.gpus_per_cell)
        try:
            baselines(jobs[0], self.results, self.again)
            outcomes = run(todo, self.results, runner, _say, show) if todo else []
            if self.steps:
                self.time(jobs, show)
        except KeyboardInterrupt as stop:
            done = f"finished cells are in {self.results} and {self.work}; run the same command to resume"
            raise type(stop)(done) from stop
        failed = [outcome for outcome in outcomes if outcome.record is None]
        if failed:
            self.work.mkdir(parents=True, exist_ok=True)
            traces = self.work / "errors.txt"
            traces.write_text("\n".join(f"{cell.name}\n{cell.trace}" for cell in failed), encoding="utf-8")
            raise RuntimeError(
                f"{len(failed)} of {len(jobs)} cells failed ({', '.join(cell.name for cell in failed)}), see {traces}; "
                f"the others are in {self.results}; run the same command to try these again"
            )
        print(f"{counted(len(jobs), 'record')} in {self.results}; nystream report makes tables and plots from them")

    def heading(self, jobs: Sequence[Job], done: int) -> str:
        job = jobs[0]
        runs = f"{counted(job.splits, 'split')} x {counted(job.seeds, 'seed')}"
        where = f"on {job.device}" if self.ray is None else f"by Ray ({self.ray}, {job.device})"
        return f"{self.task}: {counted(len(jobs), 'cell')} of {runs} {where}, {done} of them done"

    def time(self, jobs: Sequence[Job], show: bool | None) -> None:
        """Measure the steps of all cells in turns, unless all of them have been measured."""
        records = [store.read(self.results, job.name) for job in jobs]
        done = [record for record in records if record is not None]
        if done and (self.steps_again or any(record.get("step") is None for record in done)):
            for record in time_steps(done, self.command(), show):
                store.write(self.results, record)

    def jobs(self, grid: Grid, show: bool | None) -> list[Job]:
        """The jobs of all cells that the options ask for."""
        task = problem(self.task)
        changes = tuple(
            (name, value)
            for name in ("epochs", "lr", "batch_size", "piece", "context")
            if (value := getattr(self, name))
        )
        if self.weight_decay is not None:
            changes += (("weight_decay", self.weight_decay),)
        splits, seeds = self.splits or task.laptop[0], self.seeds or task.laptop[1]
        common: dict[str, Any] = {
            "splits": splits,
            "seeds": seeds,
            "data": data_folder(self.data).resolve(),
            "work": self.work.resolve(),
            "device": _device(self.device, self.ray is not None),
            "command": self.command(),
            "changes": changes,
            "threads": self.threads,
            "show": show if self.ray is None else False,
        }
        if not grid.cells:
            why = f": {left_out(grid)}" if grid.left_out else ""
            raise ValueError(f"models={self.models!r}, layers={self.layers!r}: no cell is left{why}")
        return [Job(cell, **common) for cell in grid.cells]

    def check(self) -> None:
        """Raise if an option is out of range or cannot be used with the others; 0 means not given."""
        for name in (*COUNTS, *SIZES, "lr"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name}={getattr(self, name)} must be greater than 0")
        for name in ("models", "layers", "landmarks", "pinv", "ridge", "windows"):
            if getattr(self, name) and not getattr(self, name).strip(" ,"):
                raise ValueError(f"{name}={getattr(self, name)!r} is an empty list")
        if not 0 < self.gpus_per_cell < math.inf:
            raise ValueError(f"gpus_per_cell={self.gpus_per_cell} must be greater than 0, such as 0.25")
        if self.ridge != Reproduce.ridge and "ridge" not in (word.strip() for word in self.pinv.split(",")):
            raise ValueError(f"ridge={self.ridge!r} is for --pinv ridge, but pinv is {self.pinv!r}")
        if self.gpus_per_cell != Reproduce.gpus_per_cell and self.ray is None:
            raise ValueError(f"gpus_per_cell={self.gpus_per_cell:g} is for --ray, which is not given")
        if self.transferred and not self.at_once:
            raise ValueError("transferred is for --at-once, which is not given")
        if self.steps_again and not self.steps:
            raise ValueError("steps-again and no-steps are both given; use one of them")
        if self.landmarks and not set(self.variants()) - {*FULL, *RIVALS}:
            raise ValueError(f"landmarks={self.landmarks!r} is for low-rank models, but models={self.models!r}")
        if self.stack not in ("paper", "deep"):
            raise ValueError(f"stack={self.stack!r} must be paper or deep")
        if self.windows and self.stack != "deep":
            raise ValueError(f"windows={self.windows!r} is for --stack deep, but stack is {self.stack!r}")
        if self.windows and self.window:
            raise ValueError(f"window={self.window} and windows={self.windows!r} are both given; use one of them")

    def grid(self, task: PaperProblem) -> Grid:
        """All cells that the options ask for."""
        protocol = self.protocol or task.protocols[0]
        for name, value, known in (("protocol", protocol, task.protocols), ("tokens", self.tokens, task.tokens)):
            if value not in known:
                raise ValueError(f"{name}={value!r}, but {self.task} has {' and '.join(known)}")
        windows = numbers("windows", self.windows)
        sizes = {name: value for name in SIZES if (value := getattr(self, name))}
        sizes |= {"window": max(windows)} if windows else {}
        usual = task.usual(protocol=protocol, tokens=self.tokens, **sizes)
        layers = numbers("layers", self.layers) or ((len(windows),) if windows else task.depths)
        landmarks = numbers("landmarks", self.landmarks) or (task.landmarks,)
        return grid(usual, self.variants(), layers, landmarks, list(self.settings()))

    def variants(self) -> list[str]:
        names: list[str] = []
        for word in filter(None, (part.strip().lower() for part in self.models.split(","))):
            variant = SHORT.get(word, word)
            if word != "all" and variant not in NAMES:
                guess = nearest(word, {*SHORT, *NAMES})
                raise ValueError(f"models has {word!r}, but must be some of {', '.join(NAMES.values())}{guess}")
            names += SHORT.values() if word == "all" else [variant]
        return list(dict.fromkeys(names))

    def settings(self) -> Iterator[dict[str, Any]]:
        """The settings that differ from the paper's."""
        flags = ("learned", "distilled", "decay", "at_once", "transferred", "one_scale")
        extra: dict[str, Any] = {name: True for name in flags if getattr(self, name)}
        extra |= {"stack": self.stack} if self.stack != "paper" else {}
        extra |= {"windows": numbers("windows", self.windows)} if self.windows else {}
        extra |= {"dropout": self.dropout} if self.dropout is not None else {}
        for kind in (word.strip() for word in self.pinv.split(",")):
            if kind == "ridge":
                for strength in _floats("ridge", self.ridge):
                    yield {"pinv": kind, "pinv_ridge": strength, **extra}
            elif kind == "none":
                yield {"pinv": kind, "method": "x", **extra}
            else:
                yield ({} if kind == "newton" else {"pinv": kind}) | extra

    def command(self) -> str:
        """The command that was typed, without options that do not affect the results."""
        hidden = ("task", "data", "results", "work", "plain", "again")
        return typed(["nystream", "reproduce", self.task], self, hidden)


def left_out(grid: Grid) -> str:
    """Which of the requested models are not run, and why, in one line."""
    there, parts = {cell.model for cell in grid.cells}, []
    for rule, keys in grid.left_out.items():
        models = (
            f"{NAMES[model]} with {counted(layers, 'block')}" if model in there else NAMES[model]
            for model, layers in keys
        )
        parts.append(f"{', '.join(dict.fromkeys(models))} ({rule})")
    return "; ".join(parts)


def _say(outcome: Outcome) -> None:
    # print, not rich: the line appears above the progress bars, and unwrapped in a file.
    if outcome.record is None:
        print(f"{outcome.name}: failed: {outcome.error}", flush=True)
        return
    record = outcome.record
    score = record["metrics"][record["metric"]]
    # Significant digits: an mse may be far below one.
    spread = "" if score["std"] is None else f" ± {score['std']:#.2g}"
    line = f"{outcome.name}: {record['metric']} {score['mean']:#.4g}{spread}, {record['training']['seconds']:.0f} s"
    print(line, flush=True)


def _device(name: str, remote: bool) -> str:
    """The name of the device in torch; one on a cluster is checked there."""
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", name):
        raise ValueError(f"device={name!r} must be cpu, cuda or auto")
    if remote:
        return name
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name.startswith("cuda") and int(name.partition(":")[2] or 0) >= torch.cuda.device_count():
        raise ValueError(f"device={name!r}, but torch finds {counted(torch.cuda.device_count(), 'GPU')} here")
    return name


def _floats(name: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(word) for word in text.split(",") if word.strip())
    except ValueError:
        raise ValueError(f"{name}={text!r} must be numbers separated by commas, such as 0.03,0.1") from None

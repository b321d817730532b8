"""`nystream reproduce`: the paper's tables and figures, from training to records."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from tyro.conf import Positional, arg

from nystream.cli.bench import numbers
from nystream.cli.folders import require_folder
from nystream.cli.options import usual
from nystream.lab.reproduce import store
from nystream.lab.reproduce.cells import FIXED, FULL, MODELS, Cell, grid
from nystream.lab.reproduce.cluster import on_ray
from nystream.lab.reproduce.job import Job, data_folder
from nystream.lab.reproduce.problems import PaperProblem, problem
from nystream.lab.reproduce.run import Outcome, Runner, baselines, left, one_by_one, run
from nystream.lab.reproduce.steps import time_steps
from nystream.landmarks import kmeans
from nystream.models import pretrained

SHORT = {name.lower(): variant for variant, name in MODELS.items()}  # att, co, ny, ny-fix, cony-cont, cony-fix


@dataclass
class Reproduce:
    """Train and score the models of one of the paper's tables, and write a record of each to results/.

    A cell is one model with one setting, trained once for every split of the data and every seed. Cells that are done
    are not run again: a run that was stopped goes on with the same command. `nystream report` makes tables and plots of
    the records.

    Examples:
        nystream reproduce gtzan                    # a first look, on a laptop
        nystream reproduce gtzan --splits 5 --seeds 5      # the paper's protocol
        nystream reproduce gtzan --models cony-fix --layers 1 --landmarks 2,4,8,16
    """

    task: Positional[Literal["gtzan", "thumos14", "electricity"]]
    """gtzan: genres of music; thumos14: actions in videos; electricity: demand, an hour ahead."""
    data: Annotated[Path | None, usual("$NYSTREAM_DATA", "FOLDER")] = None
    """Folder with the data sets."""
    models: Annotated[str, usual("all", "LIST")] = ",".join(SHORT)
    """Models of the table, by the paper's names or as variants (co-fixed-single). att: full attention; co: continual;
    ny: low rank; ny-fix: with fixed landmarks; cony-cont, cony-fix: the same two, continual."""
    layers: Annotated[str, usual("the table's", "LIST")] = ""
    """Numbers of blocks, such as 1,2."""
    landmarks: Annotated[str, usual("the table's", "LIST")] = ""
    """Numbers of landmarks m, such as 2,4,8,16,32,64 for the paper's figures."""
    splits: Annotated[int, usual("few, for a laptop", "N")] = 0
    """Splits of the data. The paper has 5; electricity, cut by time, has 1."""
    seeds: Annotated[int, usual("few, for a laptop", "N")] = 0
    """Seeds of every split, trained together. The paper has 5."""
    epochs: Annotated[int, usual("chosen on validation data", "N")] = 0
    """Passes over the training data, the same for every model."""
    lr: Annotated[float, usual("chosen on validation data", "RATE")] = 0.0
    """Learning rate."""
    batch_size: Annotated[int, usual("chosen with the rate", "N")] = 0
    """Windows, or pieces of streams, an update."""
    pinv: Annotated[str, arg(metavar="LIST")] = "newton"
    """Inverses of Γ for fixed landmarks, one or several: newton (the paper's), exact, ridge, none. Any but newton is
    run for the models with fixed landmarks only."""
    ridge: Annotated[str, arg(metavar="LIST")] = "0.1"
    """λ of the inverse ridge, one or several, such as 0.03,0.1."""
    learned: bool = False
    """Run the models with fixed landmarks only, and train their landmarks on from the cluster centres."""
    distilled: bool = False
    """Run the low-rank models only, and let them learn from one with full attention too."""
    stack: Annotated[str, arg(metavar="paper|deep")] = "paper"
    """Of several blocks: paper gives what they give over the window; deep, for continual models only, lets every block
    stream, which is far cheaper a step and another function."""
    window: Annotated[int, usual("the table's", "N")] = 0
    """Window n."""
    protocol: Annotated[str, usual("the table's", "NAME")] = ""
    """How the data are split: filtered is the fault-filtered split of GTZAN."""
    tokens: Annotated[str, arg(metavar="paper|lags")] = "paper"
    """Tokens of electricity: lags are those that know what a day and a week ago was, and the change as the target."""
    device: Annotated[str, arg(metavar="cpu|cuda|auto")] = "auto"
    """Where to train; auto is cuda where there is a GPU."""
    threads: Annotated[int, usual("as torch chooses", "N")] = 0
    """Threads of torch on a CPU."""
    ray: Annotated[str | None, arg(metavar="ADDRESS")] = None
    """Send the cells to the Ray cluster at this address: auto (the one this machine is part of), HOST:6379,
    ray://HOST:10001, or local to start one here. All machines need nystream, the same folder of data, and a shared
    folder of work."""
    gpus_per_cell: Annotated[float, arg(metavar="SHARE")] = 1.0
    """How much of a GPU a cell takes on a Ray cluster; 0.25 lets four share one."""
    results: Annotated[Path, arg(metavar="FOLDER")] = Path("results")
    """Where the records go, one file a cell."""
    work: Annotated[Path, arg(metavar="FOLDER")] = Path("runs")
    """Where checkpoints and trained models go: what a stopped run goes on from."""
    again: bool = False
    """Score cells again that are done, and replace their records. What was trained is in the folder of work."""
    steps: Annotated[bool, arg(help_behavior_hint="")] = True
    """Do not measure what a step of every cell costs on this machine."""
    steps_again: bool = False
    """Measure the steps again, of cells that were measured too."""
    plain: bool = False
    """No colours and no progress bars, as in a pipe."""

    def run(self) -> None:
        show = False if self.plain else None
        self.check()
        jobs = self.jobs(show)
        todo = left(jobs, self.results, self.again)
        if todo:
            pretrained.require()
        if any(job.cell.model in FIXED for job in todo):
            kmeans.require()
        for name in ("results", "work") if todo else ():
            require_folder(name, getattr(self, name))
        print(self.heading(jobs, len(jobs) - len(todo)), flush=True)
        runner: Runner = one_by_one
        if self.ray is not None:
            runner = partial(on_ray, address=self.ray, gpus=self.gpus_per_cell)
        try:
            baselines(jobs[0], self.results, self.again)
            outcomes = run(todo, self.results, runner, _say, show) if todo else []
            if self.steps:
                self.time(jobs, show)
        except KeyboardInterrupt as stop:
            done = f"what is done is in {self.results} and {self.work}; the same command resumes it"
            raise type(stop)(done) from stop
        failed = [outcome for outcome in outcomes if outcome.record is None]
        if failed:
            self.work.mkdir(parents=True, exist_ok=True)
            traces = self.work / "errors.txt"
            traces.write_text("\n".join(f"{one.name}\n{one.trace}" for one in failed), encoding="utf-8")
            raise RuntimeError(
                f"{len(failed)} of {len(jobs)} cells failed ({', '.join(one.name for one in failed)}), see {traces}; "
                f"the others are in {self.results}, and the same command tries these again"
            )
        print(f"{_count(len(jobs), 'record')} in {self.results}; nystream report makes tables and plots of them")

    def heading(self, jobs: Sequence[Job], done: int) -> str:
        job = jobs[0]
        runs = f"{_count(job.splits, 'split')} x {_count(job.seeds, 'seed')}"
        where = f"on {job.device}" if self.ray is None else f"by Ray ({self.ray}, {job.device})"
        return f"{self.task}: {_count(len(jobs), 'cell')} of {runs} {where}, {done} of them done"

    def time(self, jobs: Sequence[Job], show: bool | None) -> None:
        """Measure the steps of the cells side by side, where one of them was not."""
        records = [store.read(self.results, job.name) for job in jobs]
        held = [record for record in records if record is not None]
        if held and (self.steps_again or any(record.get("step") is None for record in held)):
            for record in time_steps(held, self.command(), show):
                store.write(self.results, record)

    def jobs(self, show: bool | None) -> list[Job]:
        """Every cell that is asked for."""
        found = problem(self.task)
        changes = tuple((name, value) for name in ("epochs", "lr", "batch_size") if (value := getattr(self, name)))
        splits, seeds = self.splits or found.laptop[0], self.seeds or found.laptop[1]
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
        jobs = [Job(cell, **common) for cell in self.cells(found)]
        if not jobs:
            raise ValueError(
                f"models={self.models!r}, layers={self.layers!r}: none is left. pinv and learned are for those with "
                f"fixed landmarks, distilled for those with landmarks, stack for continual ones of several blocks"
            )
        return jobs

    def check(self) -> None:
        """Refuse numbers that mean nothing; 0 is for what is not told."""
        for name in ("splits", "seeds", "epochs", "lr", "batch_size", "window", "threads"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name}={getattr(self, name)} must be greater than 0")
        for name in ("models", "layers", "landmarks", "pinv", "ridge"):
            if getattr(self, name) and not getattr(self, name).strip(" ,"):
                raise ValueError(f"{name}={getattr(self, name)!r} names nothing")
        if not 0 < self.gpus_per_cell < math.inf:
            raise ValueError(f"gpus_per_cell={self.gpus_per_cell} must be greater than 0, such as 0.25")
        if self.ridge != Reproduce.ridge and "ridge" not in (word.strip() for word in self.pinv.split(",")):
            raise ValueError(f"ridge={self.ridge!r} is for --pinv ridge, but pinv is {self.pinv!r}")
        if self.gpus_per_cell != Reproduce.gpus_per_cell and self.ray is None:
            raise ValueError(f"gpus_per_cell={self.gpus_per_cell:g} is for --ray, which is not given")
        if self.steps_again and not self.steps:
            raise ValueError("steps-again and no-steps are both set; steps are measured or they are not")
        if self.landmarks and not set(self.variants()) - set(FULL):
            raise ValueError(f"landmarks={self.landmarks!r} is for low-rank models, and models={self.models!r}")
        if self.stack not in ("paper", "deep"):
            raise ValueError(f"stack={self.stack!r} must be paper or deep")

    def cells(self, found: PaperProblem) -> Iterator[Cell]:
        protocol = self.protocol or found.protocols[0]
        for name, value, known in (("protocol", protocol, found.protocols), ("tokens", self.tokens, found.tokens)):
            if value not in known:
                raise ValueError(f"{name}={value!r}, but {self.task} has {' and '.join(known)}")
        usual = found.usual(protocol=protocol, tokens=self.tokens, **({"window": self.window} if self.window else {}))
        layers = numbers("layers", self.layers) or found.depths
        landmarks = numbers("landmarks", self.landmarks) or (found.landmarks,)
        yield from grid(usual, self.variants(), layers, landmarks, list(self.settings()))

    def variants(self) -> list[str]:
        found = []
        for word in filter(None, (part.strip() for part in self.models.split(","))):
            variant = SHORT.get(word.lower(), word)
            if variant not in MODELS:
                raise ValueError(f"models has {word!r}, but knows {', '.join(SHORT)}")
            found.append(variant)
        return found

    def settings(self) -> Iterator[dict[str, Any]]:
        """What differs from the paper."""
        extra: dict[str, Any] = {name: True for name in ("learned", "distilled") if getattr(self, name)}
        extra |= {"stack": self.stack} if self.stack != "paper" else {}
        for kind in (word.strip() for word in self.pinv.split(",")):
            if kind == "ridge":
                yield from (
                    {"pinv": kind, "pinv_ridge": strength, **extra} for strength in _floats("ridge", self.ridge)
                )
            elif kind == "none":
                yield {"pinv": kind, "method": "x", **extra}
            else:
                yield ({} if kind == "newton" else {"pinv": kind}) | extra

    def command(self) -> str:
        """What was typed, as far as it says what was run."""
        words, usual = ["nystream", "reproduce", self.task], Reproduce(self.task)
        for name, value in vars(self).items():
            if name not in ("task", "data", "results", "work", "plain", "again") and value != getattr(usual, name):
                flag = name.replace("_", "-")
                words += (
                    [f"--{flag}"]
                    if value is True
                    else [f"--no-{flag}"]
                    if value is False
                    else [f"--{flag}", str(value)]
                )
        return shlex.join(words)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _say(outcome: Outcome) -> None:
    # print, not rich: a line goes above the bars, and into a file as it is.
    if outcome.record is None:
        print(f"{outcome.name}: failed: {outcome.error}", flush=True)
        return
    record = outcome.record
    score = record["metrics"][record["metric"]]
    # Digits that count: an mse may be far below one.
    spread = "" if score["std"] is None else f" ± {score['std']:#.2g}"
    line = f"{outcome.name}: {record['metric']} {score['mean']:#.4g}{spread}, {record['training']['seconds']:.0f} s"
    print(line, flush=True)


def _device(name: str, elsewhere: bool) -> str:
    """What torch calls it; whether a cluster has it is found out there."""
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", name):
        raise ValueError(f"device={name!r} must be cpu, cuda or auto")
    if elsewhere:
        return name
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name.startswith("cuda") and int(name.partition(":")[2] or 0) >= torch.cuda.device_count():
        raise ValueError(f"device={name!r}, but torch finds {_count(torch.cuda.device_count(), 'GPU')} here")
    return name


def _floats(name: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(word) for word in text.split(",") if word.strip())
    except ValueError:
        raise ValueError(f"{name}={text!r} must be numbers with commas between them, such as 0.03,0.1") from None

"""`nystream reproduce`: the paper's tables and figures, from training to records."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from rich.console import Console
from tyro.conf import Positional

from nystream.cli.bench import numbers
from nystream.reproduce import store
from nystream.reproduce.cells import MODELS, Cell, grid
from nystream.reproduce.cluster import on_ray
from nystream.reproduce.job import Job, folder_of_data
from nystream.reproduce.problems import Problem, problem
from nystream.reproduce.run import Outcome, Runner, baselines, left, one_by_one, run
from nystream.reproduce.steps import time_steps

SHORT = {name.lower(): variant for variant, name in MODELS.items()}  # att, co, ny, ny-fix, cony-cont, cony-fix


@dataclass
class Reproduce:
    """Train and score the models of one of the paper's tables, and write a record of each to results/.

    Cells that are done are not run again: a run that was stopped goes on with the same command. `nystream report` makes
    tables and plots of the records.

    Example: nystream reproduce gtzan --splits 5 --seeds 5
    """

    task: Positional[Literal["gtzan", "thumos14", "electricity"]]
    """Genres of music, actions in videos, or demand of electricity."""
    data: Path | None = None
    """Folder with the data sets; NYSTREAM_DATA unless told."""
    models: str = ",".join(SHORT)
    """Models of the table, by the paper's names or as variants."""
    layers: str = ""
    """Numbers of blocks; those of the paper's table unless told."""
    landmarks: str = ""
    """Numbers of landmarks m, for the paper's figures: 2,4,8,16,32,64. That of the table unless told."""
    splits: int = 0
    """Splits of the data; few unless told. The paper has 5 (--splits 5 --seeds 5)."""
    seeds: int = 0
    """Seeds of every split; few unless told."""
    epochs: int = 0
    """Budget of every model; the one chosen on validation data unless told."""
    lr: float = 0.0
    """Learning rate; the one chosen on validation data unless told."""
    batch_size: int = 0
    """Windows, or pieces of streams, an update; as chosen unless told."""
    pinv: str = "newton"
    """Inverses of Γ for fixed landmarks: newton, exact, ridge, none. With none, landmarks are found in pairs."""
    ridge: str = "0.1"
    """λ of the inverse ridge, one or several."""
    learned: bool = False
    """Fixed landmarks that are trained on from the cluster centres."""
    distilled: bool = False
    """Low-rank models that also learn from one with full attention."""
    window: int = 0
    """Another window n."""
    protocol: str = ""
    """filtered: the fault-filtered split of GTZAN."""
    tokens: str = "paper"
    """lags: for electricity, tokens that know what a day and a week ago was, and the change as the target."""
    device: str = "auto"
    """cpu, cuda, or auto: cuda where there is one."""
    threads: int = 0
    """Threads of torch on a CPU; as it chooses unless told."""
    ray: str | None = None
    """Send the cells to the Ray cluster at this address: auto, ray://HOST:10001, or local for one on this machine."""
    results: Path = Path("results")
    """Where the records go, one file a cell."""
    work: Path = Path("runs")
    """Where checkpoints and trained models go."""
    again: bool = False
    """Run cells again that are done."""
    steps: bool = True
    """Measure the step of every cell on this machine, where that was not done."""
    steps_again: bool = False
    """Measure all of them again."""
    plain: bool = False
    """No colours and no progress bars, as in a pipe."""

    def run(self) -> None:
        show = False if self.plain else None
        console = Console(color_system=None, force_terminal=False) if self.plain else Console()
        jobs = self.jobs(show)
        todo = left(jobs, self.results, self.again)
        done = len(jobs) - len(todo)
        console.print(_heading(self.task, jobs, done), highlight=False)
        baselines(jobs[0], self.results, self.again)
        runner: Runner = one_by_one if self.ray is None else partial(on_ray, address=self.ray)
        outcomes = run(todo, self.results, runner, partial(_say, console), show)
        if self.steps:
            self.time(jobs, show)
        failed = [outcome for outcome in outcomes if outcome.record is None]
        if failed:
            for outcome in failed:
                print(outcome.trace, file=sys.stderr)
            raise RuntimeError(
                f"{len(failed)} of {len(jobs)} cells failed ({', '.join(outcome.name for outcome in failed)}); "
                f"the others are in {self.results}, and the same command tries these again"
            )
        console.print(f"{len(jobs)} records in {self.results}; nystream report makes tables and plots of them")

    def time(self, jobs: Sequence[Job], show: bool | None) -> None:
        """Measure the steps of the cells side by side, where one of them was not."""
        records = [store.read(self.results, job.name) for job in jobs]
        held = [record for record in records if record is not None]
        if held and (self.steps_again or any(record["step"] is None for record in held)):
            for record in time_steps(held, self.command(), show):
                store.write(self.results, record)

    def jobs(self, show: bool | None) -> list[Job]:
        """Every cell that is asked for."""
        found = problem(self.task)
        changes = tuple((name, value) for name in ("epochs", "lr", "batch_size") if (value := getattr(self, name)))
        splits, seeds = self.splits or found.laptop[0], self.seeds or found.laptop[1]
        for name, value in (("splits", splits), ("seeds", seeds)):
            if value < 1:
                raise ValueError(f"{name}={value} must be at least 1")
        common: dict[str, Any] = {
            "splits": splits,
            "seeds": seeds,
            "data": folder_of_data(self.data).resolve(),
            "work": self.work.resolve(),
            "device": _device(self.device),
            "command": self.command(),
            "changes": changes,
            "threads": self.threads,
            "show": show if self.ray is None else False,
        }
        return [Job(cell, **common) for cell in self.cells(found)]

    def cells(self, found: Problem) -> Iterator[Cell]:
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
        """What of fixed landmarks differs from the paper."""
        extra = {name: True for name in ("learned", "distilled") if getattr(self, name)}
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


def _heading(task: str, jobs: Sequence[Job], done: int) -> str:
    job = jobs[0]
    runs = f"{job.splits} split{'s' * (job.splits > 1)} x {job.seeds} seed{'s' * (job.seeds > 1)}"
    return f"{task}: {len(jobs)} cells of {runs} on {job.device}, {done} of them done"


def _say(console: Console, outcome: Outcome) -> None:
    if outcome.record is None:
        console.print(f"{outcome.name}: failed: {outcome.error}", style="red", markup=False)
        return
    record = outcome.record
    score = record["metrics"][record["metric"]]
    spread = "" if score["std"] is None else f" ± {score['std']:.4f}"
    line = f"{outcome.name}: {record['metric']} {score['mean']:.4f}{spread}, {record['training']['seconds']:.0f} s"
    console.print(line, highlight=False)


def _device(name: str) -> str:
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(f"device={name!r}, but torch finds no GPU here; take cpu")
    if name != "cpu" and not name.startswith("cuda"):
        raise ValueError(f"device={name!r} must be cpu, cuda or auto")
    return name


def _floats(name: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(word) for word in text.split(",") if word.strip())
    except ValueError:
        raise ValueError(f"{name}={text!r} must be numbers with commas between them, such as 0.03,0.1") from None

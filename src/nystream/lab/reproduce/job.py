"""A job: from a cell to its record, on this machine or on a cluster."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch

import nystream.costs as costs
import nystream.state as states
from nystream import provenance
from nystream.lab.reproduce.cells import Cell
from nystream.lab.reproduce.problems import MAX_SEEDS, CellRun, Loaded, PaperProblem, problem
from nystream.lab.reproduce.store import RecordDict
from nystream.lab.reproduce.train import cell_phases, model_config, score, train
from nystream.train import TrainConfig, WindowData
from nystream.train.sampler import sampler


@dataclass(frozen=True)
class Job:
    """A cell, and how it is run; its data are in the folder `data` of the machine that runs it."""

    cell: Cell
    splits: int
    seeds: int
    data: Path
    work: Path
    device: str
    command: str
    changes: tuple[tuple[str, Any], ...] = ()  # of the problem's own training config
    threads: int = 0  # of torch; 0 for torch's own choice
    show: bool | None = None

    @property
    def problem(self) -> PaperProblem:
        return problem(self.cell.task)

    @property
    def name(self) -> str:
        return self.problem.cell_name(self.cell)

    @property
    def config(self) -> TrainConfig:
        """The training, with the epochs of all phases."""
        return dataclasses.replace(self.problem.training(self.cell), **dict(self.changes))

    def load(self) -> Loaded:
        """The data, read once per process."""
        return _load(self.cell.task, self.data.resolve(), self.cell.protocol, self.cell.tokens)

    def runs(self) -> list[CellRun]:
        return _runs(self.load(), self.splits, self.seeds)

    def wanted(self) -> RecordDict:
        """The record of the job without its results; raise if it cannot be run."""
        self.problem.check_splits(self.cell, self.splits)
        if not 1 <= self.seeds <= MAX_SEEDS:
            raise ValueError(f"seeds={self.seeds} must be 1 to {MAX_SEEDS}")
        cell_phases(self.config, self.cell)
        runs = self.runs()
        data = runs[0].train
        sampler(data, model_config(self.cell.phase_one, data.input_dim), self.config)
        if isinstance(data, WindowData) and self.cell.window > data.x.shape[1]:
            tokens = data.x.shape[1]
            raise ValueError(f"window={self.cell.window} is longer than the {tokens} tokens of a track: it never fills")
        return {
            "cell": self.cell.to_dict(),
            "name": self.name,
            "budget": self.config.to_dict(),
            "data": {"file": self.problem.file, "fingerprint": self.load().fingerprint},
            "runs": [{"split": run.split, "seed": run.seed} for run in runs],
        }

    def run(self) -> RecordDict:
        """Train and score the models; return the record."""
        if self.threads:
            torch.set_num_threads(self.threads)
        record, runs, loaded = self.wanted(), self.runs(), self.load()
        trained = train(self, runs)
        tests, valids = (
            [loaded.scores(scores) for scores in score(self, trained.models, runs, part)] for part in ("test", "valid")
        )
        model = trained.models[0]
        return record | {
            "metric": next(iter(tests[0])),
            "metrics": summaries(tests),
            "valid": summaries(valids),
            "operations": operations(self.cell),
            "bytes_per_stream": states.nbytes(model.init_state(1)),
            "step": None,
            "input_dim": model.config.input_dim,
            "training": {
                "epochs": self.config.epochs,
                "phases": [config.to_dict() for config in trained.phases],
                "parameters": sum(x.numel() for x in model.parameters()),
                "seconds": round(trained.seconds, 1),
                "device": torch.cuda.get_device_name() if self.device.startswith("cuda") else "CPU",
            },
            **provenance.header(self.command),
        }


@lru_cache(maxsize=2)
def _load(task: str, folder: Path, protocol: str, tokens: str) -> Loaded:
    of = problem(task)
    return of.load(folder, of.usual(protocol=protocol, tokens=tokens))


@lru_cache(maxsize=1)
def _runs(loaded: Loaded, splits: int, seeds: int) -> list[CellRun]:
    return loaded.runs(splits, seeds)


def wanted_baseline(job: Job, name: str) -> RecordDict:
    """The record of a baseline for the cell of a job, without its results."""
    cell, slug = job.cell, "-".join(name.split())
    suffixes = [value for value in (cell.protocol, cell.tokens) if value not in (job.problem.protocols[0], "paper")]
    return {
        "baseline": {"task": cell.task, "name": name, "protocol": cell.protocol, "tokens": cell.tokens},
        "name": "-".join([cell.task, "baseline", slug, *suffixes]),
        "data": {"file": job.problem.file, "fingerprint": job.load().fingerprint},
        "runs": [{"split": split, "seed": None} for split in range(job.splits)],
    }


def run_baseline(job: Job, name: str) -> RecordDict:
    """Score a baseline for the cell of a job; its record."""
    baseline = job.load().baseline(name, job.splits)
    metrics = summaries([dict(scores) for scores in baseline.scores])
    results = {"metric": next(iter(metrics)), "metrics": metrics, "chosen": dict(baseline.chosen)}
    return wanted_baseline(job, name) | results | provenance.header(job.command)


def summaries(scores: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Mean, standard deviation (None for a single run) and values of every score over the runs."""
    metrics = {}
    for name in scores[0]:
        values = [run[name] for run in scores]
        metrics[name] = {"mean": mean(values), "std": stdev(values) if len(values) > 1 else None, "values": values}
    return metrics


def operations(cell: Cell) -> dict[str, float]:
    """Operations of the attention per step, by the paper's formulas and corrected, and the ratio to full attention.

    All heads are counted as one of the whole width, as the paper does for GTZAN and THUMOS14. In a deep stack, every
    block costs as much as a single one.
    """
    sizes = cell.window, cell.embed_dim, cell.landmarks or 1
    copies, layers = (cell.layers, 1) if cell.stack == "deep" else (1, cell.layers)
    counts: dict[str, float] = {}
    for kind in ("paper", "corrected"):
        ours = copies * costs.flops(cell.model, *sizes, layers, corrected=kind == "corrected")
        full = costs.flops("full", *sizes, cell.layers, corrected=kind == "corrected")
        counts |= {kind: ours, f"relative_{kind}": full / ours}
    return counts


def data_folder(given: Path | None) -> Path:
    """The folder of data sets: as given, or the environment variable NYSTREAM_DATA."""
    if given is not None:
        return given
    named = os.environ.get("NYSTREAM_DATA")
    if not named:
        raise ValueError(
            "the folder of data sets is missing: give --data FOLDER, or set NYSTREAM_DATA; see docs/data.md"
        )
    return Path(named)

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
from nystream.lab.reproduce.train import cell_phases, cell_sampler, model_config, score, train
from nystream.lab.rivals import RecurrentConfig
from nystream.train import TrainConfig, WindowData


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

    @property
    def teacher(self) -> Job:
        """The job of the cell's teacher. Changes of a recurrent model's training, but for the epochs, are its own."""
        changes = tuple(one for one in self.changes if one[0] == "epochs" or not self.cell.recurrent)
        return dataclasses.replace(self, cell=self.cell.teacher, changes=changes)

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
        streams = cell_sampler(self.cell, data, self.config).streams
        if "piece" in dict(self.changes) and not streams:
            raise ValueError(f"piece={self.config.piece} is for pieces of streams, but {self.name} learns from windows")
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
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        record, runs, loaded = self.wanted(), self.runs(), self.load()
        trained = train(self, runs)
        tests, valids = (
            [loaded.scores(scores) for scores in score(self, trained.models, runs, part)] for part in ("test", "valid")
        )
        model, on_gpu = trained.models[0], self.device.startswith("cuda")
        return record | {
            "metric": next(iter(tests[0])),
            "metrics": summaries(tests),
            "valid": summaries(valids),
            "operations": operations(self.cell) | {"model": model_operations(self.cell, model.config.input_dim)},
            "bytes_per_stream": states.nbytes(model.init_state(1)),
            "step": None,
            "input_dim": model.config.input_dim,
            "training": {
                "epochs": self.config.epochs,
                "phases": [config.to_dict() for config in trained.phases],
                "parameters": sum(x.numel() for x in model.parameters()),
                "seconds": round(trained.seconds, 1),
                "device": torch.cuda.get_device_name() if on_gpu else "CPU",
                "gpu_bytes": torch.cuda.max_memory_allocated() if on_gpu else None,
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
    block costs as much as a single one. A recurrent model has none.
    """
    counts: dict[str, float] = {}
    for kind in ("paper", "corrected") if not cell.recurrent else ():
        corrected = kind == "corrected"
        sizes = cell.embed_dim, cell.landmarks or 1
        ours = sum(costs.flops(cell.model, n, *sizes, layers, corrected=corrected) for n, layers in _stacks(cell))
        full = costs.flops("full", cell.window, *sizes, cell.layers, corrected=corrected)
        counts |= {kind: ours, f"relative_{kind}": full / ours}
    return counts


def model_operations(cell: Cell, input_dim: int) -> float:
    """Multiply-adds of a step of the whole model, as executed: input projection, blocks or gates, and head."""
    config = model_config(cell, input_dim)
    if isinstance(config, RecurrentConfig):
        return config.operations
    assert config.ff_dim is not None
    width, ends = cell.embed_dim, cell.embed_dim * (input_dim + config.output_dim)
    blocks = (
        costs.dense(cell.model, n, width, config.ff_dim, layers)
        + costs.executed(cell.model, n, width, cell.landmarks, layers, cell.num_heads).total
        for n, layers in _stacks(cell)
    )
    return ends + sum(blocks)


def _stacks(cell: Cell) -> list[tuple[int, int]]:
    """The window and the number of blocks of every paper stack: in a deep stack, each block is one of its own."""
    if cell.stack == "deep":
        return [(window, 1) for window in cell.windows or [cell.window] * cell.layers]
    return [(cell.window, cell.layers)]


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

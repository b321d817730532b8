"""From a cell to its record: what a worker does, here or on a cluster."""

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
from nystream.lab.reproduce.problems import Loaded, PaperProblem, Run, problem
from nystream.lab.reproduce.store import RecordDict
from nystream.lab.reproduce.train import SEEDS, CellPlan, budget, score, shape, train
from nystream.train import TrainConfig, WindowData
from nystream.train.sampler import sampler


@dataclass(frozen=True)
class Job:
    """A cell, and how it is to be run; whoever runs it finds the data in the folder `data`."""

    cell: Cell
    splits: int
    seeds: int
    data: Path
    work: Path
    device: str
    command: str
    changes: tuple[tuple[str, Any], ...] = ()  # of the training that the problem prescribes
    threads: int = 0  # of torch; 0 leaves them as they are
    show: bool | None = None

    @property
    def problem(self) -> PaperProblem:
        return problem(self.cell.task)

    @property
    def name(self) -> str:
        return self.problem.cell_name(self.cell)

    @property
    def config(self) -> TrainConfig:
        """The whole budget."""
        return dataclasses.replace(self.problem.training(self.cell), **dict(self.changes))

    def wanted(self) -> RecordDict:
        """What the record will be of, without its results."""
        self.problem.check_splits(self.cell, self.splits)
        if not 1 <= self.seeds <= SEEDS:
            raise ValueError(f"seeds={self.seeds} must be 1 to {SEEDS}")
        budget(self.config, self.cell)
        data = _runs(load(self), self.splits, self.seeds)[0].train
        sampler(
            data, shape(self.problem, self.cell.phase_one, data.input_dim), self.config
        )  # refuses what does not fit
        if isinstance(data, WindowData) and self.cell.window > data.x.shape[1]:
            tokens = data.x.shape[1]
            raise ValueError(f"window={self.cell.window} is longer than the {tokens} tokens of a track: it never fills")
        pairs = [(split, seed) for split in range(self.splits) for seed in range(self.seeds)]
        return {
            "cell": self.cell.to_dict(),
            "name": self.name,
            "budget": self.config.to_dict(),
            "data": {"file": self.problem.file, "fingerprint": load(self).fingerprint},
            "runs": [{"split": split, "seed": seed} for split, seed in pairs],
        }

    def run(self) -> RecordDict:
        """Train, score, and say where it comes from."""
        if self.threads:
            torch.set_num_threads(self.threads)
        wanted, loaded = self.wanted(), load(self)
        runs = _runs(loaded, self.splits, self.seeds)
        plan = CellPlan(self.problem, self.cell, self.config, self.device, self.work, self.show)
        trained = train(plan, runs)
        tests, valids = (
            [loaded.scores(one) for one in score(plan, trained.models, runs, part)] for part in ("test", "valid")
        )
        first = trained.models[0]
        return wanted | {
            "metric": next(iter(tests[0])),
            "metrics": summaries(tests),
            "valid": summaries(valids),
            "operations": operations(self.cell),
            "bytes_per_stream": states.nbytes(first.init_state(1)),
            "step": None,
            "input_dim": first.config.input_dim,
            "training": {
                "epochs": self.config.epochs,
                "phases": [phase.to_dict() for phase in trained.phases],
                "parameters": sum(x.numel() for x in first.parameters()),
                "seconds": round(trained.seconds, 1),
                "device": torch.cuda.get_device_name() if self.device.startswith("cuda") else "CPU",
            },
            **provenance.header(self.command),
        }


def wanted_baseline(job: Job, name: str) -> RecordDict:
    """What the record of a baseline beside the cells of a job will be of."""
    cell, slug = job.cell, "-".join(name.split())
    kinds = [value for value in (cell.protocol, cell.tokens) if value not in (job.problem.protocols[0], "paper")]
    return {
        "baseline": {"task": cell.task, "name": name, "protocol": cell.protocol, "tokens": cell.tokens},
        "name": "-".join([cell.task, "baseline", slug, *kinds]),
        "data": {"file": job.problem.file, "fingerprint": load(job).fingerprint},
        "runs": [{"split": split, "seed": None} for split in range(job.splits)],
    }


def run_baseline(job: Job, name: str) -> RecordDict:
    found = load(job).baseline(name, job.splits)
    metrics = summaries([dict(scores) for scores in found.scores])
    results = {"metric": next(iter(metrics)), "metrics": metrics, "chosen": dict(found.chosen)}
    return wanted_baseline(job, name) | results | provenance.header(job.command)


def load(job: Job) -> Loaded:
    """The data of a job, read once in a process."""
    cell = job.cell
    return _load(cell.task, job.data.resolve(), cell.protocol, cell.tokens)


@lru_cache(maxsize=2)
def _load(task: str, folder: Path, protocol: str, tokens: str) -> Loaded:
    found = problem(task)
    return found.load(folder, found.usual(protocol=protocol, tokens=tokens))


@lru_cache(maxsize=1)
def _runs(loaded: Loaded, splits: int, seeds: int) -> list[Run]:
    return loaded.runs(splits, seeds)


def summaries(scores: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Mean, standard deviation and values of every score over the runs; no deviation of a single run."""
    found = {}
    for name in scores[0]:
        values = [one[name] for one in scores]
        found[name] = {"mean": mean(values), "std": stdev(values) if len(values) > 1 else None, "values": values}
    return found


def operations(cell: Cell) -> dict[str, float]:
    """Of the attention in a step, by the paper's formulas and by ours, and how many times fewer than full attention.

    All heads are counted as one of the whole width, as the paper does it for GTZAN and THUMOS14. In a deep stack every
    block costs what a single one does.
    """
    sizes = cell.window, cell.embed_dim, cell.landmarks or 1
    alike, layers = (cell.layers, 1) if cell.stack == "deep" else (1, cell.layers)
    found: dict[str, float] = {}
    for kind in ("paper", "corrected"):
        ours = alike * costs.flops(cell.model, *sizes, layers, corrected=kind == "corrected")
        whole = costs.flops("full", *sizes, cell.layers, corrected=kind == "corrected")
        found[kind] = ours
        found[f"relative_{kind}"] = whole / ours
    return found


def folder_of_data(given: Path | None) -> Path:
    """The folder of data sets: as given, or as NYSTREAM_DATA says."""
    if given is not None:
        return given
    named = os.environ.get("NYSTREAM_DATA")
    if not named:
        raise ValueError("say where the data sets are: --data FOLDER, or NYSTREAM_DATA; docs/data.md names the files")
    return Path(named)

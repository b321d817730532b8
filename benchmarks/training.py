"""Training on real data: what many models at once cost, and what learned landmarks give.

    python benchmarks/training.py gtzan --data FOLDER --device cuda      # or electricity, or thumos14

Genres of GTZAN tracks (25 runs: 5 splits and 5 seeds, copies of a track kept together), the total demand of EIA-930 an
hour ahead, and the actions of every frame of THUMOS14 (seeds alone). Each is trained with full attention, with
continual landmarks, and from there with fixed ones, frozen at the cluster centres as in the paper or learned from there
on. Models are selected on validation data and scored once on test data, streaming. Written to
results/training-<task>.json.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch
from _common import write_results

import nystream as ns
from nystream.tasks import actions, audio
from nystream.tasks.electricity import eia930, forecast
from nystream.train import (
    Classification,
    Detection,
    Forecasting,
    StreamData,
    TrainConfig,
    evaluate,
    fit_many,
)


def electricity(folder: Path) -> tuple[StreamData, StreamData, StreamData]:
    """Total demand an hour ahead from all areas and the time; 80 / 10 / 10 percent, one after another."""
    return forecast(eia930.load(folder)).parts


def thumos14(folder: Path) -> tuple[StreamData, StreamData, StreamData]:
    """Actions of every frame, ambiguous ones unknown; 15 percent of the training videos for validation."""
    return actions.load(folder / "thumos14_i3d_pca256_i8.npz").split(seed=0)


def models(variant: str, seeds: int, device: str, trains: list[Any], **options: Any) -> list[ns.StreamModel]:
    built = []
    for seed, train in zip(range(seeds), trains, strict=True):
        torch.manual_seed(seed)
        sizes = {name: options[name] for name in ("embed_dim", "num_heads", "window", "landmarks")}
        rest = {name: value for name, value in options.items() if name not in sizes}
        model = ns.StreamModel(ns.ModelConfig(attention=ns.AttentionConfig(variant, **sizes), **rest))
        model.input_scaler.fit(train.x)
        if rest["output_dim"] == 1:
            model.output_scaler.fit(train.y)
        built.append(model.to(device))
    return built


def scores(trained: list[ns.StreamModel], tests: list[Any], task: Any, skip: int) -> dict[str, Any]:
    found = [evaluate(model, test, task, skip=skip) for model, test in zip(trained, tests, strict=True)]
    name = next(iter(found[0]))
    values = [one[name] for one in found]
    return {"metric": name, "mean": mean(values), "std": stdev(values) if len(values) > 1 else 0.0, "values": values}


def compare(
    build: Callable[[str], list[ns.StreamModel]],
    data: tuple[list[Any], list[Any], list[Any]],
    task: Any,
    config: TrainConfig,
    skip: int,
) -> dict[str, Any]:
    """Test scores of full attention, continual landmarks, and fixed ones, frozen and learned."""
    trains, valids, tests = data
    found = {}

    def record(name: str, trained: list[ns.StreamModel], began: float) -> None:
        found[name] = scores(trained, tests, task, skip) | {"seconds": time.monotonic() - began}
        line = found[name]
        print(f"  {name}: {line['mean']:.4f} ± {line['std']:.4f}, {line['seconds']:.0f} s", flush=True)

    began = time.monotonic()
    full = build("co-full-single")
    fit_many(full, trains, valids, config, task=task)
    record("co-full", full, began)
    began = time.monotonic()
    means = build("co-cont-single")
    fit_many(means, trains, valids, config, task=task)
    record("co-cont", means, began)
    # The second phase, as train_two_phase does it for one block, from the same start for both.
    began = time.monotonic()
    fixed = [model.convert(variant="co-fixed-single") for model in means]
    for model, train in zip(fixed, trains, strict=True):
        ns.fit_landmarks(model, train.batches(32))
    print(f"  landmarks of {len(fixed)} models: {time.monotonic() - began:.0f} s", flush=True)
    learned = copy.deepcopy(fixed)
    for model in learned:
        model.encoder.blocks[0].attention.learn_landmarks()
    tuning = dataclasses.replace(config, epochs=max(1, config.epochs // 2), lr=config.lr / 3)
    for name, start in (("co-fixed", fixed), ("co-fixed, learned", learned)):
        began = time.monotonic()
        fit_many(start, trains, valids, tuning, task=task)
        record(name, start, began)
    return found


def cost(build: Callable[[int], list[ns.StreamModel]], data: Any, config: TrainConfig) -> dict[str, float]:
    """Seconds of one epoch of 1, 5 and 25 models at once."""
    seconds = {}
    for count in (1, 5, 25):
        for _ in range(2):  # the first warms up
            trained = build(count)
            began = time.monotonic()
            fit_many(trained, data, None, config, task=Classification())
            seconds[str(count)] = time.monotonic() - began
        print(f"  {count} models at once: {seconds[str(count)]:.2f} s an epoch", flush=True)
    return seconds


def gtzan_task(args: argparse.Namespace) -> dict[str, Any]:
    splits = audio.load(args.data / "gtzan_yamnet_tokens.npz").splits(args.splits)
    sizes = {"embed_dim": 192, "num_heads": 16, "window": 120, "landmarks": 4, "ff_dim": 192}
    options = {**sizes, "input_dim": 128, "output_dim": 10, "dropout": 0.2}
    least = min(len(train) for train, _, _ in splits)
    config = TrainConfig(
        epochs=args.epochs or 40, batch_size=32, lr=5e-4, weight_decay=0.05, steps_per_epoch=least // 32
    )
    runs = [split for split in splits for _ in range(args.seeds)]
    trains, valids, tests = (list(part) for part in zip(*runs, strict=True))

    def build(variant: str, count: int = len(runs)) -> list[ns.StreamModel]:
        return models(variant, count, args.device, trains[:count], **options)

    many = cost(partial(build, "co-cont-single"), trains[0], dataclasses.replace(config, epochs=1))
    scores = compare(build, (trains, valids, tests), Classification(label_smoothing=0.1), config, 0)
    return {"updates_per_epoch": config.steps_per_epoch, "seconds_per_epoch": many, "scores": scores}


def electricity_task(args: argparse.Namespace) -> dict[str, Any]:
    train, valid, test = electricity(args.data)
    sizes = {"embed_dim": 128, "num_heads": 8, "window": 64, "landmarks": 4, "ff_dim": 128}
    options = {**sizes, "input_dim": train.input_dim, "output_dim": 1, "dropout": 0.1}
    config = TrainConfig(epochs=args.epochs or 40, batch_size=16, lr=1e-3, piece=256)
    trains, valids, tests = ([part] * args.seeds for part in (train, valid, test))

    def build(variant: str) -> list[ns.StreamModel]:
        return models(variant, args.seeds, args.device, trains, **options)

    return {"scores": compare(build, (trains, valids, tests), Forecasting(), config, 63)}


def thumos14_task(args: argparse.Namespace) -> dict[str, Any]:
    train, valid, test = thumos14(args.data)
    sizes = {"embed_dim": 1024, "num_heads": 8, "window": 64, "landmarks": 16, "ff_dim": 1024}
    options = {**sizes, "input_dim": train.input_dim, "output_dim": 22, "dropout": 0.2}
    config = TrainConfig(epochs=args.epochs or 12, batch_size=8, lr=1e-4, weight_decay=0.05, piece=256, short=1.0)
    seeds = min(args.seeds, 3)
    trains, valids, tests = ([part] * seeds for part in (train, valid, test))

    def build(variant: str) -> list[ns.StreamModel]:
        return models(variant, seeds, args.device, trains, **options)

    return {"scores": compare(build, (trains, valids, tests), Detection(), config, 0)}


TASKS = {"gtzan": gtzan_task, "electricity": electricity_task, "thumos14": thumos14_task}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--data", type=Path, default=os.environ.get("NYSTREAM_DATA"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, help="of phase one; the second has half as many")
    args = parser.parse_args()
    if args.data is None:
        parser.error("say where the data sets are: --data FOLDER, or NYSTREAM_DATA")
    device = torch.cuda.get_device_name() if args.device == "cuda" else args.device
    print(args.task, "on", device)
    print(write_results(f"training-{args.task}", {"device": device} | TASKS[args.task](args)))


if __name__ == "__main__":
    main()

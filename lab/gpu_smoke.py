"""What the tests cannot run without a GPU, on one GPU in at most eight minutes.

    python -m lab gpu-smoke --prepare FOLDER    # anywhere: thin the data sets of NYSTREAM_DATA, to at most 12 MB
    python -m lab gpu-smoke --data FOLDER       # on a GPU: check, time, write results/gpu_smoke.json
    python -m lab gpu-smoke --check             # anywhere: fail if the record is older than the code

Kernels against torch in float64, for every type and loop of training; pools against float64; one short cell of each
task from its data to its scores, with kernels and without; and the time of an update and of a step. A part that fails
is recorded, and the others go on. It needs neither tyro nor Numba: PYTHONPATH=src is enough.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, grad, stack_module_state, vmap

import nystream as ns
from lab import gpu_sources
from nystream import provenance
from nystream.lab.reproduce.cells import Cell
from nystream.lab.reproduce.job import Job
from nystream.lab.reproduce.problems import problem
from nystream.ops import fused

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "results" / "gpu_smoke.json"
COMMAND = "python -m lab gpu-smoke --data FOLDER"
DEVICE = "cuda"
SIZES = ((120, 192, 16, 4), (64, 512, 8, 16), (64, 1024, 8, 16))  # n, d, heads, m: heads of 12, 64 and 128
TOLERANCE = 1e-3  # of gradients, relative; with 16 bits, twice the error of torch if that is more
CELLS: dict[str, dict[str, Any]] = {  # the models that the README recommends
    "gtzan": {"layers": 2, "stack": "deep", "distilled": True},
    "thumos14": {"layers": 1, "window": 256, "decay": True, "one_scale": True},
    "electricity": {"layers": 2, "stack": "deep", "decay": True, "tokens": "lags"},
}

Gradients = dict[str, Tensor]


def prepare(data: Path, folder: Path) -> int:
    """Write thinned data sets with the names and layouts of the whole ones; return their size in bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    tracks = np.arange(0, 1000, 8)
    videos = {"train": 40, "test": 24}
    hours = slice(0, 2 * 8760)
    with np.load(data / problem("gtzan").file) as of:
        small = {name: x[tracks] if x.shape[:1] == (1000,) else x for name, x in dict(of).items()}
        del small["mean_embedding_1024"], small["pca_components"]
    np.savez_compressed(folder / problem("gtzan").file, **small)
    with np.load(data / problem("thumos14").file) as of:
        small = dict(of)
        for part, count in videos.items():
            tokens = int(small[f"len_{part}"][:count].sum())
            lengths = {"x": tokens, "y": tokens, "len": count, "vid": count}
            small |= {f"{name}_{part}": small[f"{name}_{part}"][:most] for name, most in lengths.items()}
    np.savez_compressed(folder / problem("thumos14").file, **small)
    with np.load(data / problem("electricity").file) as of:
        small = {name: x if name == "region" else x[hours] for name, x in dict(of).items()}
    np.savez_compressed(folder / problem("electricity").file, **small)
    return sum(file.stat().st_size for file in folder.glob("*.npz"))


def models(variant: str, n: int, d: int, heads: int, m: int, decay: bool, pinv: Any) -> list[ns.StreamModel]:
    """Two models with learned landmarks, in float64."""
    torch.manual_seed(0)
    cfg = ns.AttentionConfig(variant, d, heads, n, None if variant == "co-full-single" else m, pinv=pinv, decay=decay)
    made = [
        ns.StreamModel(ns.ModelConfig(input_dim=8, output_dim=4, attention=cfg, stack="deep", ff_dim=16))
        for _ in range(2)
    ]
    for model in made if cfg.fixed else ():
        attention = model.encoder.blocks[0].attention
        q_tilde = torch.randn(heads, m, d // heads)
        attention.set_landmarks(q_tilde, q_tilde if pinv == "none" else torch.randn_like(q_tilde))
        attention.learn_landmarks()
    return [model.to(DEVICE, torch.float64).eval() for model in made]


class Loss(torch.nn.Module):
    """A loss of all outputs of a piece, as `fit` computes it."""

    def __init__(self, model: ns.StreamModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor, lengths: Tensor, slope: Tensor) -> Tensor:
        y = self.model.outputs(x, self.model.init_state(len(x)), lengths=lengths)
        return (y.float() if y.dtype != torch.float64 else y).mul(slope).sum()


def gradients(
    made: list[ns.StreamModel], way: str, dtype: torch.dtype, autocast: torch.dtype | None, together: bool
) -> Gradients:
    """Gradients of the losses of two models, one after another as in `fit`, or together as in `fit_many`."""
    losses = [Loss(ns.StreamModel(model.config).to(DEVICE, dtype)) for model in made]
    for loss, model in zip(losses, made, strict=True):
        block = loss.model.encoder.blocks[0].attention
        if block.config.fixed:
            block.learn_landmarks()
        loss.model.load_state_dict(model.state_dict())
    generator = torch.Generator(DEVICE).manual_seed(1)
    x, slope = (torch.randn(2, 3, 150, width, device=DEVICE, generator=generator).to(dtype) for width in (8, 4))
    lengths = torch.tensor([150, 97, 143], device=DEVICE).expand(2, -1)
    casting = torch.autocast(DEVICE, dtype=autocast) if autocast else nullcontext()
    with fused.kernels(way):  # type: ignore[arg-type]
        if together:
            parameters, buffers = stack_module_state(losses)

            def of(parameters: dict[str, Tensor], buffers: dict[str, Tensor], *batch: Tensor) -> Tensor:
                return functional_call(losses[0], (parameters, buffers), batch)

            with casting:
                found = vmap(grad(of))(parameters, buffers, x, lengths, slope)
            return {name: x.detach().double() for name, x in found.items()}
        each: list[Gradients] = []
        for i, loss in enumerate(losses):
            with casting:
                total = loss(x[i], lengths[i], slope[i])
            total.backward()
            each.append({name: p.grad.double() for name, p in loss.named_parameters() if p.grad is not None})
    return {name: torch.stack([one[name] for one in each]) for name in each[0]}


def training() -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Gradients of kernels and of torch, for every type, loop and kind of attention."""
    precisions = {
        "float32": (torch.float32, None),
        "autocast to bfloat16": (torch.float32, torch.bfloat16),
        "autocast to float16": (torch.float32, torch.float16),
        "bfloat16": (torch.bfloat16, None),
    }
    kinds = (
        ("co-fixed-single", "newton", True),
        ("co-fixed-single", "none", False),
        ("co-full-single", "newton", True),
    )
    for sizes, (variant, pinv, decay) in product(SIZES, kinds):
        made = exact = None
        for (name, (dtype, autocast)), together in product(precisions.items(), (False, True)):

            def check(
                dtype: torch.dtype = dtype,
                autocast: torch.dtype | None = autocast,
                together: bool = together,
                options: tuple[Any, ...] = (variant, *sizes, decay, pinv),
            ) -> dict[str, Any]:
                nonlocal made, exact
                made = made or models(*options)
                exact = exact or gradients(made, "never", torch.float64, None, False)
                errors = {}
                for way in ("never", "always"):
                    ours = gradients(made, way, dtype, autocast, together)
                    errors[way] = error(ours, exact)
                exactly = dtype == torch.float32 and autocast is None
                most = max(TOLERANCE, 0.0 if exactly else 2 * errors["never"])
                return {"torch": errors["never"], "kernels": errors["always"], "right": errors["always"] <= most}

            how = f"{name}, {'together' if together else 'one by one'}"
            n, d, heads, m = sizes
            about = f"n={n} d={d} heads={heads} m={m} {pinv}{' decay' * decay}"
            yield f"{variant} {about}: {how}", check


def error(ours: Gradients, exact: Gradients) -> float:
    """The largest error of a weight's gradient, relative to its norm, or to a thousandth of the largest one."""
    floor = 1e-3 * max(x.norm() for x in exact.values())
    errors = [(ours[name] - x).norm() / x.norm().clamp(min=floor) for name, x in exact.items()]
    return float(torch.stack(errors).nan_to_num(1e30, 1e30).max())  # `max` would pass over NaN, and JSON has none


def pools() -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """The checks of the benchmark of pools, at sizes that are quick."""
    benchmark = import_module("gpu")
    for what, case in benchmark.checks(quick=True).items():
        yield what, partial(benchmark.checked, *case)


def cells(data: Path) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """A cell of each task, trained and scored with kernels and without."""
    for task, options in CELLS.items():

        def run(task: str = task, options: dict[str, Any] = options) -> dict[str, Any]:
            of = problem(task)
            own = {"model": "co-fixed-single", "landmarks": of.landmarks, "pinv": "none", "method": "x"}
            cell: Cell = of.usual(**own, learned=True, at_once=True, **options)
            splits = min(2, of.max_splits(cell))
            found: dict[str, Any] = {}
            for name, way in (("kernels", "auto"), ("torch", "never")):
                with tempfile.TemporaryDirectory() as work, fused.kernels(way):  # type: ignore[arg-type]
                    start = time.monotonic()
                    job = Job(
                        cell, splits, 2 if splits == 1 else 1, data, Path(work), DEVICE, COMMAND,
                        changes=(("epochs", 4),), show=False,
                    )  # fmt: skip
                    record = job.run()
                    metric = record["metric"]
                    found[name] = {metric: record["metrics"][metric]["mean"], "seconds": time.monotonic() - start}
            ours, theirs = (found[name][metric] for name in found)
            right = math.isfinite(ours) and abs(ours - theirs) <= 0.1 * max(abs(ours), abs(theirs))
            return {"cell": job.name, **found, "right": right}

        yield task, run


def times() -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """An update of a deep model with kernels and in torch, and a step of a pool."""
    steps, pool = import_module("gpu_steps"), import_module("_gpu_times")

    def update(variant: str) -> dict[str, Any]:
        row: dict[str, Any] = steps.compare(
            "update of a deep cell", steps.training(variant, 32), {"variant": variant}, 5
        )
        return row

    for variant in steps.VARIANTS:
        yield f"update of {variant}", partial(update, variant)
    yield (
        "step of 16,384 streams",
        lambda: pool.attention_times(SIZES[0], 16_384, "bfloat16", pool.copy_bandwidth()),
    )


def measure(data: Path, out: Path) -> bool:
    """Run all parts, write the record after each, and say whether all is right."""
    sys.path.insert(0, str(ROOT / "benchmarks"))  # the checks and times of pools and of `steps`
    figures: dict[str, Any] = {
        "device": torch.cuda.get_device_name(),
        "triton": provenance.installed("triton"),
        "sources": gpu_sources.digest(),
    }
    failures: dict[str, str] = {}
    wrong: list[str] = []
    begun = time.monotonic()
    parts = {"cells": cells(data), "training": training(), "pools": pools(), "times": times()}
    for part, items in parts.items():
        start, found = time.monotonic(), figures.setdefault(part, {})
        for what, item in items:
            try:
                found[what] = item()
                if not found[what].get("right", True):
                    wrong.append(f"{part}: {what}")
                print(f"{what}: {found[what]}", flush=True)
            except Exception as error:
                failures[f"{part}: {what}"] = f"{type(error).__name__}: {error}"[:600]
                print(f"FAILED {what}: {traceback.format_exc(limit=-3)}", flush=True)
        figures |= {"wrong": wrong, "failures": failures, "seconds": round(time.monotonic() - begun)}
        provenance.write(out, COMMAND, figures)
        print(f"== {part}: {time.monotonic() - start:.0f} s", flush=True)
    print(f"{len(wrong)} wrong {wrong}, {len(failures)} failed {list(failures)}; written to {out}")
    return not (wrong or failures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prepare", type=Path, metavar="FOLDER", help="write thinned data sets to this folder")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="folder of thinned data sets")
    parser.add_argument("--out", type=Path, default=RECORD, help="the record (default: results/gpu_smoke.json)")
    parser.add_argument("--check", action="store_true", help="only say whether the record is older than the code")
    options = parser.parse_args()
    if options.check:
        sys.exit(gpu_sources.age(options.out) or 0)
    if options.prepare:
        if "NYSTREAM_DATA" not in os.environ:
            parser.error("set NYSTREAM_DATA to the folder of the whole data sets")
        size = prepare(Path(os.environ["NYSTREAM_DATA"]), options.prepare)
        sys.exit(None if size <= 12e6 else f"the thinned data take {size / 1e6:.1f} MB, more than 12 MB")
    if options.data is None or not torch.cuda.is_available():
        parser.error("give --data FOLDER, on a machine with a GPU; nothing was run")
    sys.exit(not measure(options.data, options.out))


if __name__ == "__main__":
    main()

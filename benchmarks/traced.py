"""A step of one stream, as torch runs it and as AOTInductor compiles it.

    python benchmarks/traced.py   # about two minutes; needs a C++ compiler

All of a model take turns on one thread, after a full window: the eager step and the compiled one, each with its states
copied and in place. Written to results/traced.json.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from _common import write_results
from torch import Tensor

import nystream as ns
from nystream import state as states
from nystream.export.traced import compile_program, export_program
from nystream.lab.bench.sizes import ModelSizes, build_model, twin
from nystream.lab.bench.timing import TimedCall, measure

# variant, blocks of a paper stack, window
MODELS = (
    ("co-fixed-single", 1, 120),
    ("co-cont-single", 1, 120),
    ("co-full-single", 1, 120),
    ("co-fixed-single", 2, 120),
    ("co-fixed-single", 1, 128),
    ("co-fixed-single", 1, 16_384),
)
ROUNDS = 100


def eager(model: ns.StreamModel, start: Any, inplace: bool) -> Callable[[Tensor], Tensor]:
    state = states.clone(start)

    def step(x: Tensor) -> Tensor:
        nonlocal state
        y, state = model.step(x, state, inplace=inplace)
        return y

    return step


def compiled(model: ns.StreamModel, start: Any, inplace: bool, folder: Path) -> Callable[[Tensor], Tensor]:
    path = compile_program(export_program(model, inplace=inplace), folder / f"{inplace}.pt2")
    program, leaves = torch._inductor.aoti_load_package(path), [x.clone() for _, x in states.named_leaves(start)]

    def step(x: Tensor) -> Tensor:
        nonlocal leaves
        if inplace:
            return program(x, *leaves)
        y, *leaves = program(x, *leaves)
        return y

    return step


def main() -> None:
    torch.set_num_threads(1)
    rows = []
    for variant, layers, n in MODELS:
        sizes = ModelSizes(window=n, layers=layers)
        base = build_model(sizes.replace(layers=layers))
        model = twin(base, sizes, variant, stack="paper")
        x = torch.randn(64, 1, sizes.input_dim)
        with torch.inference_mode(False), torch.no_grad(), tempfile.TemporaryDirectory() as folder:
            start = model.advance(torch.randn(1, 2 * n, sizes.input_dim), model.init_state(1))
            steps = {"eager": eager(model, start, False), "eager, in place": eager(model, start, True)}
            for name, inplace in (("AOTInductor", False), ("AOTInductor, in place", True)):
                steps[name] = compiled(model, start, inplace, Path(folder))
            for token in x[:8]:
                outputs = [step(token) for step in steps.values()]
                for y in outputs[1:]:
                    torch.testing.assert_close(y, outputs[0], rtol=0, atol=1e-5)
            jobs = {name: TimedCall(step, [(token,) for token in x]) for name, step in steps.items()}
            times = measure(jobs, ROUNDS, lambda: None)
        rows.append(
            {"variant": variant, "layers": layers, "n": n}
            | {"median_microseconds": {name: took.median * 1e6 for name, took in times.items()}}
        )
        print(rows[-1], flush=True)
    print(write_results("traced", {"models": rows}))


if __name__ == "__main__":
    main()

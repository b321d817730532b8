"""Write the golden files: python -m tests.golden.write [attention] [models] [pools] [training] [costs]

All parts, or those that are named. Outputs of attentions must equal the float64 reference, and the faces of a case each
other; otherwise nothing is written. A part is written again only in a commit of its own that says why.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from torch import Tensor

import nystream as ns
from tests.golden import cases, runs

FOLDER = Path(__file__).parent
TOLERANCE = 1e-9  # of outputs in float64, relative to the largest

Part = dict[str, dict[str, Any]]  # by case: "outputs", "leaves" (by name) and "sums" [leaves, 4]


def read(part: str) -> Part:
    """Read a part: an index that can be read, and the numbers of all cases, one after the other."""
    index = json.loads((FOLDER / f"{part}.json").read_text("utf-8"))
    with np.load(FOLDER / f"{part}.npz") as file:
        numbers = {name: torch.from_numpy(file[name]) for name in file.files}
    golden: Part = {}
    for case, entry in index.items():
        shapes = {"outputs": entry["outputs"], "sums": [len(entry["leaves"]), 4]}
        golden[case] = {"leaves": entry["leaves"]}
        for name in numbers:
            size = int(np.prod(shapes[name]))
            golden[case][name] = numbers[name][:size].reshape(shapes[name])
            numbers[name] = numbers[name][size:]
    if left := [name for name, rest in numbers.items() if len(rest)]:
        raise ValueError(f"{part}.npz has more {left[0]} than {part}.json describes; write both again")
    return golden


def save(part: str, golden: Part) -> None:
    """Write a part; the numbers of a case have the order of the index."""
    entries = {
        case: {"outputs": list(entry["outputs"].shape), "leaves": entry["leaves"]} for case, entry in golden.items()
    }
    write_json(part, entries)
    names = [name for name in ("outputs", "sums") if all(name in entry for entry in golden.values())]
    flat = {name: torch.cat([entry[name].flatten() for entry in golden.values()]).numpy() for name in names}
    np.savez_compressed(FOLDER / f"{part}.npz", **flat)


def write_json(part: str, entries: dict[str, Any]) -> None:
    """One line for each case."""
    lines = (f"{json.dumps(case)}: {json.dumps(entry)}" for case, entry in entries.items())
    (FOLDER / f"{part}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


def same(case: str, face: str, actual: Tensor, expected: Tensor, tolerance: float = TOLERANCE) -> None:
    """Raise AssertionError, with the case and the face, unless two results are the same."""
    shapes = f"{list(actual.shape)}, not {list(expected.shape)}"
    assert actual.shape == expected.shape, f"{case}: {face} returns {shapes}"
    error = ns.testing.relative_error(actual, expected)
    assert error <= tolerance, f"{case}: {face} is off by {error:.1e} of the largest output, more than {tolerance:.0e}"


def reference(case: cases.Case) -> Tensor:
    """What is kept of the outputs of an attention, from the float64 reference, each stream by itself."""
    rows = []
    for row, end in enumerate(case.ends.tolist()):
        starts = [0, *case.restarts[row, :end].nonzero()[:, 0].tolist()]
        pieces: dict[int, Tensor] = {}
        for start, stop in zip(starts, [*starts[1:], end], strict=True):
            x = case.x[row : row + 1, start:stop]
            key = None if case.key is None else case.key[row : row + 1, start:stop]
            if case.newest:
                y = ns.testing.reference_outputs(case.module, x, key)[0]
                pieces |= {start + i: y[i - 1] for i in range(1, stop - start + 1)}
            else:
                for t in case.times:
                    if start < (time := min(t, end)) <= stop:
                        y = ns.testing.reference_outputs(case.module, x, key, [time - start])
                        pieces[t] = y[0, 0]
        rows.append(torch.stack([pieces.get(t, torch.zeros(4).double()) for t in case.times]))
    return torch.stack(rows)


def streamed(part: str) -> Part:
    """Attentions or models: what `step` returns, if all agrees."""
    golden: Part = {}
    names, make = cases.PARTS[part]
    for name in names:
        case = make(name)
        outputs, state = case.step()
        if part == "attention":
            same(name, "step, beside the reference,", outputs, reference(case))
        check_faces(name, case, outputs)
        leaves = cases.sums(state)
        golden[name] = {
            "outputs": outputs,
            "leaves": {leaf: spec for leaf, (spec, _) in leaves.items()},
            "sums": torch.stack([sums for _, sums in leaves.values()]),
        }
    return golden


def check_faces(name: str, case: cases.Case, golden: Tensor) -> Any:
    """Compare `steps` and `forward` with golden outputs; return the state after `steps`."""
    outputs, state = case.steps()
    same(name, "steps", outputs, golden if case.newest else golden[:, -1:])
    for face, outputs, ends in case.windows():
        expected = torch.stack([case.expected(golden, row, time) for row, time in ends])
        same(name, face, outputs, expected)
    return state


def pools() -> Part:
    """The outputs of six models in float64, which all pools have to give, and the leaves of a snapshot."""
    golden: Part = {}
    for name in cases.POOLS:
        case = cases.pool(name)
        pool = ns.StreamPool(case.model, 2, "torch")
        outputs, blob = case.pushed(pool, pool)
        same(name, "the pool", outputs[0], expected := case.expected(), 1e-5)
        golden[name] = {"outputs": expected.float(), "leaves": snapshot_leaves(blob)}
    return golden


def snapshot_leaves(blob: bytes) -> dict[str, str]:
    return {name: cases.spec(leaf) for name, leaf in sorted(safetensors.torch.load(blob).items())}


def main(parts: list[str]) -> None:
    made = {
        "attention": lambda: save("attention", streamed("attention")),
        "models": lambda: save("models", streamed("models")),
        "pools": lambda: save("pools", pools()),
        "training": lambda: write_json("training", {name: run() for name, run in runs.TRAINING.items()}),
        "costs": lambda: write_json("costs", cases.costs()),
    }
    if unknown := [part for part in parts if part not in made]:
        sys.exit(f"{unknown[0]!r} is not a part of the golden files; they are {', '.join(made)}")
    torch.set_num_threads(1)
    for part in parts or made:
        made[part]()


if __name__ == "__main__":
    main(sys.argv[1:])

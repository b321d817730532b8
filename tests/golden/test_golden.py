"""Nothing has changed by accident: today's numbers beside those of the golden files, which `write.py` wrote."""

import json

import numpy as np
import pytest
import torch

import nystream as ns
from tests.golden import cases, runs, write

GOLDEN = {part: write.read(part) for part in ("attention", "models", "pools")}
TOLERANCE = {"float64": 1e-9, "float32": 1e-5, "bfloat16": 1e-2, "int8": 3e-2}  # of the largest output

# Largest logits and masses of rows, which `steps` sums in another order than `step`: outputs do not depend on that.
OWN_TO_STEP = ("row_top", "row_mass", "row_peak")


def read_json(part):
    return json.loads((write.FOLDER / f"{part}.json").read_text("utf-8"))


def same_leaves(name, face, state, golden, ignored=()):
    leaves = cases.sums(state)
    assert {leaf: spec for leaf, (spec, _) in leaves.items()} == golden["leaves"], f"{name}: leaves of {face}"
    for expected, (leaf, (_, sums)) in zip(golden["sums"], leaves.items(), strict=True):
        if leaf.rpartition(".")[2] in ignored:
            continue
        count, largest = expected[:2].tolist()
        error = (sums - expected).abs().max().item()
        allowed = TOLERANCE["float64"] * max(largest, 1e-9) * max(count, 1) ** 0.5
        assert error <= allowed, f"{name}: the leaf {leaf} of {face} is not as it was (sums differ by {error:.1e})"


@pytest.mark.parametrize("part", ["attention", "models"])
def test_every_case_has_golden_outputs(part):
    assert list(GOLDEN[part]) == list(cases.PARTS[part][0])


@pytest.mark.parametrize(("part", "name"), [(part, name) for part, (names, _) in cases.PARTS.items() for name in names])
def test_faces(part, name):
    case, golden = cases.PARTS[part][1](name), GOLDEN[part][name]
    for face, inplace in (("step", False), ("step in place", True)):
        outputs, state = case.step(inplace)
        write.same(name, face, outputs, golden["outputs"])
        same_leaves(name, f"the state after {face}", state, golden)
    state = write.check_faces(name, case, golden["outputs"])
    same_leaves(name, "the state after steps", state, golden, OWN_TO_STEP)


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "weights"), [("torch", "float32"), *(("auto", w) for w in list(TOLERANCE)[1:])])
@pytest.mark.parametrize("name", cases.POOLS)
def test_pools(name, backend, weights):
    case, golden = cases.pool(name), GOLDEN["pools"][name]
    pool = ns.StreamPool(case.model, 1, backend, weights)
    other = ns.StreamPool(case.model, 1, "auto" if backend == "torch" else "torch")
    (stayed, moved), blob = case.pushed(pool, other)
    face = f"a pool on {pool.backend} with {weights} weights"
    write.same(name, face, stayed, golden["outputs"], TOLERANCE[weights])
    write.same(name, f"{face}, continued on {other.backend}", moved, golden["outputs"], TOLERANCE[weights])
    assert write.snapshot_leaves(blob) == golden["leaves"], f"{name}: leaves of a snapshot of {face}"


@pytest.mark.slow
@pytest.mark.parametrize("name", cases.POOLS)
def test_exported_models(name, tmp_path):
    case = cases.pool(name)
    stream = ns.OnnxStream(ns.export_onnx(case.model, tmp_path / "model.onnx"))
    tokens = case.x[0].unflatten(0, (-1, r)) if (r := case.model.config.update_size) > 1 else case.x[0]
    outputs = np.stack([stream.push(token) for token in tokens.numpy()]).reshape(len(case.x[0]), -1)
    golden = GOLDEN["pools"][name]["outputs"][: len(outputs)]
    write.same(name, "the exported model", torch.from_numpy(outputs), golden, TOLERANCE["float32"])


@pytest.mark.slow
@pytest.mark.parametrize("name", runs.TRAINING)
def test_training(name):
    golden, actual = read_json("training")[name], runs.TRAINING[name]()
    assert list(actual) == list(golden), f"{name}: names of the results"
    for what, numbers in actual.items():
        # Another order of sums must pass: a run carries its rounding errors on from update to update.
        np.testing.assert_allclose(numbers, golden[what], rtol=1e-4, err_msg=f"{name}: {what}")


def test_costs():
    golden, actual = read_json("costs"), cases.costs()
    assert list(actual) == list(golden)
    assert [(name, actual[name], golden[name]) for name in golden if actual[name] != golden[name]] == []

"""Files of earlier versions still load, and streams that resume from them give the outputs of those versions.

The files and the outputs are in `fixtures`; `fixtures/write.py` wrote them.
"""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import nystream as ns

FOLDERS = sorted(path.parent for path in (Path(__file__).parent / "fixtures").glob("*/*/config.json"))
BEFORE = 38


@pytest.fixture(params=FOLDERS, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def folder(request):
    return request.param


@pytest.fixture
def model(folder):
    return ns.StreamModel.from_pretrained(folder).requires_grad_(False)


@pytest.fixture
def numbers(folder):
    return load_file(folder / "numbers.safetensors")


def same(model, got, expected):
    """Relative to the largest output: rounding of float32, and of the inverses that a stream makes of Γ.

    Those amplify it, by the condition of Γ, and may be computed in another precision than they were.
    """
    tolerance = 1e-4 if any(block.record.landmarks == "stream" for block in model.config.blocks) else 1e-5
    expected = np.asarray(expected)
    np.testing.assert_allclose(np.asarray(got), expected, rtol=0, atol=tolerance * np.abs(expected).max())


def test_there_are_files():
    assert [folder.name for folder in FOLDERS if folder.parent.name == "0.1.0"] == ["cont", "deep", "fixed", "learned"]


def test_a_model(model, numbers):
    assert model.info.labels == ("a", "b", "c")
    same(model, model(numbers["x"][:, : model.config.window]), numbers["window"])


def test_a_module_that_was_pickled_whole(folder, model, numbers):
    module = torch.load(folder / "module.pt", weights_only=False)
    for again in (module, copy.deepcopy(module)):
        again.load_state_dict(model.state_dict())
        same(model, again(numbers["x"][:, : model.config.window]), numbers["window"])
    for attention in (block.attention for block in module.encoder.blocks if block.attention.config.fixed):
        attention.q_tilde.data.neg_()
        assert torch.equal(attention.gamma_pinv, copy.deepcopy(attention).gamma_pinv)


def test_a_state(folder, model, numbers):
    state, rest = ns.load_state(folder / "state.safetensors", model), numbers["x"][:, BEFORE:]
    assert state.time.tolist() == [BEFORE, BEFORE]
    same(model, model.steps(rest, state)[0], numbers["streamed"])
    r, outs = model.config.update_size, []
    for token in rest.split(r, 1):
        y, state = model.step(token, state)
        outs.append(y)
    same(model, torch.cat(outs, 1), numbers["streamed"])


@pytest.mark.parametrize("backend", ["torch", "numba"])
def test_a_snapshot(folder, model, numbers, backend):
    pool, r = ns.StreamPool(model, backend=backend), model.config.update_size
    sid = pool.restore((folder / "snapshot.safetensors").read_bytes())
    assert pool.time(sid) == BEFORE
    rest = numbers["x"][0, BEFORE:]
    outs = [pool.push(sid, token[0] if r == 1 else token).reshape(r, -1) for token in rest.split(r)]
    same(model, np.concatenate(outs), numbers["pushed"])

"""Steps in torch and in ONNX Runtime give what the model gives."""

import sys

import numpy as np
import pytest
import torch

from nystream.lab.rivals import RecurrentConfig, RecurrentModel, steppers
from nystream.lab.rivals.steppers import OnnxStep, TorchStep


@pytest.mark.parametrize(("kind", "form", "layers"), [("gru", "cells", 1), ("lstm", "operators", 2)])
def test_a_stream(kind, form, layers):
    pytest.importorskip("onnxscript")
    torch.manual_seed(0)
    config = RecurrentConfig(kind=kind, input_dim=3, output_dim=4, embed_dim=8, layers=layers, dropout=0.5)
    model = RecurrentModel(config)
    model.input_scaler.set(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.5, 1.0, 2.0]))
    x = torch.randn(7, 3)
    eager, graph = TorchStep(model), OnnxStep(model, form)
    outputs = np.stack([[step.push(token) for token in x.numpy()] for step in (eager, graph)])
    with torch.no_grad():
        expected = model.steps(x[None], model.init_state(1))[0][0].numpy()
    np.testing.assert_allclose(outputs, np.stack([expected, expected]), atol=1e-5)  # float32, values of about 1


def test_missing_packages_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(
        ModuleNotFoundError, match=r"needs ONNX: pip install -c constraints.txt '\.\[export\]', or use --no-steps"
    ):
        steppers.require()

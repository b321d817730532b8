"""The graph of a step equals `model.step`, with states that are copied or overwritten in place."""

import numpy as np
import onnxruntime
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nystream as ns
from nystream.export.step import Step, step_graph

# Outputs are of the order of 1, and a step of float32 rounds to about 1e-7 of that; every operator adds some.
TOLERANCE = 1e-5

MODELS = {
    "full": {"variant": "co-full-single"},
    "full, post-norm": {"variant": "co-full-single", "layers": 2, "norm": "post", "activation": "relu"},
    "full, groups, decay": {"variant": "co-full-single", "window": 12, "update_size": 3, "decay": True},
    "full, no positions": {
        "variant": "co-full-single",
        "window": 1,
        "landmarks": 1,
        "positions": "none",
        "final_norm": False,
    },
    "fixed": {"variant": "co-fixed-single"},
    "fixed, no bias": {"variant": "co-fixed-single", "bias": False, "positions": "sinusoidal", "num_positions": 5},
    "fixed, groups, decay": {"variant": "co-fixed-single", "window": 12, "update_size": 3, "decay": True},
    "fixed, no inverse": {"variant": "co-fixed-single", "layers": 3, "decay": True, "pinv": "none"},
    "fixed, partial sums": {"variant": "co-fixed-single", "sums": "partials", "window": 9, "landmarks": 9},
    "continual": {"variant": "co-cont-single"},
    "continual, ridge": {"variant": "co-cont-single", "layers": 2, "decay": True, "pinv": "ridge"},
    "continual, no inverse": {"variant": "co-cont-single", "window": 6, "landmarks": 6, "pinv": "none"},
    "continual, one landmark": {"variant": "co-cont-single", "window": 5, "landmarks": 1},
    "linear path": {"variant": "co-fixed-single", "linear": ns.LinearConfig(segments=(1, 1, 3, 3, 6), inputs=2)},
    "embedded path": {"layers": 2, "linear": ns.LinearConfig(segments=(1, 4, 2), embedded=True)},
    "newest token": {"variant": "co-cont-single", "linear": ns.LinearConfig()},
}
LONG = {
    "long": {"window": 61, "landmarks": 2},
    "long, decay": {"window": 83, "landmarks": 3, "decay": True, "layers": 2},
    "long, groups": {"window": 84, "landmarks": 3, "decay": True, "update_size": 3},
}


class Client:
    """Feeds each next state back as the state, in the same memory or in a copy of it."""

    def __init__(self, model, streams, in_place):
        self.step = Step(model, "float32")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        graph = step_graph(self.step).model("step", {}).SerializeToString()
        self.session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        self.states = [np.full((streams, *s.shape), s.initial, s.dtype) for s in self.step.states]
        self.in_place = in_place

    def push(self, x, outputs):
        binding, y = self.session.io_binding(), np.full((*x.shape[:-1], outputs), np.nan, np.float32)
        nexts = self.states if self.in_place else [np.full_like(state, 99) for state in self.states]
        for bind, name, arrays in (
            (binding.bind_input, "input", [x, *self.states]),
            (binding.bind_output, "output", [y, *nexts]),
        ):
            names = ["x" if name == "input" else "y", *(getattr(s, name) for s in self.step.states)]
            for each, array in zip(names, arrays, strict=True):
                bind(each, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
        self.session.run_with_iobinding(binding)
        self.states = nexts
        return y

    def start_again(self, row):
        for state, s in zip(self.states, self.step.states, strict=True):
            state[row] = s.initial


def check(model, tokens, outputs, groups, in_place):
    """Three streams that start at different times, so that they are at different phases."""
    r, width = model.config.update_size, model.config.output_dim
    starts = (0, 3, 7)
    x = tokens(3, groups * r, model.config.input_dim)
    wanted = [outputs(model, x[row, start * r :]) for row, start in enumerate(starts)]
    client = Client(model, 3, in_place)
    for k in range(groups):
        for row, start in enumerate(starts):
            if k == start:
                client.start_again(row)
        shape = (3, -1) if r == 1 else (3, r, -1)
        y = client.push(np.ascontiguousarray(x[:, k * r : (k + 1) * r].reshape(shape)), width).reshape(3, r, width)
        for row, start in enumerate(starts):
            if k >= start:
                np.testing.assert_allclose(y[row], wanted[row][(k - start) * r : (k - start + 1) * r], atol=TOLERANCE)


@pytest.mark.parametrize("in_place", [True, False], ids=["in place", "copied"])
@pytest.mark.parametrize("name", MODELS)
def test_equals_the_step(build, tokens, outputs, name, in_place):
    check(build(**MODELS[name]), tokens, outputs, 40, in_place)


@pytest.mark.usefixtures("short_blocks")
@pytest.mark.parametrize("in_place", [True, False], ids=["in place", "copied"])
@pytest.mark.parametrize("name", LONG)
def test_a_long_window_equals_the_step(build, tokens, outputs, name, in_place):
    """Three laps of the ring, whose blocks have three tiers above them."""
    check(build(**LONG[name]), tokens, outputs, 3 * 84, in_place)


@pytest.mark.slow
@pytest.mark.usefixtures("short_blocks")
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    groups=st.integers(1, 40),
    update_size=st.integers(1, 3),
    landmarks=st.integers(1, 5),
    decay=st.booleans(),
    variant=st.sampled_from(["co-fixed-single", "co-cont-single", "co-full-single"]),
)
def test_equals_the_step_at_any_size(build, tokens, outputs, groups, update_size, landmarks, decay, variant):
    update_size = 1 if variant == "co-cont-single" else update_size
    window = groups * update_size
    model = build(
        variant, window=window, landmarks=min(landmarks, window), update_size=update_size, decay=decay, seed=groups
    )
    check(model, tokens, outputs, 2 * groups + 10, True)


def test_outliers_leave_no_trace(build, tokens, outputs, short_blocks):
    """A token with logits of about a hundred changes nothing once it has left the window."""
    model, x = build(window=33, decay=False), tokens(120, 5)
    x[20:25] *= 1e3
    client = Client(model, 1, True)
    y = np.concatenate([client.push(x[k : k + 1], 3) for k in range(120)])
    np.testing.assert_allclose(y, outputs(model, x), atol=2e-5)


def test_a_graph_has_few_operators(build):
    """Every operator takes about a microsecond, however small its tensors are."""
    count = len(step_graph(Step(build(), "float32")).nodes)
    assert count <= 40

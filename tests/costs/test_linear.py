"""The cost of a linear path equals what models and pools need, to the byte."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import nystream as ns

PATHS = [
    ns.LinearConfig(),
    ns.LinearConfig(segments=7),
    ns.LinearConfig(segments=40, inputs=1),
    ns.LinearConfig(segments=(1, 3, 28), inputs=2, embedded=True),
    ns.LinearConfig(segments=(1, 1, 5, 5), embedded=True),
]


def model(linear, dtype=torch.float32):
    attention = ns.AttentionConfig("co-full-single", 8, 2, 4)
    config = ns.ModelConfig(input_dim=5, output_dim=3, attention=attention, stack="deep", linear=linear)
    return ns.StreamModel(config, dtype=dtype).eval().requires_grad_(False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("path", PATHS)
def test_bytes_of_a_state(path, dtype):
    with_path, without = (ns.state.nbytes(model(linear, dtype).init_state(1)) for linear in (path, None))
    assert with_path - without == ns.costs.linear(path, 5, 3, 8, token_bytes=dtype.itemsize).state_bytes


@pytest.mark.parametrize("path", PATHS)
def test_bytes_of_a_stream_in_a_compiled_pool(path):
    with_path, without = (ns.StreamPool(model(linear), 1, "numba").bytes_per_stream for linear in (path, None))
    assert with_path - without == ns.costs.linear(path, 5, 3, 8).pool_bytes


@pytest.mark.parametrize("path", PATHS)
def test_products_are_those_that_torch_counts(path):
    counts = []
    for linear in (path, None):
        made = model(linear)
        with FlopCounterMode(display=False) as counter:
            made.step(torch.randn(1, 5), made.init_state(1))
        counts.append(counter.get_total_flops() // 2)
    assert counts[0] - counts[1] == ns.costs.linear(path, 5, 3, 8).products


def test_additions():
    assert [ns.costs.linear(path, 5, 3, 8).additions for path in PATHS] == [0, 0, 0, 31 * 2, 10 * 5]


def test_a_path_of_many_lags_of_one_number_is_small():
    path = ns.costs.linear(ns.LinearConfig(segments=336, inputs=1), 60, 1)
    assert path == (395, 0, 1340, 1344)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((None, 5, 3), TypeError, "path is a NoneType, but must be a LinearConfig"),
        ((PATHS[0], 0, 3), ValueError, "input_dim must be an integer of at least 1, got 0"),
        ((PATHS[0], 5, -1), ValueError, "output_dim must be an integer of at least 1, got -1"),
        ((PATHS[3], 5, 3), ValueError, "embed_dim must be an integer of at least 1, got None"),
    ],
)
def test_arguments_are_checked(arguments, error, words):
    with pytest.raises(error, match=words):
        ns.costs.linear(*arguments)

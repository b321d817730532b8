"""The nine records, each also registered under a tenth name."""

import dataclasses
import re
from pathlib import Path

import pytest
import torch

import nystream as ns
from nystream import costs, testing, variants
from nystream.stream.cpu.support import unsupported
from nystream.variants.record import load


@pytest.fixture(params=ns.VARIANTS)
def record(request):
    """One of the nine variants, also registered as "tenth"."""
    nine = variants.get(request.param)
    with testing.registered(dataclasses.replace(nine, name="tenth")):
        yield nine


def config(variant, **options):
    sizes = {"embed_dim": 8, "num_heads": 2, "window": 7, "landmarks": 3}
    return ns.AttentionConfig(variant, **{**sizes, **options})


def ready(module):
    for part in module.modules():
        if isinstance(part, ns.MultiheadAttention) and part.config.fixed:
            shape = (2, part.config.m, 4)
            part.set_landmarks(torch.randn(shape), torch.randn(shape))
    return module.eval()


def test_a_tenth_name_is_the_same_variant(record):
    one, other = config(record.name), config("tenth")
    for name in ("low_rank", "fixed", "single", "rows", "receptive_field", "form"):
        assert getattr(one, name) == getattr(other, name)
    assert (unsupported(ready(ns.MultiheadAttention(other))) is None) == (record.kernel is not None)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_a_tenth_name_costs_the_same(record, layers):
    sizes = (30, 8, 3, layers)
    for count in (costs.flops, costs.memory):
        for corrected in (False, True):
            assert count("tenth", *sizes, corrected=corrected) == count(record.name, *sizes, corrected=corrected)
    assert costs.executed("tenth", *sizes) == costs.executed(record.name, *sizes)
    assert costs.dense("tenth", 30, 8, 16, layers) == costs.dense(record.name, 30, 8, 16, layers)
    assert costs.state_bytes("tenth", 30, 8, 3, layers=layers) == costs.state_bytes(
        record.name, 30, 8, 3, layers=layers
    )


def test_a_tenth_name_in_a_paper_stack(record):
    def blocks(variant, layers):
        cfg = ns.EncoderConfig(attention=config(variant), layers=layers, stack="paper")
        return [block.variant for block in cfg.blocks]

    *before, last = blocks(record.name, 3)
    assert blocks("tenth", 3) == [*before, "tenth" if record.single else last]
    assert blocks("tenth", 1) == ["tenth" if record.single else last]


@pytest.mark.parametrize("record", ["co-cont-single"], indirect=True)
def test_the_contract_under_a_tenth_name(record):
    torch.manual_seed(0)
    small = config("tenth", window=4, landmarks=2)
    testing.check_stream_module(ready(ns.MultiheadAttention(small, dtype=torch.float64)), gradients=False)
    cfg = ns.ModelConfig(input_dim=3, output_dim=2, attention=small, layers=2, ff_dim=6)
    testing.check_stream_module(ready(ns.StreamModel(cfg, dtype=torch.float64)), tokens=14, gradients=False)


@pytest.mark.parametrize("record", [v for v in ns.VARIANTS if variants.get(v).kernel], indirect=True)
def test_the_compiled_pool_runs_a_tenth_name(record):
    pytest.importorskip("numba")
    attn = ready(ns.MultiheadAttention(config("tenth")))
    pool = ns.StreamPool(attn, capacity=1, backend="numba")
    sid, state = pool.open(), attn.init_state(1)
    for x in torch.randn(20, 8):
        with torch.no_grad():
            y, state = attn.step(x[None], state)
        # Two orders of summation in float32, as in the contract suite.
        assert testing.relative_error(torch.as_tensor(pool.push(sid, x)), y[0]) < testing.TOLERANCE[torch.float32]


@pytest.mark.parametrize("name", ns.VARIANTS)
def test_what_a_record_names_is_there(name):
    record = variants.get(name)
    assert callable(record.functions.steps)
    assert variants.get(record.roles.last).single != record.plain
    assert not variants.get(record.roles.first).single
    assert not variants.get(record.roles.middle).single
    fixed = variants.get(record.fixed_form)
    assert fixed.fixed
    assert fixed.rows == record.rows
    assert isinstance(load("costs", record.costs), costs.CostModel)


def test_nothing_is_read_from_a_name():
    """No module tests a variant's name, or parts of it."""
    asks = re.compile(
        r"""["'][a-z-]+["'] (not )?in (\w+\.)*variant\b"""
        r"""|\bvariant\.(startswith|endswith|removesuffix|removeprefix|partition|rpartition|split)\("""
        rf"""|\bcfg\.variant (==|!=|in|not in)|\bvariant (==|!=) ["']({"|".join(ns.VARIANTS)})["']"""
    )
    package = Path(ns.__file__).parent
    found = [
        f"{path.relative_to(package)}:{number}: {line.strip()}"
        for path in sorted(package.rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if asks.search(line)
    ]
    assert not found

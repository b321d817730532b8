"""A variant registered from outside the package: the mean of the values in the window, without queries or keys."""

import copy
import pickle
import sys
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

import nystream as ns
from nystream import costs, testing, variants
from nystream.ops import ring


class MeanState(NamedTuple):
    time: Tensor  # [B]
    ring_value: Tensor  # [B, n, H, D]


def forward(q, k, v, cfg, fixed=None, lengths=None):
    n = v.shape[2]
    count = torch.full((v.shape[0],), n, device=v.device) if lengths is None else lengths
    exists = torch.arange(n, device=v.device) >= n - count[:, None]  # [B, n]
    mean = (v * exists[:, None, :, None]).sum(2) / count.clamp(min=1)[:, None, None]
    return mean[:, :, None].expand(-1, -1, cfg.update_size, -1).to(v.dtype)


def init_state(cfg, batch, dtype, device=None):
    values = torch.zeros(batch, cfg.window, cfg.num_heads, cfg.head_dim, dtype=dtype, device=device)
    return MeanState(torch.zeros(batch, dtype=torch.long, device=device), values)


def step(q, k, v, state, cfg, fixed=None):
    ring.write(state.ring_value, state.time, v.transpose(1, 2))
    state = state._replace(time=state.time + q.shape[2])
    values = ring.unroll(state.ring_value, state.time).transpose(1, 2)
    return forward(q, k, values, cfg, lengths=state.time.clamp(max=cfg.window)), state


def steps(q, k, v, state, cfg, fixed, when):
    n, length = cfg.window, v.shape[2]
    values = torch.cat([ring.unroll(state.ring_value, state.time), v.transpose(1, 2)], 1)  # [B, n + T, H, D]
    places = torch.arange(n + length, device=v.device)
    seen = (places >= when.window_start(n)[..., None]) & (places <= when.window_end(n)[..., None])  # [B, T, n + T]
    mean = seen.to(v.dtype) / seen.sum(-1, keepdim=True)
    out = torch.einsum("bts,bshd->bhtd", mean, values)
    return out, MeanState(when.after, ring.roll_on(state.ring_value, values, when.lengths, when.after))


def reference(cfg, q, k, v, t, q_tilde, k_tilde):
    return v[..., max(t - cfg.window, 0) : t, :].mean(-2, keepdim=True).repeat_interleave(cfg.update_size, -2)


MEAN = {
    "name": "co-mean-single",
    "ops": SimpleNamespace(forward=forward, init_state=init_state, step=step, steps=steps),
    "rows": "newest",
    "reference": reference,
}


@pytest.fixture
def mean():
    with testing.registered(**MEAN) as record:
        yield record


def attention(**options):
    return ns.AttentionConfig("co-mean-single", **{"embed_dim": 4, "num_heads": 2, "window": 3, **options})


def model(dtype=torch.float64, **options):
    torch.manual_seed(1)
    cfg = ns.ModelConfig(input_dim=3, output_dim=2, attention=attention(), ff_dim=6, **options)
    return ns.StreamModel(cfg, dtype=dtype).eval()


@pytest.mark.parametrize(("window", "update_size"), [(1, 1), (7, 1), (12, 3)])
def test_the_contract(mean, window, update_size):
    attn = ns.MultiheadAttention(attention(window=window, update_size=update_size), dtype=torch.float64)
    assert attn.receptive_field == window
    testing.check_stream_module(attn)


@pytest.mark.parametrize("options", [{}, {"layers": 3, "stack": "deep"}], ids=["one block", "deep"])
def test_a_model(mean, options):
    testing.check_stream_module(model(**options))


def test_a_model_goes_through_a_folder(mean, tmp_path):
    ours, x = model(layers=2, stack="deep"), torch.randn(2, 9, 3, dtype=torch.float64)
    ours.save_pretrained(tmp_path)
    theirs = ns.StreamModel.from_pretrained(tmp_path).eval()
    assert theirs.config == ours.config
    assert torch.equal(theirs.steps(x, theirs.init_state(2))[0], ours.steps(x, ours.init_state(2))[0])


def test_a_folder_whose_variant_is_not_registered(tmp_path):
    with testing.registered(**MEAN):
        model().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"co-mean-single.*register_variant"):
        ns.StreamModel.from_pretrained(tmp_path)


def test_the_pool(mean):
    testing.check_stream_pool(model(), backend="torch", tokens=9)


def test_copies_and_pickles_know_the_record(mean):
    cfg = attention()
    for other in (copy.deepcopy(cfg), pickle.loads(pickle.dumps(cfg))):
        assert other == cfg
        assert other.record is mean
    assert copy.deepcopy(model()).config.blocks[0].record is mean


def test_what_it_cannot_be_is_said(mean):
    with pytest.raises(ValueError, match=r"'co-mean-single' cannot be used in a stack='paper'.*no roles.*stack='deep'"):
        model(layers=2, stack="paper")
    with pytest.raises(ValueError, match=r"'co-mean-single' cannot be used in a stack='paper'"):
        ns.EncoderConfig(attention=attention(), layers=2, stack="paper")
    assert model(layers=2).config.stack == "deep"
    with pytest.raises(ValueError, match="'co-mean-single', which has no kernel"):
        ns.StreamPool(model(torch.float32), backend="numba")
    with pytest.raises(ValueError, match=r"sums='partials' is not supported .*'co-mean-single'.* auto, recompute$"):
        attention(sums="partials")
    with pytest.raises(ValueError, match=r"dropout=0\.1 is not supported by variant 'co-mean-single'"):
        attention(dropout=0.1)
    with pytest.raises(ValueError, match="attn_mask= is not supported by variant 'co-mean-single'"):
        ns.MultiheadAttention(attention())(torch.zeros(1, 3, 4), attn_mask=torch.ones(3, 3, dtype=torch.bool))
    with pytest.raises(ValueError, match="'co-mean-single' has no counterpart in continual-inference"):
        ns.compat.to_continual(ns.StreamEncoder(ns.EncoderConfig(attention=attention())))
    with pytest.raises(ValueError, match="'co-mean-single', but phase one trains continual landmarks"):
        ns.train_two_phase(model(), None, task=ns.train.Forecasting())


@pytest.mark.parametrize(
    ("count", "missing"),
    [
        (lambda: costs.flops("co-mean-single", 8, 4), "flops"),
        (lambda: costs.memory("co-mean-single", 8, 4), "memory"),
        (lambda: costs.executed("co-mean-single", 8, 4), "executed"),
        (lambda: costs.state_bytes("co-mean-single", 8, 4), "state"),
    ],
)
def test_costs_that_are_not_declared(mean, count, missing):
    message = rf"'co-mean-single' has no formula for {missing}; register it with costs=nystream\.costs\.CostModel\("
    with pytest.raises(ValueError, match=rf"{message}{missing}=\.\.\.\)"):
        count()


def test_costs_that_are_declared():
    own = costs.CostModel(
        flops=lambda n, d, m: n * d,
        memory=lambda n, d, m: costs.Memory(n * d, n * d + d),
        executed=lambda s: costs.Executed(s.n * s.d, 0),
        state=lambda s: costs.Stored(s.n * s.d, 0),
    )
    with testing.registered(**MEAN, costs=own) as record:
        name = record.name
        assert costs.flops(name, 8, 4, heads=2) == costs.flops(name, 8, 4, heads=2, corrected=True) == 64
        assert costs.memory(name, 8, 4) == (32, 36)
        assert costs.executed(name, 8, 4, layers=3, stack="deep").total == 96
        state = ns.MultiheadAttention(attention(window=8)).init_state(1)
        assert costs.state_bytes(name, 8, 4) == ns.state.nbytes(state)
        with pytest.raises(ValueError, match="'co-mean-single' has no roles"):
            costs.flops(name, 8, 4, layers=2)
        with pytest.raises(ValueError, match="'co-mean-single' has no kernel"):
            costs.pool_bytes(name, 8, 4)


def test_without_a_reference_the_faces_are_compared_with_each_other():
    with testing.registered(ns.Variant(**{**MEAN, "reference": None})):
        attn = ns.MultiheadAttention(attention(), dtype=torch.float64)
        testing.check_stream_module(attn)
        testing.check_stream_pool(attn, backend="torch", tokens=9)
        with pytest.raises(ValueError, match="'co-mean-single' has no reference; register it with reference="):
            testing.reference_outputs(attn, torch.zeros(1, 3, 4))


def test_the_suite_finds_a_receptive_field_that_is_too_short():
    with testing.registered(**MEAN, receptive_field=lambda n, m: n - 1):
        attn = ns.MultiheadAttention(attention(), dtype=torch.float64)
        with pytest.raises(AssertionError, match="no more than receptive_field=2 tokens"):
            testing.check_stream_module(attn)


def test_a_module_by_its_import_path():
    with testing.registered(**{**MEAN, "ops": __name__, "reference": f"{__name__}:reference"}) as record:
        assert record.functions is sys.modules[__name__]
        testing.check_stream_module(ns.MultiheadAttention(attention(), dtype=torch.float64))


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"name": "full"}, ValueError, "name='full' is already registered"),
        ({"name": ""}, ValueError, "name='' must be a non-empty string"),
        ({"rows": "last"}, ValueError, "rows='last' is not known; it must be one of newest, all"),
        ({"landmarks": "means"}, ValueError, "landmarks='means' is not known; it must be one of none, window"),
        ({"sums": ("recompute", "add")}, ValueError, "sums='add' is not known; it must be one of auto, partials"),
        ({"sums": ("partials",)}, ValueError, "must include 'recompute'"),
        ({"sums": "recompute"}, TypeError, "sums='recompute' must be a tuple"),
        ({"options": ("key",)}, ValueError, "options='key' is not known; it must be one of dropout, attn_mask"),
        ({"family": "co-lin"}, ValueError, "family='co-lin' is not known; it must be one of full, co-full, nystrom"),
        ({"kernel": "full", "rows": "all"}, ValueError, "kernel='full' does not support rows='all'"),
        ({"kernel": "fixed"}, ValueError, "kernel='fixed' does not support rows='newest' with landmarks='none'"),
        ({"roles": ("full", "full")}, ValueError, "must be the names of the first, middle and last block"),
        ({"roles": ("full", "own", "co-mean-single")}, ValueError, "roles.middle='own' is not known"),
        (
            {"roles": ("co-full-single", "full", "co-mean-single")},
            ValueError,
            "roles.first='co-full-single' must be a variant that returns all rows",
        ),
        ({"roles": ("full", "full", "nystrom")}, ValueError, "must be a variant that returns only its newest row"),
        ({"fixed_form": "own"}, ValueError, "fixed_form='own' is not known"),
        ({"fixed_form": "co-fixed-retro"}, ValueError, "must have fixed landmarks and rows='newest'"),
        ({"ops": SimpleNamespace(forward=forward, step=step)}, ValueError, "'co-mean-single' has no init_state, steps"),
        ({"ops": "no.such"}, ValueError, "ops='no.such' cannot be imported"),
        ({"reference": "math:nothing"}, ValueError, "reference='math:nothing' cannot be imported"),
        ({"reference": 3}, TypeError, "reference=3 must be a function"),
    ],
)
def test_what_is_refused(fields, error, words):
    with pytest.raises(error) as caught:
        ns.register_variant(**{**MEAN, **fields})
    assert words in str(caught.value)
    assert variants.names() == ns.VARIANTS


def test_a_record_or_its_fields():
    with pytest.raises(TypeError, match=r"variant is a str, but must be a nystream\.Variant"):
        ns.register_variant("co-mean-single")
    with pytest.raises(TypeError, match="rows cannot be given too"):
        ns.register_variant(ns.Variant(**MEAN), rows="all")


def test_the_nine_stay(mean):
    assert len(ns.VARIANTS) == 9
    assert variants.names() == (*ns.VARIANTS, "co-mean-single")
    with pytest.raises(ValueError, match=r"must be one of full, .*co-mean-single"):
        ns.AttentionConfig("linear")
    with pytest.raises(ValueError, match="built-in variant"):
        variants.unregister("full")

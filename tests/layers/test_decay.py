"""Decay: recent tokens weigh more. Its numbers are tested against the reference with those of all other options."""

import dataclasses

import pytest
import torch

import nystream as ns
from nystream import variants
from nystream.ops.decay import initial
from nystream.train.config import TrainConfig
from nystream.train.optimizer import adamw

WITH_DECAY = tuple(v for v in ns.VARIANTS if "decay" in variants.get(v).options)


def config(variant="co-fixed-single", **options):
    return ns.AttentionConfig(variant, embed_dim=8, num_heads=4, window=32, landmarks=3, **options)


def build(variant="co-fixed-single", **options):
    attn = ns.MultiheadAttention(config(variant, decay=True, **options), dtype=torch.float64).eval()
    if attn.config.fixed:
        attn.set_landmarks(torch.randn(4, 3, 2), torch.randn(4, 3, 2))
    return attn


@pytest.mark.parametrize("variant", WITH_DECAY)
def test_no_decay_is_the_same_attention(variant):
    torch.manual_seed(0)
    attn = build(variant)
    attn.decay_logit.data.fill_(-torch.inf)
    without = ns.MultiheadAttention(dataclasses.replace(attn.config, decay=False), dtype=torch.float64)
    without.load_state_dict({name: x for name, x in attn.state_dict().items() if name != "decay_logit"})
    x = torch.randn(2, 90, 8, dtype=torch.float64)
    y, expected = (a.steps(x, a.init_state(2))[0] for a in (attn, without))
    torch.testing.assert_close(y, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("variant", WITH_DECAY)
@torch.no_grad()
def test_old_tokens_matter_less(variant):
    """The change that a token makes falls with its age."""
    torch.manual_seed(0)
    attn = build(variant)
    attn.decay_logit.data.fill_(0.0)  # λ = 0.5
    x = torch.randn(1, 40, 8, dtype=torch.float64)
    changes = []
    for age in (0, 6, 12, 20):
        changed = x.clone()
        changed[:, -1 - age] += 1.0
        outputs = [attn.steps(y, attn.init_state(1))[0][:, -1] for y in (x, changed)]
        changes.append(float((outputs[1] - outputs[0]).abs().max()))
    assert changes == sorted(changes, reverse=True)
    if variant != "co-cont-single":  # whose landmarks do not decay
        assert changes[-1] < 1e-3 * changes[0]


def test_rates_at_first_span_a_few_tokens_to_two_windows():
    spans = 1 / initial(8, 64).sigmoid()
    assert spans.tolist() == sorted(spans.tolist())
    torch.testing.assert_close(spans[[0, -1]], torch.tensor([2.5, 128.0]))
    assert 2.5 < float(1 / initial(1, 64).sigmoid()) < 128


def test_rates_are_learned_and_saved(tmp_path):
    torch.manual_seed(0)
    cfg = ns.ModelConfig(input_dim=2, output_dim=1, attention=config("co-cont-single", decay=True), positions="none")
    model = ns.StreamModel(cfg)
    y, _ = model.steps(torch.randn(2, 50, 2), model.init_state(2))
    y.square().sum().backward()
    rates = model.encoder.blocks[0].attention.decay_logit
    assert bool((rates.grad != 0).all())
    model.save_pretrained(tmp_path)
    assert ns.StreamModel.from_pretrained(tmp_path).config.attention.decay
    fixed = model.convert(variant="co-fixed-single")
    torch.testing.assert_close(fixed.encoder.blocks[0].attention.decay_logit, rates)
    groups = adamw(model.named_parameters(), TrainConfig()).param_groups
    (group,) = (group for group in groups if any(x is rates for x in group["params"]))
    assert group["weight_decay"] == 0.0
    assert group["scale"] > 1.0


def test_a_snapshot_of_one_backend_continues_in_the_other():
    torch.manual_seed(0)
    attention = tuple(config(variant, decay=True) for variant in ("co-full-single", "co-cont-single"))
    model = ns.StreamModel(ns.ModelConfig(input_dim=2, output_dim=1, attention=attention, stack="deep")).eval()
    pools = [ns.StreamPool(model, backend=backend) for backend in ("numba", "torch")]
    x = torch.randn(1, 100, 2)
    with torch.no_grad():
        expected = model.steps(x, model.init_state(1))[0][0]
    stream, outputs = pools[0].open(), []
    for t in range(100):
        outputs.append(torch.as_tensor(pools[t % 2].push(stream, x[0, t].numpy())))
        stream = pools[(t + 1) % 2].restore(pools[t % 2].snapshot(stream))
    torch.testing.assert_close(torch.stack(outputs), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            lambda: config("co-fixed-retro", decay=True),
            "decay=True is not supported by variant 'co-fixed-retro'; .*-single",
        ),
        (lambda: config(decay=True, sums="subtract"), "decay=True is not supported by sums='subtract'"),
        (
            lambda: ns.ModelConfig(input_dim=2, output_dim=1, attention=config(decay=True), layers=2, stack="paper"),
            "decay=True is not supported by stack='paper' with several blocks; use stack='deep'",
        ),
    ],
)
def test_what_does_not_decay(wrong, message):
    with pytest.raises(ValueError, match=message):
        wrong()
    with pytest.raises(TypeError, match="decay=1 must be True or False"):
        config(decay=1)
    assert ns.MultiheadAttention(config()).decay is None


def test_configs_without_decay_are_those_of_the_first_version():
    """Fingerprints in snapshots and saved configs stay as they were."""
    assert "decay" not in config().to_dict()
    assert config(decay=True).to_dict()["decay"] is True
    assert config(decay=True).fingerprint != config().fingerprint
    cfg = ns.ModelConfig(input_dim=2, output_dim=1, attention=(config(), config(decay=True)), stack="deep")
    assert [("decay" in fields) for fields in cfg.to_dict()["attention"]] == [False, True]
    assert ns.ModelConfig.from_dict(cfg.to_dict()) == cfg

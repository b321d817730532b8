"""Our counts, compared with torch's counts of the operations that are executed.

FlopCounterMode counts two for each multiply-add, and matrix products only. It does not know torch's fused attention for
the CPU, so that attention is made to take its products one by one.
"""

import math

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

import nystream as ns
from nystream import costs, variants
from nystream.costs.model import Sizes

MULTIPLICATIONS = {torch.ops.aten.mul.Tensor, torch.ops.aten.addcmul.default}


class Multiplications(TorchDispatchMode):
    """Counts products of triples: tensors whose last dimension is the width of a head plus one, for the sum."""

    def __init__(self, width):
        super().__init__()
        self.width, self.count = width, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if func in MULTIPLICATIONS and out.shape[-1] == self.width:
            self.count += out.numel()
        return out


def attention(variant, n, d, m, heads, sums="auto", iters=6):
    cfg = ns.AttentionConfig(variant, d, heads, n, m, sums=sums, pinv_iters=iters)
    torch.manual_seed(0)
    attn = ns.MultiheadAttention(cfg)
    if cfg.fixed:
        attn.set_landmarks(*torch.randn(2, heads, m, d // heads))
    return attn


def filled(module, n, width):
    """The state after n tokens: from here on, n steps visit every phase."""
    state = module.init_state(1)
    return module.steps(torch.randn(1, n, width), state)[1]


def measured(attn, counter):
    """What `counter` saw in n steps of the attention alone, on a full window."""
    cfg = attn.config
    state = filled(attn, cfg.window, cfg.embed_dim)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), counter:
        for _ in range(cfg.window):
            # Small logits: no row of co-full-retro needs to be summed afresh.
            q, k, v = 0.1 * torch.randn(3, 1, cfg.num_heads, 1, cfg.head_dim)
            _, state = cfg.record.functions.step(q, k, v, state, cfg, attn._fixed())
    return counter


def products(attn):
    return measured(attn, FlopCounterMode(display=False)).get_total_flops() / 2 / attn.config.window


FORMS = [(variant, sums) for variant in ns.VARIANTS for sums in variants.get(variant).forms]


@pytest.mark.parametrize(("variant", "sums"), FORMS)
def test_products_of_a_step(variant, sums):
    for n, d, m, heads in ((13, 12, 4, 3), (3, 4, 3, 2), (1, 4, 1, 1), (250, 4, 3, 1)):
        attn = attention(variant, n, d, m, heads, sums)
        expected = costs.executed(variant, n, d, m, heads=heads, form=attn.config.form)
        assert math.isclose(products(attn), expected.products), attn.config
        assert expected == costs.executed(variant, n, d, m, heads=heads, form=sums), attn.config


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_products_at_any_size(data):
    variant, sums = data.draw(st.sampled_from([form for form in FORMS if variants.get(form[0]).low_rank]))
    n, head = data.draw(st.integers(1, 24)), data.draw(st.integers(1, 6))
    m, heads = data.draw(st.integers(1, n)), data.draw(st.integers(1, 3))
    attn = attention(variant, n, head * heads, m, heads, sums, iters=2)
    expected = costs.executed(variant, n, head * heads, m, heads=heads, form=attn.config.form, pinv_iters=2)
    assert math.isclose(products(attn), expected.products)


def test_what_auto_stands_for():
    for n in (127, 128):
        attn = attention("co-fixed-single", n, 4, 2, 1)
        assert costs.executed("co-fixed-single", n, 4, 2) == costs.executed(
            "co-fixed-single", n, 4, 2, form=attn.config.form
        )
        assert math.isclose(products(attn), costs.executed("co-fixed-single", n, 4, 2).products)


@pytest.mark.parametrize(("n", "d", "m", "heads"), [(20, 12, 4, 3), (13, 8, 5, 1), (200, 8, 2, 2)])
@pytest.mark.parametrize("variant", ["co-fixed-single", "co-fixed-retro"])
def test_combines_of_partial_sums(variant, n, d, m, heads):
    attn = attention(variant, n, d, m, heads, "partials")
    seen = measured(attn, Multiplications(d // heads + 1)).count / n
    assert seen == costs.executed(variant, n, d, m, heads=heads, form="partials").combines
    assert costs.executed(variant, n, d, m, heads=heads, form="recompute").combines == 0


def test_with_partials_the_cost_hardly_grows_with_the_window():
    for d, m, heads in ((192, 4, 16), (512, 16, 8)):
        short, long = (costs.executed("co-fixed-single", n, d, m, heads=heads, form="partials") for n in (192, 192_000))
        assert 1 < long.total / short.total < 1.6  # a thousand times as long, and four tiers more
        length = max(8, m)  # of a block
        estimate = d * (2 * length * m + 5 * length + 8 * m) + heads * m**2  # as in `co_fixed_single`
        assert 0.9 < short.total / estimate < 1.15


def test_one_tier_more_costs_little():
    """A total that grows, which is two combines, and fewer than a dozen totals in the sum of one landmark."""
    for n, m in ((500, 4), (5_000, 16), (50_000, 8)):
        sizes = Sizes(n, 64, m, 1, "partials")
        tiers = len(sizes.cut.tiers)
        assert tiers > 1
        assert sizes.cut.work(m)[2] < 12 * tiers
        assert costs.executed("co-fixed-single", n, 64, m, form="partials").combines == 2 * (1 + tiers) * m * 65


def test_a_total_is_its_parts():
    one = costs.executed("co-cont-single", 300, 24, 5, form="partials")
    assert one.total == one.products + one.combines
    assert one.combines > 0


def encoder(variant, layers, stack="paper", ff=7, n=10, d=6, m=3, heads=2, sums="auto"):
    cfg = ns.AttentionConfig(variant, d, heads, n, m, sums=sums)
    torch.manual_seed(0)
    model = ns.StreamModel(
        ns.ModelConfig(input_dim=5, output_dim=4, attention=cfg, layers=layers, ff_dim=ff, stack=stack)
    )
    for block in model.encoder.blocks:
        if block.attention.config.fixed:
            block.attention.set_landmarks(*torch.randn(2, heads, m, d // heads))
    return model.eval()


STACKS = [(variant, layers, "paper") for variant in ns.VARIANTS for layers in (2, 3)]
STACKS += [(variant, layers, "deep") for variant in ns.VARIANTS if variants.get(variant).single for layers in (1, 2)]


@pytest.mark.parametrize(
    ("variant", "layers", "stack", "sums"),
    [(*stack, "auto") for stack in STACKS]
    + [("co-fixed-single", 2, "paper", "partials"), ("co-cont-single", 2, "deep", "partials")],
)
def test_a_whole_model(variant, layers, stack, sums):
    """Attention, projections, feed-forward, the model's two ends: every multiplication of a step is counted."""
    n, d, m, heads, ff = 6, 6, 3, 2, 7
    model = encoder(variant, layers, stack, ff, n, d, m, heads, sums)
    state = filled(model, n, 5)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        for x in 0.1 * torch.randn(n, 1, 5):
            _, state = model.step(x, state)
    ends = 5 * d + 4 * d  # input projection and head, one row each
    attended = costs.executed(variant, n, d, m, layers, heads, form=sums, stack=stack).products
    expected = attended + costs.dense(variant, n, d, ff, layers, stack=stack) + ends
    assert math.isclose(counter.get_total_flops() / 2 / n, expected)


@pytest.mark.parametrize(("variant", "layers", "stack"), STACKS)
def test_bytes_of_a_stack(variant, layers, stack):
    model = encoder(variant, layers, stack)
    first = model.encoder.blocks[0].attention.config
    expected = costs.state_bytes(variant, 10, 6, 3, 2, form=first.form, layers=layers, stack=stack)
    assert ns.state.nbytes(model.encoder.init_state(1)) == expected


def test_the_last_block_is_dearer_than_its_cheapest_order():
    """Values are summed under every landmark first, 2ndm, where the row's weights over the window would need nd."""
    n, d, m = 120, 192, 4
    ours = costs.flops("co-fixed-single", n, d, m, 2, corrected=True) - costs.flops("co-fixed-retro", n, d, m)
    retro = costs.executed("co-fixed-retro", n, d, m, form="partials").products
    run = costs.executed("co-fixed-single", n, d, m, 2, form="partials").products - retro
    assert run - ours == n * d * m - n * d + d * m - 2 * n * m - 2 * m - 1


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match=r"form must be one of recompute, partials, subtract, auto.*got 'sum'"):
        costs.executed("full", 10, 4, form="sum")
    with pytest.raises(ValueError, match="stack must be one of paper, deep, got 'tall'"):
        costs.executed("co-full-single", 10, 4, layers=2, stack="tall")
    for count in (costs.executed, costs.state_bytes):
        with pytest.raises(ValueError, match="stack='deep' needs a single-output variant, got variant 'full'"):
            count("full", 10, 4, layers=2, stack="deep")
    with pytest.raises(ValueError, match="ff must be an integer of at least 1, got 0"):
        costs.dense("full", 10, 4, 0)
    with pytest.raises(ValueError, match="m must be given for variant 'nystrom'"):
        costs.executed("nystrom", 10, 4)

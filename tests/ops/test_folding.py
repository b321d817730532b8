"""Functions of a batch inside `torch.func`: values and gradients are those of a loop over the models."""

import pytest
import torch
from torch.func import functional_call, grad, grad_and_value, stack_module_state, vmap

import nystream as ns
from nystream import variants
from nystream.ops.folding import fold
from nystream.ops.precision import full_precision

SINGLE = [v for v in ns.VARIANTS if variants.get(v).single and "decay" in variants.get(v).options]


def build(variant, decay):
    cfg = ns.AttentionConfig(variant, embed_dim=8, num_heads=2, window=12, landmarks=3, decay=decay)
    config = ns.ModelConfig(input_dim=3, output_dim=2, attention=cfg, layers=2, stack="deep", ff_dim=8)
    model = ns.StreamModel(config, dtype=torch.float64)
    for block in model.encoder.blocks:
        if block.attention.config.fixed:
            block.attention.set_landmarks(*torch.randn(2, 2, 3, 4, dtype=torch.float64))
            block.attention.learn_landmarks(True)
    return model


class Loss(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, lengths):
        return self.model.outputs(x, self.model.init_state(len(x)), lengths=lengths).square().sum()


@pytest.mark.parametrize("decay", [False, True])
@pytest.mark.parametrize("variant", SINGLE)
@pytest.mark.parametrize("scale", [1.0, 300.0])  # logits close together, and far apart
def test_models_together_are_models_one_by_one(variant, decay, scale):
    torch.manual_seed(0)
    losses = [Loss(build(variant, decay)) for _ in range(2)]
    x = scale * torch.randn(2, 3, 40, 3, dtype=torch.float64)
    lengths = torch.tensor([[40, 25, 9], [12, 40, 33]])
    parameters, buffers = stack_module_state(losses)

    def loss(parameters, buffers, x, lengths):
        return functional_call(losses[0], (parameters, buffers), (x, lengths))

    stacked = {name: value.detach() for name, value in parameters.items()}
    gradients, values = vmap(grad_and_value(loss))(stacked, buffers, x, lengths)
    for i, one in enumerate(losses):
        state = one.model.init_state(3)
        value = one.model.steps(x[i], state, lengths=lengths[i])[0].square().sum()
        value.backward()
        torch.testing.assert_close(values[i], value.detach(), rtol=1e-10, atol=1e-10)
        for name, parameter in one.named_parameters():
            torch.testing.assert_close(gradients[name][i], parameter.grad, rtol=1e-7, atol=1e-7 * scale)


def test_arguments_may_be_missing_unmapped_or_without_a_gradient():
    def function(x, nothing, count, shared):
        assert nothing is None
        assert x.shape == (6, 4)  # 2 models of 3 rows
        return x * shared + count[:, None]

    x, count, shared = torch.randn(2, 3, 4), torch.tensor([[1, 2, 3], [4, 5, 6]]), torch.randn(3, 4)

    def total(x, count):
        return fold(function, x, None, count, shared).sum()

    gradient, value = vmap(grad_and_value(total))(x, count)
    torch.testing.assert_close(value, (x * shared + count[..., None]).sum((1, 2)))
    torch.testing.assert_close(gradient, shared.expand(2, 3, 4))


def test_second_derivatives_are_refused():
    def total(x):
        return fold(lambda y: y**3, x).sum()

    with pytest.raises(RuntimeError, match="second derivatives"):
        torch.func.grad(lambda x: torch.func.grad(total)(x).sum())(torch.randn(3, 2))


@pytest.mark.parametrize("variant", ns.VARIANTS)
def test_outputs_are_those_of_steps(variant):
    torch.manual_seed(0)
    cfg = ns.AttentionConfig(variant, embed_dim=8, num_heads=2, window=6, landmarks=3)
    attention = ns.MultiheadAttention(cfg, dtype=torch.float64)
    if cfg.fixed:
        attention.set_landmarks(*torch.randn(2, 2, 3, 4, dtype=torch.float64))
    x, lengths = torch.randn(2, 15, 8, dtype=torch.float64), torch.tensor([15, 7])
    _, state = attention.steps(x, attention.init_state(2))
    expected, _ = attention.steps(x, state, lengths=lengths)
    torch.testing.assert_close(attention.outputs(x, state, lengths=lengths), expected, rtol=0, atol=0)


def test_gradients_have_the_precision_of_the_outputs():
    """Under autocast, as when models are trained together on a GPU: the function is computed again as it was before."""
    weight, x = torch.randn(8, 8), torch.randn(3, 5, 8)

    def loss(x):
        with full_precision(x):
            return fold(lambda rows: (rows @ weight).sin(), x).square().sum()

    expected = vmap(grad(loss))(x)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(vmap(grad(loss))(x), expected, rtol=0, atol=0)

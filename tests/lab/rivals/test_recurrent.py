"""Recurrent models: their methods agree with each other and with torch, and they are trained like a StreamModel."""

import pytest
import torch
from torch import nn

import nystream as ns
import nystream.state as states
from nystream.lab.rivals import RecurrentConfig, RecurrentModel
from nystream.train import Classification, Forecasting, TrainConfig, distilled, evaluate, fit, fit_many, predict
from nystream.train.single import Single

EXACT = {"atol": 1e-12, "rtol": 0}  # float64, values of about 1

both = pytest.mark.parametrize("kind", ["gru", "lstm"])


def build(kind="gru", layers=2, dtype=torch.float64, **options):
    torch.manual_seed(0)
    config = RecurrentConfig(kind=kind, input_dim=3, output_dim=4, embed_dim=6, layers=layers, window=5, **options)
    model = RecurrentModel(config, dtype=dtype).eval()
    model.input_scaler.set(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.5, 1.0, 2.0]))
    model.output_scaler.set(torch.randn(4), torch.rand(4) + 0.5)
    return model


def looped(model, x, state):
    outputs = []
    for token in x.unbind(1):
        y, state = model.step(token, state)
        outputs.append(y)
    return torch.stack(outputs, 1), state


def same(one, other):
    for (name, a), (_, b) in zip(states.named_leaves(one), states.named_leaves(other), strict=True):
        torch.testing.assert_close(a, b, **EXACT, msg=name)


@both
@torch.no_grad()
def test_steps_equal_a_loop_of_step_and_torch(kind):
    model, x = build(kind), torch.randn(2, 9, 3, dtype=torch.float64)
    y, state = model.steps(x, model.init_state(2))
    again, end = looped(model, x, model.init_state(2))
    torch.testing.assert_close(y, again, **EXACT)
    same(state, end)
    theirs = {"gru": nn.GRU, "lstm": nn.LSTM}[kind](6, 6, num_layers=2, batch_first=True, dtype=torch.float64)
    theirs.load_state_dict(
        {
            name.removesuffix("l0") + f"l{place}": weight
            for place, layer in enumerate(model.layers)
            for name, weight in layer.state_dict().items()
        }
    )
    embedded = (x - model.input_scaler.mean) / model.input_scaler.scale @ model.input_proj.weight.T
    output, _ = theirs(embedded + model.input_proj.bias)
    expected = output @ model.head.weight.T + model.head.bias
    torch.testing.assert_close(y, expected * model.output_scaler.scale + model.output_scaler.mean, **EXACT)


@both
@torch.no_grad()
def test_a_stream_in_pieces(kind):
    model, x = build(kind), torch.randn(2, 9, 3, dtype=torch.float64)
    whole, end = model.steps(x, model.init_state(2))
    state = model.advance(x[:, :4], model.init_state(2))
    y, state = model.steps(x[:, 4:], state)
    torch.testing.assert_close(y, whole[:, 4:], **EXACT)
    same(state, end)
    torch.testing.assert_close(model(x), whole[:, -1], **EXACT)


@both
@torch.no_grad()
def test_rows_of_different_length(kind):
    """Outputs beyond a row's length are zero, and its state is the one after its last token, whatever the padding."""
    model, lengths = build(kind), torch.tensor([5, 0, 9, 1])
    x = torch.randn(4, 9, 3, dtype=torch.float64)
    padded = x.masked_fill((torch.arange(9) >= lengths[:, None])[..., None], torch.nan)
    begun = model.advance(torch.randn(4, 3, 3, dtype=torch.float64), model.init_state(4))
    y, state = model.steps(padded, begun, lengths=lengths)
    for row, length in enumerate(lengths.tolist()):
        alone = states.select(begun, [row])
        expected, end = looped(model, x[[row], :length], alone) if length else (y[[row], :0], alone)
        torch.testing.assert_close(y[[row], :length], expected, **EXACT)
        assert bool((y[row, length:] == 0).all())
        same(states.select(state, [row]), end)
    # forward has its tokens at the end of the row
    front = torch.stack([row.roll(9 - length, 0) for row, length in zip(padded, lengths.tolist(), strict=True)])
    last = model(front, lengths=lengths)
    assert bool((last[1] == 0).all())
    for row in (0, 2, 3):
        torch.testing.assert_close(last[[row]], model(x[[row], : lengths[row]]), **EXACT)


@both
def test_gradients_of_padding_are_finite(kind):
    model = build(kind)
    x = torch.randn(2, 6, 3, dtype=torch.float64)
    x[1, 4:] = torch.nan
    y, _ = model.steps(x, model.init_state(2), lengths=torch.tensor([6, 4]))
    y.sum().backward()
    assert all(bool(weight.grad.isfinite().all()) for weight in model.parameters())


@both
def test_saved_and_loaded(kind, tmp_path):
    model = build(kind, dropout=0.3)
    model.save_pretrained(tmp_path / "model")
    again = RecurrentModel.from_pretrained(tmp_path / "model")
    assert again.config == model.config
    x = torch.randn(1, 4, 3, dtype=torch.float64)
    assert torch.equal(again(x), model(x))
    assert not again.training
    (tmp_path / "model" / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="is not the config of a recurrent model"):
        RecurrentModel.from_pretrained(tmp_path / "model")
    with pytest.raises(FileNotFoundError, match=r"has no config\.json"):
        RecurrentModel.from_pretrained(tmp_path)


def test_the_state_of_a_gru_has_no_cell():
    assert states.nbytes(build("gru").init_state(1)) == 2 * 6 * 8
    assert states.nbytes(build("lstm").init_state(1)) == 2 * 2 * 6 * 8


def test_operations_are_those_of_the_matrices():
    for kind in ("gru", "lstm"):
        model = build(kind)
        assert model.config.operations == sum(x.numel() for x in model.parameters() if x.dim() == 2)


@pytest.fixture
def streams():
    """Streams whose target is the sum of the last two tokens."""

    def streams(seed):
        generator = torch.Generator().manual_seed(seed)
        x = [torch.randn(40 + 9 * i, 3, generator=generator) for i in range(3)]
        y = [part + torch.cat([torch.zeros(1, 3), part[:-1]]) for part in x]
        return ns.train.StreamData(x, [torch.cat([part, part[:, :1]], 1) for part in y])

    return streams


CONFIG = TrainConfig(epochs=3, batch_size=2, piece=16, lr=1e-2)


def test_a_killed_run_resumes_to_the_same_weights(streams, tmp_path, monkeypatch):
    train, valid, options = streams(0), streams(1), {"task": Forecasting(), "tensorboard": False}
    model = build(dtype=torch.float32, dropout=0.2)
    result = fit(model, train, valid, CONFIG, **options)
    assert result.skip == 4
    step, calls = Single.step, []
    stopped = build(dtype=torch.float32, dropout=0.2)

    def dies(self, *args):
        calls.append(args)
        if len(calls) == 12:
            raise KeyboardInterrupt
        return step(self, *args)

    monkeypatch.setattr(Single, "step", dies)
    with pytest.raises(KeyboardInterrupt):
        fit(stopped, train, valid, CONFIG, folder=tmp_path, **options)
    monkeypatch.setattr(Single, "step", step)
    resumed = build(dtype=torch.float32, dropout=0.2)
    again = fit(resumed, train, valid, CONFIG, folder=tmp_path, **options)
    assert again.best == result.best
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, resumed.state_dict()[name]), name
    loaded = RecurrentModel.from_pretrained(tmp_path / "model")
    assert evaluate(loaded, valid, Forecasting(), skip=4)["mse"] == pytest.approx(result.best["mse"], rel=1e-4)


def test_training_learns_and_scores_are_streaming(streams):
    train, valid = streams(0), streams(1)
    model = build("lstm", 1, torch.float32)
    before = evaluate(model, valid, Forecasting(), skip=4)["mse"]
    fit(model, train, valid, TrainConfig(epochs=30, batch_size=4, piece=16, lr=2e-2), task=Forecasting())
    assert evaluate(model, valid, Forecasting(), skip=4)["mse"] < 0.7 * before
    output, _ = predict(model, valid)
    x, _ = valid.stream(0)
    with torch.no_grad():
        alone, _ = looped(model, x[None], model.init_state(1))
    torch.testing.assert_close(output[: len(x)], alone[0], atol=1e-5, rtol=1e-5)  # float32


def test_windows_and_a_recurrent_teacher():
    x = torch.randn(12, 7, 3)
    data = ns.train.WindowData(x, torch.randint(4, (12,), generator=torch.Generator().manual_seed(0)))
    teacher = build(dtype=torch.float32)
    assert distilled(data, teacher).y.shape == (12, 2, 4)
    fit(teacher, data, data, TrainConfig(epochs=1), task=Classification())


def test_errors(streams):
    with pytest.raises(TypeError, match=r"model is a Linear, .* it has no config, head, input_scaler"):
        fit(nn.Linear(2, 2), streams(0), task=Forecasting())
    with pytest.raises(TypeError, match="model is a str, but must be a StreamModel"):
        predict("model", streams(0))
    with pytest.raises(TypeError, match=r"models\[0\] is a RecurrentModel, but must be a StreamModel"):
        fit_many([build()], streams(0), task=Forecasting())
    with pytest.raises(ValueError, match="kind='rnn' is not known"):
        RecurrentConfig(kind="rnn", input_dim=1, output_dim=1, embed_dim=1)
    model = build()
    with pytest.raises(ValueError, match=r"x is \[2, 4\], but step needs \[B, 3\]"):
        model.step(torch.zeros(2, 4, dtype=torch.float64), model.init_state(2))
    with pytest.raises(ValueError, match=r"lengths\[1\] is 7"):
        model.steps(torch.zeros(2, 6, 3, dtype=torch.float64), model.init_state(2), lengths=torch.tensor([1, 7]))
    with pytest.raises(TypeError, match="state is a tuple"):
        model.step(torch.zeros(1, 3, dtype=torch.float64), ())

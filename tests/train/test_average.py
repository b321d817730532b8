"""Averaged weights: what is validated, kept and saved, while training continues from the weights themselves."""

import pytest
import torch

from nystream.train import Classification, Forecasting, TrainConfig, checkpoint, evaluate, fit, fit_many
from nystream.train.many import Many
from nystream.train.single import Single


def weights(model):
    return torch.cat([x.detach().flatten() for x in model.parameters()])


@pytest.fixture
def recorded(monkeypatch):
    """The weights of a model after every update of `fit`."""
    step, rows = Single.step, []

    def recording(self, *args):
        loss = step(self, *args)
        rows.append(weights(self.model))
        return loss

    monkeypatch.setattr(Single, "step", recording)
    return rows


@pytest.mark.parametrize("average", [0.5, 0.98])
def test_the_average_is_that_of_all_updates(tiny, windows, recorded, average):
    config, data = TrainConfig(epochs=3, batch_size=8, lr=1e-2, average=average), windows(40)
    model = tiny()
    expected = weights(model).double()
    fit(model, data, None, config, task=Classification())
    for k, row in enumerate(recorded, 1):
        decay = min(average, k / (k + 9))
        expected = decay * expected + (1 - decay) * row.double()
    assert len(recorded) == 15
    assert torch.allclose(weights(model).double(), expected, atol=1e-6)  # float32


def test_training_continues_from_the_weights(tiny, windows, recorded):
    data = windows(40), windows(12, 1)
    for average in (0.0, 0.9):
        config = TrainConfig(epochs=2, batch_size=8, lr=1e-2, average=average)
        fit(tiny(dropout=0.1), *data, config, task=Classification())
    assert all(torch.equal(a, b) for a, b in zip(recorded[:10], recorded[10:], strict=True))


def test_what_is_scored_is_what_is_kept(tiny, windows, streams):
    for data, task in (((windows(40), windows(12, 1)), Classification()), ((streams(3), streams(1, 5)), Forecasting())):
        config = TrainConfig(epochs=4, batch_size=8, lr=3e-2, average=0.9)
        model = tiny()
        result = fit(model, *data, config, task=task)
        assert evaluate(model, data[1], task, skip=result.skip) == pytest.approx(result.best, rel=1e-5)


def test_learned_landmarks_are_averaged(tiny, windows):
    model = tiny("co-fixed-single")
    attention = model.encoder.blocks[0].attention
    attention.learn_landmarks()
    before = attention.q_tilde.detach().clone()
    data = windows(40), windows(12, 1)
    result = fit(model, *data, TrainConfig(epochs=2, lr=1e-2, average=0.9), task=Classification())
    attention.learn_landmarks(False)  # Γ† of the averaged landmarks
    assert not torch.equal(attention.q_tilde, before)
    assert evaluate(model, data[1], Classification()) == pytest.approx(result.best, rel=1e-5)


def test_what_is_frozen_stays(tiny, windows):
    model = tiny()
    model.head.requires_grad_(False)
    before = model.head.weight.clone()
    fit(model, windows(40), None, TrainConfig(epochs=1, lr=1e-2, average=0.9), task=Classification())
    assert torch.equal(model.head.weight, before)


@pytest.mark.parametrize("update", [4, 7, 13])
def test_a_run_that_was_stopped_goes_on_exactly(tiny, windows, tmp_path, killed, update):
    config = TrainConfig(epochs=3, batch_size=8, lr=1e-2, checkpoint_every=2, average=0.9)
    data = windows(40), windows(12, 1)
    whole = tiny(dropout=0.1)
    expected = fit(whole, *data, config, task=Classification())
    with killed(Single, update):
        fit(tiny(dropout=0.1), *data, config, task=Classification(), folder=tmp_path)
    again = tiny(seed=9, dropout=0.1)
    result = fit(again, *data, config, task=Classification(), folder=tmp_path)
    assert torch.equal(weights(again), weights(whole))
    assert [line["valid"] for line in result.history] == [line["valid"] for line in expected.history]


def test_many_models_go_on_exactly(tiny, windows, tmp_path, killed):
    config = TrainConfig(epochs=3, batch_size=8, lr=1e-2, checkpoint_every=2, average=0.9)
    data = windows(40), windows(12, 1)
    whole, again = ([tiny(seed=s + i, dropout=0.1) for i in range(2)] for s in (0, 7))
    fit_many(whole, *data, config, task=Classification())
    with killed(Many, 8):
        fit_many([tiny(seed=i, dropout=0.1) for i in range(2)], *data, config, task=Classification(), folder=tmp_path)
    fit_many(again, *data, config, task=Classification(), folder=tmp_path)
    assert all(torch.equal(weights(a), weights(b)) for a, b in zip(again, whole, strict=True))


@pytest.mark.parametrize("validated", [True, False])
def test_many_models_are_as_apart(tiny, windows, validated):
    config = TrainConfig(epochs=3, batch_size=16, lr=1e-2, average=0.9)
    data = [type(d)(d.x.double(), d.y) for d in (windows(40), windows(12, 1))]
    together, apart = ([tiny(seed=i).double() for i in range(3)] for _ in range(2))
    many = fit_many(together, data[0], data[1] if validated else None, config, task=Classification(), seeds=[3, 4, 5])
    for i, model in enumerate(apart):
        alone_config = TrainConfig(**{**config.to_dict(), "seed": 3 + i})
        alone = fit(model, data[0], data[1] if validated else None, alone_config, task=Classification())
        # float64; AdamW divides by the size of a gradient, so rounding may be enlarged.
        assert torch.allclose(weights(together[i]), weights(model), atol=1e-6)
        assert many[i].best_epoch == alone.best_epoch


def test_runs_without_averages_are_as_they_were(tiny, windows, tmp_path):
    assert "average" not in TrainConfig().to_dict()
    assert TrainConfig.from_dict(TrainConfig(average=0.9).to_dict()).average == 0.9
    fit(tiny(), windows(20), None, TrainConfig(epochs=1), task=Classification(), folder=tmp_path)
    tensors, about = checkpoint.load(tmp_path)
    assert not any(name.startswith("average.") for name in tensors)
    assert "average" not in about["about"]["train"]
    config = TrainConfig(epochs=1, average=0.9)
    with pytest.raises(ValueError, match=r"a different run: average is None there and 0.9 here"):
        fit(tiny(), windows(20), None, config, task=Classification(), folder=tmp_path)


@pytest.mark.parametrize("average", [-0.1, 1.0, float("nan")])
def test_averages_between_0_and_1(average):
    with pytest.raises(ValueError, match=r"average=.* must be at least 0 and less than 1"):
        TrainConfig(average=average)

"""Models that are trained together equal those that are trained separately."""

import pytest
import torch

import nystream as ns
from nystream.train import Classification, Forecasting, TrainConfig, fit, fit_many
from nystream.train.many import Many


@pytest.mark.parametrize("variant", ["full", "co-full-single", "nystrom", "co-cont-single", "co-fixed-single"])
@pytest.mark.parametrize("layers", [1, 2])
def test_windows_as_apart(tiny, windows, variant, layers):
    config = TrainConfig(epochs=2, batch_size=16, lr=1e-2, short=0.3, clip=0.5)
    data = [(windows(40, 10 + i), windows(12, 20 + i)) for i in range(3)]
    together, apart = ([tiny(variant, seed=i, layers=layers).double() for i in range(3)] for _ in range(2))
    data = [[type(d)(d.x.double(), d.y) for d in pair] for pair in data]
    trains, valids = zip(*data, strict=True)
    many = fit_many(together, trains, valids, config, task=Classification(), seeds=[3, 4, 5])
    for i, (model, result) in enumerate(zip(apart, many, strict=True)):
        alone = fit(model, *data[i], TrainConfig(**{**config.to_dict(), "seed": 3 + i}), task=Classification())
        same(together[i], model)
        assert result.best_epoch == alone.best_epoch
        assert [line["train_loss"] for line in result.history] == pytest.approx(
            [line["train_loss"] for line in alone.history], rel=1e-6
        )


@pytest.mark.parametrize("stack", ["paper", "deep"])
def test_streams_as_apart(tiny, streams, stack):
    config = TrainConfig(epochs=2, batch_size=2, lr=1e-2)
    together, apart = (
        [tiny("co-fixed-single", seed=i, layers=2, stack=stack).double() for i in range(2)] for _ in range(2)
    )
    data = streams(2)
    data = type(data)([data.stream(i)[0].double() for i in range(2)], [data.stream(i)[1] for i in range(2)])
    fit_many(together, data, data, config, task=Forecasting())
    for i, model in enumerate(apart):
        fit(model, data, data, TrainConfig(**{**config.to_dict(), "seed": i}), task=Forecasting())
        same(together[i], model)


@pytest.mark.parametrize(
    ("stack", "linear"),
    [
        ("paper", ns.LinearConfig(segments=(1, 1, 4), inputs=2)),
        ("paper", ns.LinearConfig(embedded=True)),
        ("deep", ns.LinearConfig(segments=(1, 2, 2, 9), embedded=True)),
    ],
)
def test_a_linear_path_as_apart(tiny, streams, stack, linear):
    config = TrainConfig(epochs=2, batch_size=2, lr=1e-2, context=5 if stack == "deep" else 0)
    options = {"layers": 2, "stack": stack, "linear": linear}
    together, apart = ([tiny("co-fixed-single", seed=i, **options).double() for i in range(2)] for _ in range(2))
    data = streams(2)
    data = type(data)([data.stream(i)[0].double() for i in range(2)], [data.stream(i)[1] for i in range(2)])
    fit_many(together, data, data, config, task=Forecasting())
    for i, model in enumerate(apart):
        fit(model, data, data, TrainConfig(**{**config.to_dict(), "seed": i}), task=Forecasting())
        same(together[i], model)
        assert model.linear.weight.any()


def same(a, b, tolerance=1e-6):
    # float64; AdamW divides by the size of a gradient, so rounding may be enlarged.
    for (name, x), y in zip(a.state_dict().items(), b.state_dict().values(), strict=True):
        assert torch.allclose(x, y, atol=tolerance), (name, float((x - y).abs().max()))


def test_members_stop_by_themselves(tiny, windows):
    config = TrainConfig(epochs=6, batch_size=16, lr=3e-2, patience=1)
    data = windows(32), windows(16, 1)
    together, apart = ([tiny(seed=i).double() for i in range(4)] for _ in range(2))
    data = [type(d)(d.x.double(), d.y) for d in data]
    many = fit_many(together, *data, config, task=Classification())
    for i, model in enumerate(apart):
        alone = fit(model, *data, TrainConfig(**{**config.to_dict(), "seed": i}), task=Classification())
        assert many[i].best_epoch == alone.best_epoch
        same(together[i], model)


def test_a_run_goes_on_exactly(tiny, windows, tmp_path, killed):
    config, data = TrainConfig(epochs=3, batch_size=8, lr=1e-2, checkpoint_every=2), (windows(40), windows(12, 1))
    whole = [tiny(seed=i, dropout=0.1) for i in range(2)]
    fit_many(whole, *data, config, task=Classification())
    with killed(Many, 8):
        fit_many([tiny(seed=i, dropout=0.1) for i in range(2)], *data, config, task=Classification(), folder=tmp_path)
    again = [tiny(seed=7 + i, dropout=0.1) for i in range(2)]
    fit_many(again, *data, config, task=Classification(), folder=tmp_path)
    for a, b in zip(again, whole, strict=True):
        same(a, b, 0.0)
    assert (tmp_path / "model-1" / "model.safetensors").exists()


def test_a_run_brings_its_landmarks_along(tiny, windows, tmp_path):
    config, data = TrainConfig(epochs=1, batch_size=8), (windows(40), windows(12, 1))
    whole, again = ([tiny("co-fixed-single", seed=s + i) for i in range(2)] for s in (0, 50))
    fit_many(whole, *data, config, task=Classification(), folder=tmp_path)
    fit_many(again, *data, config, task=Classification(), folder=tmp_path)
    for a, b in zip(again, whole, strict=True):
        same(a, b, 0.0)


def test_what_is_frozen_stays(tiny, windows):
    models = [tiny(seed=i) for i in range(2)]
    before = [model.head.weight.clone() for model in models]
    for model in models:
        model.head.requires_grad_(False)
    fit_many(models, windows(40), None, TrainConfig(epochs=1, lr=1e-2), task=Classification())
    for model, head in zip(models, before, strict=True):
        assert torch.equal(model.head.weight, head)
        assert not torch.equal(model.input_proj.weight, tiny(seed=0).input_proj.weight)
    models[0].head.requires_grad_(True)
    with pytest.raises(ValueError, match=r"models\[1\] trains other parameters than models\[0\]: head.bias"):
        fit_many(models, windows(40), task=Classification())


def test_landmarks_can_be_learned_together(tiny, windows):
    together, apart = ([tiny("co-fixed-single", seed=i).double() for i in range(2)] for _ in range(2))
    data = windows(40)
    data = type(data)(data.x.double(), data.y)
    for model in (*together, *apart):
        model.encoder.blocks[0].attention.learn_landmarks()
    before = together[0].encoder.blocks[0].attention.q_tilde.detach().clone()
    config = TrainConfig(epochs=2, batch_size=8, lr=1e-2)
    fit_many(together, data, None, config, task=Classification())
    for i, model in enumerate(apart):
        fit(model, data, None, TrainConfig(**{**config.to_dict(), "seed": i}), task=Classification())
        same(together[i], model)
    assert not torch.allclose(together[0].encoder.blocks[0].attention.q_tilde, before)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"models": []}, "models is empty"),
        ({"seeds": [1]}, "seeds has 1 numbers for 2 models"),
        ({"seeds": [1, -1]}, "seeds has -1, but every seed must be"),
        ({"config": TrainConfig(schedule="plateau")}, "schedule='plateau' decides for each model by itself"),
        ({"train": "uneven"}, "20, 21 examples per epoch.*set steps_per_epoch=3"),
        ({"train": "one"}, "train has 1 data sets for 2 models"),
    ],
)
def test_errors_say_what_is_needed(tiny, windows, change, message):
    given = {"models": [tiny(), tiny()], "train": windows(20), "config": TrainConfig(epochs=1, batch_size=8), **change}
    given["train"] = {"uneven": [windows(20), windows(21)], "one": [windows(20)]}.get(
        str(given["train"]), given["train"]
    )
    with pytest.raises(ValueError, match=message):
        fit_many(given.pop("models"), given.pop("train"), task=Classification(), **given)


def test_one_model_is_not_many(tiny, windows):
    model = tiny()
    with pytest.raises(TypeError, match=r"models is one StreamModel, but must be a list"):
        fit_many(model, windows(20), task=Classification())
    with pytest.raises(ValueError, match="models has one model twice"):
        fit_many([model, model], windows(20), task=Classification())


def test_torchrun_is_refused(tiny, windows, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match="fit_many trains in one process"):
        fit_many([tiny()], windows(20), task=Classification())


def test_models_must_be_alike(tiny, windows):
    with pytest.raises(ValueError, match=r"models\[1\] has another config"):
        fit_many([tiny(), tiny(layers=2)], windows(20), task=Classification())

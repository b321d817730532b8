"""Attention transfer: errors of blocks, what is trained, and fine-tuning."""

import dataclasses

import pytest
import torch

import nystream as ns
from nystream.train import Classification, Forecasting, StreamData, TrainConfig, predict, transfer_attention
from nystream.train.recipe import LandmarkFit, with_fixed_landmarks

CONFIG = TrainConfig(epochs=2, steps_per_epoch=6, batch_size=6, lr=1e-2)


@pytest.fixture
def teacher(tiny):
    """A model whose attention depends on the tokens: teacher("co-full-single", windows=(8, 12), decay=True)."""

    def teacher(variant="co-full-single", windows=(8,), decay=False, seed=0, landmarks=2, **options):
        model = tiny(variant, seed=seed, landmarks=landmarks, stack="deep", layers=len(windows), **options)
        configs = [dataclasses.replace(model.config.attention, window=n, decay=decay) for n in windows]
        model = ns.StreamModel(dataclasses.replace(model.config, attention=tuple(configs)))
        with torch.no_grad():
            for block in model.encoder.blocks:
                block.attention.q_proj.weight.mul_(4.0)
                block.attention.k_proj.weight.mul_(4.0)
        return model.eval()

    return teacher


def clustered(teacher, data):
    """The model before the transfer: fixed landmarks in all blocks, clustered on the teacher's activations."""
    model = teacher
    for block in reversed(range(len(teacher.config.blocks))):
        batches = data.batches(CONFIG.batch_size, teacher.config.update_size)
        (model,) = with_fixed_landmarks([model], block, [batches], LandmarkFit(), [0])
    return model


def distance(model, teacher, data):
    return float((predict(model, data)[0] - predict(teacher, data)[0]).square().mean())


@pytest.mark.parametrize(
    ("shape", "data", "trained"),
    [
        ({}, "windows", "landmarks"),
        ({"windows": (8, 12)}, "streams", "landmarks"),
        ({"windows": (12,), "decay": True}, "streams", "landmarks"),
        ({"windows": (12, 8), "decay": True}, "streams", "attention"),
        ({"variant": "co-cont-single"}, "windows", "landmarks"),
        ({"update_size": 2}, "streams", "attention"),
    ],
)
def test_nearer_to_the_teacher_than_cluster_centres(teacher, windows, streams, shape, data, trained):
    full = teacher(**shape)
    make = windows if data == "windows" else streams
    train, other = make(6, seed=1), make(6, seed=2)
    result = transfer_attention(full, train, config=CONFIG, trained=trained)
    assert [cfg.variant for cfg in result.model.config.blocks] == ["co-fixed-single"] * len(full.config.blocks)
    assert [cfg.window for cfg in result.model.config.blocks] == [cfg.window for cfg in full.config.blocks]
    for before, after in zip(result.before, result.after, strict=True):
        assert 0 < after < before
    assert distance(result.model, full, other) < distance(clustered(full, train), full, other)


def test_the_error_is_that_of_steps_on_the_teachers_activations(teacher):
    """One piece, the whole stream, token by token."""
    full = teacher(windows=(4, 6), positions="none").double()
    x = torch.randn(40, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    data = StreamData([x], [x[:, :1]])
    config = TrainConfig(epochs=1, lr=0.0, piece=40, short=1.0)
    result = transfer_attention(full, data, config=config, tokens=40)
    rows = full.input_proj(full.input_scaler(x))[None]
    with torch.no_grad():
        for place, (ours, theirs) in enumerate(zip(result.model.encoder.blocks, full.encoder.blocks, strict=True)):
            outputs = []
            for block in (ours, theirs):
                state, inputs = block.attention.init_state(1), block.attended(rows)
                steps = []
                for t in range(40):
                    y, state = block.attention.step(inputs[:, t], state)
                    steps.append(y)
                outputs.append(torch.stack(steps, 1)[0])
            rows = theirs.finish(rows, outputs[1][None])
            error = (outputs[0] - outputs[1]).square().sum() / (outputs[1] - outputs[1].mean(0)).square().sum()
            # The errors of a stream and of its steps differ by float64's rounding alone.
            assert result.before[place] == pytest.approx(float(error), rel=1e-9)
            assert result.after[place] == pytest.approx(float(error), rel=1e-9)


def test_what_is_trained(teacher, streams):
    full, train = teacher(windows=(8, 8), decay=True), streams()
    full.input_proj.requires_grad_(False)
    full.encoder.blocks[0].attention.v_proj.requires_grad_(False)
    weights = {name: x.clone() for name, x in full.state_dict().items()}
    start = clustered(full, train).state_dict()
    for trained in ("landmarks", "attention"):
        model = transfer_attention(full, train, config=CONFIG, trained=trained).model
        changed = {name for name, x in model.state_dict().items() if not torch.equal(x, start[name])}
        expected = {name for name in start if name.endswith("tilde")}
        if trained == "attention":
            expected |= {name for name in start if ".attention." in name and "blocks.0.attention.v_proj" not in name}
            expected -= {name for name in start if name.endswith("k_proj.bias")}  # a shift of all logits of a query
            changed -= {name for name in start if name.endswith("k_proj.bias")}
        assert changed == expected
        frozen = {name for name, x in model.named_parameters() if not x.requires_grad}
        assert frozen == {name for name, x in full.named_parameters() if not x.requires_grad}
        assert not any(name.endswith("tilde") for name, _ in model.named_parameters())
    assert all(torch.equal(x, weights[name]) for name, x in full.state_dict().items())


def test_the_same_seed_gives_the_same_model(teacher, streams):
    full, train = teacher(), streams()
    torch.manual_seed(1)
    first = transfer_attention(full, train, config=CONFIG)
    torch.manual_seed(2)
    again = transfer_attention(full.train(), train, config=CONFIG)
    assert full.training
    assert (first.before, first.after) == (again.before, again.after)
    for (name, a), b in zip(first.model.state_dict().items(), again.model.state_dict().values(), strict=True):
        assert torch.equal(a, b), name


def test_several_models_are_as_one(teacher, streams):
    full, data = [teacher(seed=seed) for seed in range(2)], [streams(seed=seed) for seed in range(2)]
    results = transfer_attention(full, data, config=CONFIG, seeds=[3, 5])
    for i, result in enumerate(results):
        alone = transfer_attention(full[i], data[i], config=dataclasses.replace(CONFIG, seed=3 + 2 * i))
        assert result.after == alone.after
        assert torch.equal(*(r.model.encoder.blocks[0].attention.q_tilde for r in (result, alone)))


def test_a_block_learns_by_itself(teacher, streams):
    full, other, train = teacher(windows=(8, 8)), teacher(windows=(8, 8)), streams()
    with torch.no_grad():
        other.encoder.blocks[1].attention.out_proj.weight.mul_(10.0)
    results = [transfer_attention(model, train, config=CONFIG) for model in (full, other)]
    ours, theirs = (result.model.encoder.blocks[0].attention for result in results)
    assert torch.equal(ours.q_tilde, theirs.q_tilde)
    assert results[0].after[0] == results[1].after[0]


def test_bfloat16(teacher, streams):
    full, train = teacher(windows=(8, 8)), streams()
    exact, rounded = (
        transfer_attention(full, train, config=dataclasses.replace(CONFIG, bf16=bf16)) for bf16 in (False, True)
    )
    # The error of an output is at least that of bfloat16, 2⁻⁹ of it; the others are much larger.
    assert rounded.before == pytest.approx(exact.before, rel=0.1)
    assert rounded.before != exact.before
    assert all(after < before for before, after in zip(rounded.before, rounded.after, strict=True))
    assert rounded.model.encoder.blocks[0].attention.q_tilde.dtype == torch.float32


def test_fine_tuning_is_resumed(teacher, streams, tmp_path, killed):
    from nystream.train.single import Single

    full, train, valid = teacher(), streams(), streams(seed=1)
    options = {"config": CONFIG, "fine_tune": TrainConfig(epochs=3, batch_size=4), "task": Forecasting()}
    whole = transfer_attention(full, train, valid, **options).model
    with killed(Single, 3):
        transfer_attention(full, train, valid, folder=tmp_path, tensorboard=False, **options)
    again = transfer_attention(full, train, valid, folder=tmp_path, tensorboard=False, **options).model
    for (name, a), b in zip(again.state_dict().items(), whole.state_dict().values(), strict=True):
        assert torch.equal(a, b), name
    assert [path.name for path in tmp_path.iterdir()] == ["tuning"]
    with pytest.raises(ValueError, match="contains a different run: teachers is"):
        transfer_attention(teacher(seed=1), train, valid, folder=tmp_path, tensorboard=False, **options)


@pytest.mark.parametrize("learn", [False, True])
def test_landmarks_stay_or_are_learned_in_the_fine_tuning(teacher, windows, learn):
    full, train = [teacher(seed=seed) for seed in range(2)], windows()
    options = {"fine_tune": CONFIG, "task": Classification(), "learn_landmarks": learn}
    for result, start in zip(
        transfer_attention(full, train, config=CONFIG, **options),
        transfer_attention(full, train, config=CONFIG),
        strict=True,
    ):
        ours, before = (r.model.encoder.blocks[0].attention for r in (result, start))
        assert torch.equal(ours.q_tilde, before.q_tilde) == (not learn)
        assert not torch.equal(ours.q_proj.weight, before.q_proj.weight)
        assert result.after == start.after


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        ({"variant": "co-fixed-single"}, {}, "'co-fixed-single', which has fixed landmarks already"),
        ({"landmarks": None}, {}, "block 0 of the model has no number of landmarks"),
        ({}, {"landmarks": 9}, "landmarks=9 is more than window=8"),
        ({}, {"trained": "all"}, "trained='all' is not known"),
        ({}, {"method": "xy"}, "method='xy' is not known"),
        ({}, {"tokens": 1}, "tokens=1 is less than the m=2 landmarks"),
        ({}, {"config": TrainConfig(patience=2)}, "config has patience=2, but the transfer has no validation"),
        ({}, {"config": TrainConfig(schedule="plateau")}, "config has schedule='plateau'"),
        ({}, {"config": TrainConfig(average=0.9)}, "config has average=0.9, but the transfer averages no weights"),
        ({}, {"seeds": [1]}, "seeds= is for several models"),
        ({}, {"task": Forecasting()}, "task= is for the fine-tuning"),
        ({}, {"fine_tune": CONFIG}, "fine_tune= needs a task"),
        ({}, {"fine_tune": TrainConfig(patience=1), "task": Forecasting()}, "patience=1 needs validation data"),
    ],
)
def test_what_cannot_be_done(tiny, streams, shape, options, message):
    with pytest.raises(ValueError, match=message):
        transfer_attention(tiny(**shape), streams(), **options)


@pytest.mark.parametrize("shape", [{"variant": "full"}, {"layers": 2}, {"variant": "nystrom"}])
def test_only_blocks_that_return_their_newest_row(tiny, streams, shape):
    with pytest.raises(ValueError, match="needs blocks that return their newest row"):
        transfer_attention(tiny(**shape), streams())


def test_an_attention_that_gives_nothing(teacher, streams):
    full = teacher(windows=(8, 8))
    torch.nn.init.zeros_(full.encoder.blocks[1].attention.out_proj.weight)
    with pytest.raises(ValueError, match="attention of block 1 gives all tokens the same output"):
        transfer_attention(full, streams(), config=CONFIG)


def test_models_of_different_configs(teacher, streams):
    with pytest.raises(ValueError, match=r"model\[1\] has another config than model\[0\]"):
        transfer_attention([teacher(), teacher(windows=(6,))], streams())
    with pytest.raises(ValueError, match="model is an empty list"):
        transfer_attention([], streams())
    with pytest.raises(TypeError, match="model is a Linear, but must be a StreamModel"):
        transfer_attention(torch.nn.Linear(1, 1), streams())

"""Learning from a teacher: its outputs in the targets, the loss computed by hand, and whole runs."""

import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

import nystream as ns
from nystream.train import (
    Classification,
    Detection,
    Distillation,
    Forecasting,
    StreamData,
    TrainConfig,
    WindowData,
    checks,
    distilled,
    evaluate,
    fit,
    fit_many,
    predict,
)
from nystream.train.many import Many
from nystream.train.single import Single

NAN = float("nan")


def weights(model):
    return torch.cat([x.detach().flatten() for x in model.parameters()])


def in_double(data):
    if isinstance(data, WindowData):
        return WindowData(data.x.double(), data.y)
    return StreamData(*zip(*((x.double(), y) for x, y in map(data.stream, range(len(data)))), strict=True))


@pytest.fixture
def frames(streams):
    """Streams of three classes, some of them unknown."""

    def frames(count=3, seed=0):
        data = streams(count, seed)
        y = data.y.argmax(-1)
        y[::5] = -1
        return StreamData(data.x.split(data.length.tolist()), y.split(data.length.tolist()))

    return frames


def test_targets_of_windows(tiny, windows):
    plain, teacher = windows(20), tiny("full", seed=3)
    plain.y[2] = -1
    data = distilled(plain, teacher, batch_size=7)
    own, said = data.y.unbind(1)
    assert torch.equal(data.x, plain.x)
    assert data.fingerprint != plain.fingerprint
    assert torch.equal(own[3:], F.one_hot(plain.y[3:], 3).float())
    assert bool(own[2].isnan().all())
    assert torch.allclose(said, predict(teacher, plain)[0], atol=1e-6)


@pytest.mark.parametrize(("update_size", "skip"), [(1, 0), (1, 7), (4, 0), (4, 63)])
def test_targets_of_streams(tiny, streams, update_size, skip):
    plain, teacher = streams(3), tiny(seed=3, update_size=update_size)
    data = distilled(plain, teacher, skip=skip)
    assert torch.equal(data.length, plain.length)
    assert torch.equal(data.y[:, 0], plain.y)
    for i in range(3):
        x, y = data.stream(i)
        whole = len(x) // update_size * update_size
        said = teacher.steps(x[None, :whole], teacher.init_state(1))[0][0].detach()
        assert torch.allclose(y[skip:whole, 1], said[skip:], atol=1e-5)
        assert bool(y[:skip, 1].isnan().all())
        assert bool(y[whole:, 1].isnan().all())


def test_a_teacher_speaks_the_users_units(tiny, streams):
    teacher = tiny(seed=3)
    teacher.output_scaler.set(torch.full((3,), 500.0), torch.full((3,), 10.0))
    assert 400 < float(distilled(streams(1), teacher).y[:, 1].mean()) < 600


@given(
    st.floats(0, 1), st.floats(0.5, 5), st.sampled_from(["class", "softmax", "sigmoid", "number"]), st.integers(0, 99)
)
def test_the_loss_by_hand(share, temperature, kind, seed):
    torch.manual_seed(seed)
    output, said, y = torch.randn(6, 4).double(), 3 * torch.randn(6, 4).double(), torch.randint(4, (6,))
    task = {
        "class": Classification(label_smoothing=0.1),
        "softmax": Detection(),
        "sigmoid": Detection(kind="sigmoid"),
        "number": Forecasting(delta=0.5),
    }[kind]
    hot = F.one_hot(y, 4).double()
    own = F.cross_entropy(output, y, reduction="none", label_smoothing=0.1 if kind == "class" else 0.0)
    p, q = (said / temperature).softmax(-1), (output / temperature).softmax(-1)
    far = temperature**2 * (p * (p / q).log()).sum(-1)
    if kind == "sigmoid":
        own = F.binary_cross_entropy(output.sigmoid(), hot, reduction="none").sum(-1)
        far = F.binary_cross_entropy(output.sigmoid(), said.sigmoid(), reduction="none").sum(-1)
    if kind == "number":
        hot = torch.randn(6, 4).double()
        own = F.huber_loss(output, hot, reduction="none", delta=0.5).mean(-1)
        far = F.huber_loss(output, said, reduction="none", delta=0.5).mean(-1)
    each, counts = Distillation(task, share, temperature).loss(output, torch.stack([hot, said], 1))
    assert torch.allclose(each, (1 - share) * own + share * far)
    assert bool(counts.all())


@pytest.mark.parametrize("task", [Classification(), Detection(), Detection(kind="sigmoid"), Forecasting()])
def test_a_token_learns_from_what_it_has(task):
    output = torch.randn(4, 3, requires_grad=True)
    own, said = torch.eye(3)[[0, 1, 2, 0]], torch.randn(4, 3)
    own[[1, 3]], said[[2, 3]] = NAN, NAN  # both, the teacher's, its own, neither
    y = torch.stack([own, said], 1)
    alone, taught = Distillation(task, 0.0), Distillation(task, 1.0)
    each, counts = Distillation(task, 0.25).loss(output, y)
    assert counts.tolist() == [True, True, True, False]
    assert alone.loss(output, y)[1].tolist() == [True, False, True, False]
    assert taught.loss(output, y)[1].tolist() == [True, True, False, False]
    of_task, of_teacher = alone.loss(output, y)[0], taught.loss(output, y)[0]
    expected = [0.75 * of_task[0] + 0.25 * of_teacher[0], 0.25 * of_teacher[1], 0.75 * of_task[2]]
    assert torch.allclose(each[:3], torch.stack(expected))
    each[counts].sum().backward()
    assert bool(output.grad.isfinite().all())


CASES = ["windows", "frames", "frames through windows", "numbers", "numbers through windows"]


@pytest.fixture
def case(tiny, windows, frames, streams):
    """Data, a task and a config: case("windows")."""

    def case(name, seed=0):
        kind = name.split()[0]
        data, task = {
            "windows": (windows(40, seed), Classification(label_smoothing=0.1)),
            "frames": (frames(3, seed), Detection()),
            "numbers": (streams(3, seed), Forecasting()),
        }[kind]
        through = "windows" if name.endswith("windows") else "steps"
        config = TrainConfig(
            epochs=2, batch_size=16 if through == "windows" else 2, lr=1e-2, short=0.3, through=through
        )
        return data, task, config

    return case


@pytest.mark.parametrize("name", CASES)
def test_without_a_share_it_is_the_task_to_the_bit(tiny, case, name):
    data, task, config = case(name)
    plain, taught = tiny(dropout=0.1), tiny(dropout=0.1)
    for model in (plain, taught):
        model.output_scaler.set(torch.tensor([0.1, 0.2, 0.3]), torch.tensor([1.0, 2.0, 0.5]))
    a = fit(plain, data, data, config, task=task)
    b = fit(taught, distilled(data, tiny("full", seed=9)), data, config, task=Distillation(task, share=0.0))
    assert torch.equal(weights(plain), weights(taught))
    assert a.best == b.best
    assert a.history[-1]["train_loss"] == b.history[-1]["train_loss"]


@pytest.mark.parametrize("name", CASES)
def test_a_student_approaches_its_teacher(tiny, case, name):
    data, task, config = case(name)
    teacher = tiny("co-full-single", seed=3)
    with torch.no_grad():
        teacher.head.weight.mul_(5)  # one that has something to say
    taught, config = distilled(data, teacher), dataclasses.replace(config, epochs=12, lr=2e-2)
    student = tiny("co-full-single", seed=4)
    result = fit(student, taught, None, config, task=Distillation(task, share=1.0))
    assert result.history[-1]["train_loss"] < 0.5 * result.history[0]["train_loss"]


@pytest.mark.parametrize("through", ["windows", "steps"])
def test_a_teacher_alone_is_as_targets(tiny, streams, through):
    """In the model's units, whatever the user's are."""
    data, teacher, config = streams(2), tiny("full", seed=9), TrainConfig(epochs=2, batch_size=4, through=through)
    said = StreamData(data.x.split(data.length.tolist()), predict(teacher, data)[0].split(data.length.tolist()))
    plain, taught = tiny(), tiny()
    for model in (plain, taught):
        model.output_scaler.set(torch.tensor([0.1, 0.2, 0.3]), torch.tensor([1.0, 2.0, 0.5]))
    fit(plain, said, data, config, task=Forecasting())
    fit(taught, distilled(data, teacher), data, config, task=Distillation(Forecasting(), share=1.0))
    assert torch.equal(weights(plain), weights(taught))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("teachers", ["one", "one each"])
def test_many_as_apart(tiny, case, name, teachers):
    data, task, config = case(name)
    data, task = in_double(data), Distillation(task, 0.4)
    sets = [distilled(data, tiny("full", seed=7 + i).double()) for i in range(2)]
    if teachers == "one":
        sets[1] = sets[0]
    together, apart = ([tiny("co-fixed-single", seed=i).double() for i in range(2)] for _ in range(2))
    many = fit_many(together, sets[0] if teachers == "one" else sets, data, config, task=task)
    for i, model in enumerate(apart):
        alone = fit(model, sets[i], data, dataclasses.replace(config, seed=i), task=task)
        assert torch.allclose(weights(together[i]), weights(model), atol=1e-6)
        assert many[i].best == pytest.approx(alone.best)
    assert not torch.allclose(weights(together[0]), weights(together[1]))


def test_tokens_that_arrive_together(tiny, streams):
    data = streams(2)
    model = tiny(update_size=4)
    config = TrainConfig(epochs=4, batch_size=8, lr=1e-2, through="windows")
    result = fit(model, distilled(data, tiny(seed=3, update_size=2)), data, config, task=Distillation(Forecasting()))
    assert result.history[-1]["train_loss"] < result.history[0]["train_loss"]


def test_both_phases(tiny, windows):
    data, task = windows(40), Distillation(Classification())
    taught = [distilled(data, tiny("full", seed=7 + i)) for i in range(2)]
    config = TrainConfig(epochs=2, batch_size=8, lr=1e-2)
    fixed = ns.train_two_phase(
        [tiny("co-cont-single", seed=i) for i in range(2)], taught, data, task=task, config=config
    )
    assert [model.config.attention.variant for model in fixed] == ["co-fixed-single"] * 2


@pytest.mark.parametrize("name", CASES)
def test_the_task_inside_judges(tiny, case, name):
    data, task, _ = case(name)
    model = tiny()
    model.output_scaler.set(torch.tensor([0.1, 0.2, 0.3]), torch.tensor([1.0, 2.0, 0.5]))
    expected = evaluate(model, data, task)
    for given_data in (data, distilled(data, tiny("full", seed=3))):
        assert evaluate(model, given_data, Distillation(task)) == expected


@pytest.mark.parametrize("engine", [Single, Many])
def test_a_run_goes_on_exactly(tiny, case, tmp_path, killed, engine):
    data, task, config = case("frames")
    config, task = dataclasses.replace(config, epochs=4, checkpoint_every=2), Distillation(task, 0.4)

    def run(seed, folder=None, teacher=9, task=task):
        model, taught = tiny(seed=seed, dropout=0.1), distilled(data, tiny("full", seed=teacher))
        start = fit if engine is Single else fit_many
        start(model if engine is Single else [model], taught, data, config, task=task, folder=folder, tensorboard=False)
        return weights(model)

    with killed(engine, 7):
        run(0, tmp_path)
    assert torch.equal(run(5, tmp_path), run(0))
    with pytest.raises(ValueError, match=r"data is .* there and"):
        run(0, tmp_path, teacher=10)
    with pytest.raises(ValueError, match=r"task is .Distillation\(task=Detection\(.*share=0.4, .*share=0.5"):
        run(0, tmp_path, task=dataclasses.replace(task, share=0.5))


def test_the_task_in_words():
    words = "Distillation(task=Forecasting(delta=1.0, quantiles=()), share=0.5, temperature=2.0)"
    assert checks.describe(Distillation(Forecasting())) == words


def test_errors_of_the_task():
    with pytest.raises(TypeError, match="but must be Classification"):
        Distillation(Distillation(Forecasting()))
    for share in (-0.1, 1.1, NAN):
        with pytest.raises(ValueError, match=f"share={share} must be at least 0"):
            Distillation(Forecasting(), share)
    for temperature in (0, -1.0, NAN, float("inf")):
        with pytest.raises(ValueError, match=f"temperature={temperature} must be greater than 0"):
            Distillation(Forecasting(), temperature=temperature)
    with pytest.raises(TypeError, match="share='half' must be a number"):
        Distillation(Forecasting(), "half")


def test_errors_of_the_teacher(tiny, windows, streams):
    data = windows(20)
    with pytest.raises(TypeError, match="teacher is a Linear, but must be a StreamModel"):
        distilled(data, torch.nn.Linear(3, 3))
    with pytest.raises(TypeError, match="data is a Tensor, but must be WindowData"):
        distilled(data.x, tiny())
    with pytest.raises(ValueError, match="data has 3 columns, but the teacher's input_dim is 4"):
        distilled(data, tiny(input_dim=4))
    with pytest.raises(ValueError, match="data has class 2, but the teacher's output_dim is 2"):
        distilled(data, tiny(output_dim=2))
    with pytest.raises(ValueError, match=r"data has targets \[.*, 3\], but the teacher's outputs are \[N, 2\]"):
        distilled(streams(1), tiny(output_dim=2))
    with pytest.raises(
        ValueError, match=r"targets torch.int64 \[20, 3\], but must have classes \[N\] or floats \[N, 3\]"
    ):
        distilled(WindowData(data.x, F.one_hot(data.y, 3)), tiny())
    with pytest.raises(ValueError, match="windows of 7 tokens, not a multiple of the teacher's update_size=2"):
        distilled(windows(20, tokens=7), tiny(update_size=2))
    with pytest.raises(ValueError, match="already have a teacher's outputs"):
        distilled(distilled(data, tiny()), tiny())
    broken = tiny()
    torch.nn.init.constant_(broken.head.bias, NAN)
    with pytest.raises(ValueError, match="teacher has outputs that are not finite"):
        distilled(data, broken)


def test_errors_of_the_data(tiny, windows, streams):
    task = Distillation(Classification())
    with pytest.raises(ValueError, match=r"train on distilled\(train, teacher\)"):
        fit(tiny(), windows(20), task=task)
    taught = distilled(windows(20), tiny())
    with pytest.raises(ValueError, match="train: y has the 3 outputs of a teacher, but the model's output_dim is 4"):
        fit(tiny(output_dim=4), taught, task=task)
    with pytest.raises(ValueError, match=r"must be as returned by distilled\(\): \[N, 2, 3\]"):
        fit(tiny(), WindowData(taught.x, taught.y[:, :1]), task=task)
    with pytest.raises(ValueError, match=r"valid after .*: y is torch.float32"):
        fit(tiny(), taught, streams(1), task=task)
    taught.y[:, 0] = NAN
    with pytest.raises(ValueError, match="train: y has no known class"):
        fit(tiny(), taught, task=task)
    several = WindowData(taught.x, torch.ones(20, 3))
    with pytest.raises(ValueError, match="windows of several classes at once"):
        fit(tiny(), distilled(several, tiny()), task=task)
    with pytest.raises(ValueError, match="y has no output of the teacher"):
        fit(tiny(), distilled(streams(1), tiny(), skip=99), task=Distillation(Forecasting()))

"""Classes by logistic regression, blended with a Transformer."""

import pytest
import torch

import nystream as ns
from nystream.data import logistic_start
from nystream.data.logistic_start import Blend, best_blend, blended, features, fit_start, path_config
from nystream.layers.scaler import Scaler
from nystream.train import Classification, Detection, StreamData, predict


def streams(count=12, length=40, classes=3, per_file=False, seed=0):
    """The largest mean of recent inputs, or of the file's, is the class."""
    random = torch.Generator().manual_seed(seed)
    x = [torch.randn(length + i, 4, generator=random) + torch.randn(4, generator=random) for i in range(count)]
    if per_file:
        y = [torch.full((len(part),), int(part[:, :classes].mean(0).argmax())) for part in x]
    else:
        y = [
            torch.stack([part[max(0, t - 7) : t + 1, :classes].mean(0).argmax() for t in range(len(part))])
            for part in x
        ]
    return StreamData(x, y)


def model(input_dim=4, classes=3):
    torch.manual_seed(0)
    attention = ns.AttentionConfig("co-full-single", embed_dim=8, num_heads=2, window=6, decay=True)
    config = ns.ModelConfig(input_dim=input_dim, output_dim=classes, attention=attention, layers=2, stack="deep")
    return ns.StreamModel(config, ns.ModelInfo("detection", labels=tuple("abc"[:classes]))).eval()


@pytest.mark.parametrize("per_file", [False, True])
def test_features_are_those_of_the_model(per_file):
    data = streams(4, per_file=per_file)
    config = path_config(50, per_file)
    scaler = Scaler(4, dtype=torch.float64)
    scaler.fit(data.x)
    found = features(config, scaler, data)
    at = 0
    for place in range(len(data)):
        x = scaler(data.stream(place)[0].double())
        for t in (0, 1, 5, len(x) - 1):
            parts, start = [x[t]], t
            for length in config.segments[1:]:
                before = x[max(0, start - length) : start]
                parts.append(before.mean(0) if len(before) else torch.zeros(4, dtype=x.dtype))
                start = max(0, start - length)
            torch.testing.assert_close(found[at + t], torch.cat(parts))
        at += len(x)


@pytest.mark.parametrize("per_file", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_the_blend_is_one_model(per_file, share):
    data, task = streams(per_file=per_file), Classification() if per_file else Detection()
    start = fit_start(data, streams(seed=1, per_file=per_file), task, 3, path_config(50, per_file), per_file)
    transformer = model()
    transformer.input_scaler.fit(data.x)
    joined = blended(transformer, start, Blend(share, 1.5, 0.0, 0.0))
    logistic = start.predict(data)
    expected = ((1 - share) * logistic + share * predict(transformer, data)[0].double()) / 1.5
    # float32 weights and sums
    torch.testing.assert_close(predict(joined, data)[0].double(), expected, atol=1e-4, rtol=1e-4)
    alone = logistic_start.logistic_of(joined)
    if share == 1:
        assert alone is None
    else:  # logistic regression itself, without share and temperature
        torch.testing.assert_close(predict(alone, data)[0].double(), logistic, atol=1e-4, rtol=1e-4)
    assert logistic_start.logistic_of(transformer) is None
    assert joined.config.linear == start.config
    assert joined.info == transformer.info
    pool = ns.StreamPool(joined)
    sid = pool.open()
    pushed = [torch.from_numpy(pool.push(sid, token)) for token in data.stream(0)[0].numpy()]
    torch.testing.assert_close(torch.stack(pushed).double(), expected[: len(pushed)], atol=1e-4, rtol=1e-4)


def test_logistic_regression_finds_what_is_linear():
    for per_file, task in ((False, Detection()), (True, Classification())):
        data, valid = streams(60, per_file=per_file), streams(20, seed=1, per_file=per_file)
        start = fit_start(data, valid, task, 3, path_config(60, per_file), per_file)
        assert next(iter(start.logistic.scores.values())) > (0.7 if per_file else 0.85)  # also of beginnings of files


def test_a_blend_is_not_worse_than_logistic_regression():
    random = torch.Generator().manual_seed(0)
    y = torch.randint(3, (400,), generator=random)
    right = torch.nn.functional.one_hot(y, 3).double()
    noise = torch.randn(2, 400, 3, generator=random, dtype=torch.float64)
    task = Classification()
    useless = best_blend(4 * right + noise[0], 5 * noise[1], y, task)
    assert useless.share == 0.0
    assert useless.score >= useless.alone
    both = best_blend(1.5 * right + noise[0], 1.5 * right + noise[1], y, task)  # independent errors
    assert 0.0 < both.share < 1.0
    assert both.score > both.alone
    better = best_blend(noise[0], 4 * right + noise[1], y, task)
    assert better.share >= 0.75


def test_the_temperature_makes_probabilities_right():
    random = torch.Generator().manual_seed(0)
    logits = torch.randn(4000, 3, generator=random, dtype=torch.float64) * 2
    y = torch.multinomial(logits.softmax(1), 1, generator=random)[:, 0]
    assert best_blend(3 * logits, 3 * logits, y, Classification()).temperature == 3.0


def test_the_class_of_a_file_is_learned_in_four_places():
    data = StreamData([torch.zeros(8, 1), torch.zeros(1, 1)], [torch.zeros(8).long(), torch.ones(1).long()])
    assert logistic_start._learned(data, True).tolist() == [1, 3, 5, 7, 8]
    assert path_config(1, True).tokens == 1
    assert path_config(10_000, True).tokens == logistic_start.LONGEST

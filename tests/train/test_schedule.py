from itertools import pairwise

import pytest

from nystream.train import TrainConfig
from nystream.train.optimizer import lr_factor


def test_a_rise_then_a_cosine():
    config = TrainConfig(warmup=0.1, min_lr=0.1)
    shares = [lr_factor(step, 100, config) for step in range(100)]
    assert shares[:10] == pytest.approx([i / 10 for i in range(1, 11)])
    assert shares[10] == pytest.approx(1.0)
    assert shares[55] == pytest.approx(0.55)  # half way down, between 1 and min_lr
    assert all(a > b for a, b in pairwise(shares[10:]))
    assert 0.1 < shares[-1] < 0.11


@pytest.mark.parametrize("schedule", ["constant", "plateau"])
def test_no_cosine(schedule):
    config = TrainConfig(warmup=0.0, schedule=schedule)
    assert {lr_factor(step, 10, config) for step in range(10)} == {1.0}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "epochs=0 must be at least 1"),
        ({"lr": -1.0}, "lr=-1.0 must be finite and at least 0"),
        ({"short": 2.0}, "short=2.0 must be between 0 and 1"),
        ({"clip": 0.0}, "clip=0.0 must be greater than 0"),
        ({"schedule": "step"}, "schedule='step' is not known"),
        ({"seed": -1}, "seed=-1 must be an integer of at least 0"),
    ],
)
def test_the_config_is_checked(options, message):
    with pytest.raises(ValueError, match=message):
        TrainConfig(**options)


def test_the_config_goes_through_a_dict():
    config = TrainConfig(epochs=3, clip=None)
    assert TrainConfig.from_dict(config.to_dict()) == config
    with pytest.raises(ValueError, match="unknown fields: speed"):
        TrainConfig.from_dict({"speed": 1})

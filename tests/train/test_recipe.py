"""The phases of fixed landmarks, and how epochs are divided among them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nystream import variants
from nystream.train import TrainConfig
from nystream.train.recipe import divide, phase_one, phase_two, tuning

CONFIG = TrainConfig(epochs=18, steps_per_epoch=40, lr=3e-3)


def test_twelve_epochs_and_six_for_one_block():
    phases = divide(CONFIG, 1)
    assert [(phase.folder, phase.config.epochs, phase.fix) for phase in phases] == [
        ("phase-1", 12, ()),
        ("phase-2-block-0", 6, (0,)),
    ]
    assert [phase.config.lr for phase in phases] == [3e-3, pytest.approx(1e-3)]
    # The same as half the epochs of phase one.
    assert phases == [phase_one(phases[0].config), *phase_two(tuning(phases[0].config), 1)]


def test_a_quarter_and_the_rest_for_all_blocks_at_once():
    phases = divide(CONFIG, 3, at_once=True)
    assert [(phase.folder, phase.config.epochs, phase.config.lr, phase.fix) for phase in phases] == [
        ("phase-1", 4, 3e-3, ()),
        ("phase-2", 14, 3e-3, (0, 1, 2)),
    ]


@given(st.integers(1, 60), st.integers(1, 6), st.integers(1, 50))
def test_the_total_is_what_was_asked_for_at_once(epochs, blocks, steps):
    config = TrainConfig(epochs=epochs, steps_per_epoch=steps)
    first, second = (phase.config for phase in divide(config, blocks, shorten=True, at_once=True))
    if epochs > 1:
        assert first.epochs + second.epochs == epochs
        assert first.epochs == max(1, epochs // 4)
        assert first.steps_per_epoch == second.steps_per_epoch == steps
        assert [first, second] == [phase.config for phase in divide(config, blocks, at_once=True)]
    else:
        assert first == second == TrainConfig(epochs=1, steps_per_epoch=max(1, steps // 2))
        with pytest.raises(ValueError, match="epochs=1 is too few for fixed landmarks: at least 2"):
            divide(config, blocks, at_once=True)


@given(st.integers(1, 60), st.integers(1, 6), st.integers(1, 50))
def test_the_total_is_what_was_asked_for(epochs, blocks, steps):
    config = TrainConfig(epochs=epochs, steps_per_epoch=steps)
    configs = [phase.config for phase in divide(config, blocks, shorten=True)]
    assert len(configs) == 1 + blocks
    updates = sum(one.epochs * one.steps_per_epoch for one in configs)
    if epochs > blocks:
        assert updates == epochs * steps
    else:  # one epoch each, and at least one update
        assert {one.epochs for one in configs} == {1}
        assert updates == len(configs) * max(1, epochs * steps // len(configs))
    if epochs >= blocks + 2:
        assert configs == [phase.config for phase in divide(config, blocks)]
        assert configs[0].epochs >= 2 * configs[1].epochs
    else:
        with pytest.raises(ValueError, match=f"epochs={epochs} is too few for fixed landmarks: at least {blocks + 2}"):
            divide(config, blocks)


@pytest.mark.parametrize(
    ("fixed", "continual"),
    [
        ("co-fixed-single", "co-cont-single"),
        ("co-fixed-retro", "co-cont-retro"),
        ("nystrom-fixed", "nystrom"),
    ],
)
def test_phase_one_has_the_variant_that_becomes_fixed(fixed, continual):
    assert variants.continual_form(fixed) == continual
    assert variants.get(continual).fixed_form == fixed


def test_a_variant_that_no_other_becomes():
    with pytest.raises(ValueError, match="'co-cont-single' is not the fixed form"):
        variants.continual_form("co-cont-single")

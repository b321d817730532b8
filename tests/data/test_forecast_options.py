"""Horizons and quantiles, as users give them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nystream.data.forecast_options import horizon_setting, horizons_in, quantiles_in, quantiles_setting
from nystream.data.settings import Settings, read_config


@pytest.mark.parametrize(
    ("given_as", "expected", "setting"),
    [
        (24, (24,), 24),
        ("24", (24,), 24),
        ("1..4", (1, 2, 3, 4), "1..4"),
        ("7..7", (7,), 7),
        (" 1, 24,48 ", (1, 24, 48), "1,24,48"),
        (range(1, 49), tuple(range(1, 49)), "1..48"),
        (range(24, 73, 24), (24, 48, 72), "24,48,72"),
        ((1, 2), (1, 2), "1..2"),
        ([3], (3,), 3),
    ],
)
def test_horizons(given_as, expected, setting):
    assert horizons_in(given_as) == expected
    assert horizon_setting(given_as) == setting
    assert Settings(source="a.csv", horizon=given_as).horizon == setting


@given(st.sets(st.integers(1, 200), min_size=1, max_size=40))
def test_a_setting_is_read_back(numbers):
    assert horizons_in(horizon_setting(sorted(numbers))) == tuple(sorted(numbers))


@pytest.mark.parametrize(
    ("horizon", "words"),
    [
        (0, "horizon=0 must be at least 1"),
        ("0", "horizon=0 must be at least 1"),
        ("-3", "horizon=-3 must be at least 1"),
        ("0..4", "horizon=0 must be at least 1"),
        ("4..1", "ends before it begins"),
        ("1..", "horizon='1..' cannot be read; it must be a number of rows such as 24, a range such as 1..48"),
        ("", "cannot be read"),
        ("a day", "cannot be read"),
        ("1.5", "cannot be read"),
        ("1,1", "in rising order, none of them twice"),
        ((24, 1), "in rising order"),
        ((), "at least one integer"),
        ("1..5000", "horizon has 5,000 numbers, but must have at most 1,024"),
    ],
)
def test_horizons_that_cannot_be_used(horizon, words):
    with pytest.raises(ValueError, match=words):
        horizons_in(horizon)


def test_horizons_of_another_type():
    for wrong in (1.5, None, True, [1.5]):
        with pytest.raises(TypeError, match="horizon"):
            horizons_in(wrong)


def test_quantiles():
    assert quantiles_in("0.1, 0.5,.9") == quantiles_in((0.1, 0.5, 0.9)) == (0.1, 0.5, 0.9)
    assert quantiles_in("") == quantiles_in(()) == ()
    assert quantiles_setting([0.05, 0.5]) == "0.05,0.5"


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        ("0.1,1", "quantiles has 1.0, but levels must be greater than 0 and less than 1"),
        ((0.0, 0.5), "quantiles has 0.0"),
        ("10,90", "quantiles has 10.0"),
        ((0.5, 0.1), "must be in rising order, none of them twice"),
        ("0.5,0.5", "none of them twice"),
        ("nan", "quantiles has nan"),
        ("0.1;0.9", "must be numbers separated by commas"),
    ],
)
def test_quantiles_that_cannot_be_used(levels, words):
    with pytest.raises(ValueError, match=words):
        quantiles_in(levels)


def test_a_config_file_has_what_was_given(tmp_path):
    settings = Settings(source="a.csv", horizon=range(1, 49), quantiles=(0.1, 0.9), minimum=0)
    path = tmp_path / "config.toml"
    path.write_text(settings.to_toml())
    assert Settings(**read_config(path)) == settings
    assert 'horizon = "1..48"' in path.read_text()
    path.write_text(Settings(source="a.csv", horizon=24).to_toml())
    assert "horizon = 24\n" in path.read_text()
    assert read_config(path)["minimum"] == float("-inf")
    for wrong in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="minimum="):
            Settings(source="a.csv", minimum=wrong)

"""The fields of a run, and its config file."""

import dataclasses
import math
import tomllib

import pytest

from nystream.data.settings import Settings, names_in, read_config


@pytest.mark.parametrize(
    "fields",
    [
        {"target": "größe 😀", "columns": 'a "b",c\\d', "units": "\x7f\t€"},
        {"target": ("Load, MW", "b")},
        {"seconds": math.inf, "lr": 1e-7},
    ],
)
def test_a_config_file_can_be_read_back(tmp_path, fields):
    settings = Settings(source="data.csv", **fields)
    path = tmp_path / "config.toml"
    path.write_text(settings.to_toml(), encoding="utf-8")
    assert Settings(**read_config(path)) == settings
    assert set(tomllib.loads(settings.to_toml())) == {field.name for field in dataclasses.fields(Settings)}


@pytest.mark.parametrize("lr", ["3e-3", "0.003", "3.0e-3"])
def test_numbers_of_yaml(tmp_path, lr):
    path = tmp_path / "run.yaml"
    path.write_text(f"source: data.csv\nlr: {lr}\nseconds: 5\ntarget: [a, 2020]\n")
    settings = Settings(**read_config(path))
    assert (settings.lr, settings.seconds, settings.target) == (0.003, 5.0, ("a", "2020"))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"window": "x"}, "window='x' must be a whole number, not text"),
        ({"lr": "fast"}, "lr='fast' must be a number, not text"),
        ({"window": 2.5}, "window=2.5 must be a whole number, not a number"),
        ({"window": [1]}, r"window=\[1\] must be a whole number, not a list"),
        ({"target": 3}, "target=3 must be text, not a whole number"),
        ({"time_format": ["a"]}, "must be text, not a list"),
        ({"seed": True}, "must be a whole number, not true or false"),
        ({"decimal": ";"}, "decimal=';'"),
        ({"timezone": "Berlin"}, "timezone='Berlin' is not the name of a time zone, such as Europe/Berlin"),
    ],
)
def test_what_is_refused(fields, words):
    with pytest.raises((TypeError, ValueError), match=words):
        Settings(source="data.csv", **fields)


def test_lists_of_names():
    assert names_in("") == ()
    assert names_in("a, b,c") == ("a", "b", "c")
    assert names_in("Load, MW", ("Load, MW", "b")) == ("Load, MW",)
    assert names_in('"Load, MW", b') == ("Load, MW", "b")
    assert names_in(("Load, MW", "b")) == ("Load, MW", "b")


def test_nothing_given_is_no_name_though_a_column_has_none():
    assert names_in("", {"", "a"}) == ()

"""The metadata of a model: names, units and the reader of its records."""

import json

import pytest

import nystream as ns
from nystream.config.json_text import parse

INFO = ns.ModelInfo("forecasting", ("a", "b"), ("load", "price"), ("MW", "€"), horizon=4, seconds=0.25)


def test_info_goes_through_json():
    assert ns.ModelInfo.from_dict(json.loads(json.dumps(INFO.to_dict()))) == INFO
    assert ns.ModelInfo.from_dict({}) == ns.ModelInfo()
    assert ns.ModelInfo(units="MW", labels=["load"]) == ns.ModelInfo(units=("MW",), labels=("load",))


def test_a_reader_is_kept_as_json_gives_it_back():
    given = {"kind": "table", "columns": ("a", "b")}
    info = ns.ModelInfo(reader=given)
    assert info.reader == {"kind": "table", "columns": ["a", "b"]}
    assert ns.ModelInfo.from_dict(json.loads(json.dumps(info.to_dict()))) == info
    given["kind"] = "other"
    assert info.reader["kind"] == "table"


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"task": 3}, TypeError, ("task=3", "str")),
        ({"inputs": None}, TypeError, ("inputs=None", "list or tuple of str")),
        ({"inputs": 5}, TypeError, ("inputs=5", "list or tuple of str")),
        ({"labels": ("a", 1)}, TypeError, ("labels=('a', 1)", "list or tuple of str")),
        ({"units": {"a": "b"}}, TypeError, ("units={'a': 'b'}", "list or tuple of str")),
        ({"horizon": 0}, ValueError, ("horizon=0", "at least 1")),
        ({"horizon": 1.5}, TypeError, ("horizon=1.5", "integer")),
        ({"horizons": (1, 24)}, ValueError, ("horizon=None", "largest of horizons=(1, 24)")),
        ({"horizons": (24, 1), "horizon": 24}, ValueError, ("horizons=(24, 1)", "rising order")),
        ({"horizons": 24}, TypeError, ("horizons=24", "list or tuple")),
        ({"quantiles": (0.5, 1.0)}, ValueError, ("quantiles has 1.0", "less than 1")),
        ({"quantiles": 0.5}, TypeError, ("quantiles=0.5", "list or tuple")),
        ({"minimum": float("inf")}, ValueError, ("minimum=inf", "finite")),
        ({"minimum": "0"}, TypeError, ("minimum='0'", "number")),
        ({"seconds": 0}, ValueError, ("seconds=0", "greater than 0")),
        ({"seconds": float("nan")}, ValueError, ("seconds=nan", "greater than 0")),
        ({"seconds": "1 h"}, TypeError, ("seconds='1 h'", "number")),
        ({"several": 1}, TypeError, ("several=1", "True or False")),
        ({"reader": ["table"]}, TypeError, ("reader is a list", "dictionary")),
        ({"reader": {"usual": float("nan")}}, TypeError, ("reader", "JSON")),
        ({"reader": {"columns": {1, 2}}}, TypeError, ("reader", "JSON")),
    ],
)
def test_info_names_what_it_refuses(options, error, words):
    with pytest.raises(error) as caught:
        ns.ModelInfo(**options)
    for word in words:
        assert word in str(caught.value)
    with pytest.raises(error):
        ns.ModelInfo.from_dict(options)


def test_info_of_another_version_is_refused():
    with pytest.raises(ValueError, match="info has unknown fields: colour"):
        ns.ModelInfo.from_dict({"colour": "red"})
    with pytest.raises(ValueError, match="info is None, but must be an object with the fields of ModelInfo"):
        ns.ModelInfo.from_dict(None)


def test_info_goes_with_the_widths_of_a_model():
    INFO.check(2, 2)
    ns.ModelInfo().check(7, 7)
    ns.ModelInfo(units="MW").check(7, 7)  # one for all
    for widths, words in (((3, 2), "info.inputs has 2 names, but the model's input_dim is 3"), ((2, 3), "info.labels")):
        with pytest.raises(ValueError, match=words):
            INFO.check(*widths)


def test_a_reader_is_nested_no_deeper_than_can_be_written():
    def nested(depth):
        reader = {}
        for _ in range(depth - 1):
            reader = {"a": reader}
        return reader

    kept = ns.ModelInfo(reader=nested(50))
    assert ns.ModelInfo.from_dict(kept.to_dict()) == kept
    assert parse(json.dumps({"info": {"reader": [kept.to_dict()]}}))
    for depth in (51, 500, 100_000):
        with pytest.raises(TypeError, match=r"reader cannot be written as JSON: .*(nested|recursion)"):
            ns.ModelInfo(reader=nested(depth))


def test_several_horizons_and_quantiles():
    info = ns.ModelInfo(
        "forecasting", (), ("a", "b"), ("MW", "€"), 24, horizons=(1, 24), quantiles=(0.1, 0.5, 0.9), minimum=0
    )
    assert ns.ModelInfo.from_dict(json.loads(json.dumps(info.to_dict()))) == info
    info.check(7, 12)
    with pytest.raises(
        ValueError, match=r"info\.labels has 2 names, but the model's output_dim is 18, 6 for each name"
    ):
        info.check(7, 18)
    with pytest.raises(ValueError, match="6 horizons and quantiles of each label, but the model's output_dim is 4"):
        info.check(7, 4)
    assert not {"horizons", "quantiles", "minimum"} & set(INFO.to_dict())  # files without them stay as they were

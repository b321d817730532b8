"""Answers as JSON-compatible values."""

import json

import numpy as np
import pytest

import nystream as ns
from nystream.data.reader import Token
from nystream.live.answers import Answer, Interpreter, iso_time, json_numbers, sigmoid, softmax
from nystream.live.output import format_line


def test_numbers_are_as_short_as_their_dtype_allows():
    assert json_numbers(np.array([0.1, np.nan, 1e30], np.float32)) == [0.1, None, 1e30]
    third = np.float32(1) / np.float32(3)
    assert np.float32(json_numbers(np.array([third]))[0]) == third
    assert json_numbers(np.array([123456789.123456, np.inf])) == [123456789.123456, None]


def test_what_is_not_finite_is_null():
    answer = Answer(1, "output", (), np.array([1, np.inf], np.float32))
    assert json.loads(json.dumps(answer.to_dict(), allow_nan=False))["output"] == [1.0, None]


def test_probabilities_of_large_logits():
    assert softmax(np.array([1000.0, 0.0])).tolist() == [1.0, 0.0]
    assert sigmoid(np.array([1000.0, 0.0, -1000.0])).tolist() == [1.0, 0.5, 0.0]


def test_a_forecast_keeps_all_digits_of_its_base():
    info = ns.ModelInfo(task="forecasting", labels=("load",), horizon=2)
    interpreter = Interpreter(info, 1, lambda time, rows: None)
    token = Token(np.zeros(1, np.float32), base=np.array([123456789.25]))
    answer = interpreter.answer(1, token, np.array([0.5], np.float32), 0.0)
    assert answer.to_dict()["forecast"] == {"load": 123456789.75}
    assert answer.to_dict()["ahead"] == 2


@pytest.mark.parametrize("several", [False, True])
def test_classes(several):
    info = ns.ModelInfo(task="detection", labels=("a", "b", "c"), several=several)
    interpreter = Interpreter(info, 3, lambda time, rows: None)
    y = np.array([2.0, 1.0, -3.0], np.float32)
    answer = interpreter.answer(1, Token(np.zeros(1, np.float32)), y, 0.0)
    found = answer.to_dict()
    if several:  # each by itself
        assert (answer.label, answer.labels, found["labels"]) == (None, ("a", "b"), ["a", "b"])
        np.testing.assert_allclose(list(found["probabilities"].values()), 1 / (1 + np.exp(-y)), rtol=1e-6)
        assert "label" not in found
    else:
        assert (answer.label, answer.labels, found["label"]) == ("a", None, "a")
        np.testing.assert_allclose(sum(found["probabilities"].values()), 1, rtol=1e-6)
        assert "labels" not in found


def test_times():
    assert iso_time(np.datetime64("2024-01-01")) == "2024-01-01T00:00:00"
    assert iso_time(np.datetime64("2024-01-01T00:00:00.5")) == "2024-01-01T00:00:00.500000"
    assert iso_time(np.datetime64("2024-01-01"), zoned=True) == "2024-01-01T00:00:00Z"
    repeated = [iso_time(np.datetime64(f"2024-10-27T0{hour}"), True, "Europe/Berlin") for hour in (0, 1)]
    assert repeated == ["2024-10-27T02:00:00+02:00", "2024-10-27T02:00:00+01:00"]
    answer = Answer(1, "output", (), np.zeros(1), time=np.datetime64("2024-07-01"), timezone="Asia/Kolkata")
    assert answer.to_dict()["time"] == "2024-07-01T05:30:00+05:30"


def test_units():
    named = Answer(1, "forecast", ("a", "b"), np.zeros(2), ("MW",))
    assert named.to_dict()["units"] == {"a": "MW", "b": "MW"}
    assert Answer(1, "output", (), np.zeros(2), ("MW", "kg")).to_dict()["units"] == ["MW", "kg"]
    assert "units" not in Answer(1, "forecast", ("a",), np.zeros(1)).to_dict()


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_an_output_that_is_not_finite_names_no_class(several, wrong):
    info = ns.ModelInfo(task="detection", labels=("calm", "storm", "rain"), several=several)
    interpreter = Interpreter(info, 3, lambda time, rows: None)
    y = np.array([1.0, wrong, -3.0], np.float32)
    answer = interpreter.answer(1, Token(np.zeros(1, np.float32)), y, 0.0)
    if several and wrong == np.inf:  # a probability of one, whatever the others are
        assert (answer.labels, answer.note) == (("calm", "storm"), "")
        return
    found = json.loads(json.dumps(answer.to_dict(), allow_nan=False))
    assert (answer.label, answer.labels, answer.finite) == (None, None, False)
    assert found["labels" if several else "label"] is None
    assert found["probabilities"]["storm"] is None
    assert found["note"] == answer.note == "the model's output is not finite"


def test_a_forecast_that_is_not_finite_says_so():
    interpreter = Interpreter(ns.ModelInfo(task="forecasting", labels=("load",)), 1, lambda time, rows: None)
    token = Token(np.zeros(1, np.float32), base=np.array([3.0]))
    found = interpreter.answer(1, token, np.array([np.nan], np.float32), 0.0).to_dict()
    assert (found["forecast"], found["note"]) == ({"load": None}, "the model's output is not finite")
    assert "note" not in interpreter.answer(1, token, np.array([1.0], np.float32), 0.0).to_dict()


def interpreted(y, horizons=(), quantiles=(), labels=("load",), minimum=None, ahead=lambda time, rows: None):
    largest = horizons[-1] if horizons else 2
    info = ns.ModelInfo(
        "forecasting", (), labels, ("MW",), largest, horizons=horizons, quantiles=quantiles, minimum=minimum
    )
    token = Token(np.zeros(1, np.float32), np.datetime64("2024-01-01", "us"), base=np.full(len(labels), 10.0))
    return Interpreter(info, len(y), ahead).answer(1, token, np.array(y, np.float32), 0.0)


def hours_ahead(time, rows):
    return time + np.timedelta64(rows, "h")


def test_several_horizons_are_lists():
    answer = interpreted([1.0, 2.0, 3.0, 4.0], (1, 24), labels=("load", "price"))
    found = answer.to_dict()
    assert found["forecast"] == {"load": [11.0, 12.0], "price": [13.0, 14.0]}
    assert found["ahead"] == [1, 24]
    assert found["units"] == {"load": "MW", "price": "MW"}
    assert format_line(answer).plain.endswith("load    11 … 12 MW  price    13 … 14 MW  1 … 24 rows ahead")
    found = interpreted([1.0, 2.0], (1, 24), ahead=hours_ahead).to_dict()
    assert found["for"] == ["2024-01-01T01:00:00", "2024-01-02T00:00:00"]


def test_quantiles_are_objects_in_order():
    answer = interpreted([3.0, -12.0, 2.0], quantiles=(0.1, 0.5, 0.9), minimum=0.0)
    found = answer.to_dict()
    assert found["forecast"] == {"load": {"0.1": 0.0, "0.5": 12.0, "0.9": 13.0}}
    assert found["ahead"] == 2
    assert format_line(answer).plain.endswith("load 12 (0 to 13) MW  2 rows ahead")
    answer = interpreted([1.0, 2.0, 3.0, 4.0], (1, 2), (0.25, 0.75), ahead=hours_ahead)
    each = [{"0.25": 11.0, "0.75": 12.0}, {"0.25": 13.0, "0.75": 14.0}]
    assert answer.to_dict()["forecast"] == {"load": each}
    line = format_line(answer).plain
    assert line.endswith("load 11.5 (11 to 12) … 13.5 (13 to 14) MW  for 2024-01-01 01:00:00 … 2024-01-01 02:00:00")
    assert interpreted([np.nan, 1.0], quantiles=(0.1, 0.9)).note


def test_a_minimum_of_plain_outputs():
    info = ns.ModelInfo("forecasting", (), ("a", "b"), minimum=1.0)
    answer = Interpreter(info, 2, lambda time, rows: None).answer(
        1, Token(np.zeros(1, np.float32)), np.array([0.5, 2.0], np.float32), 0.0
    )
    assert answer.to_dict()["forecast"] == {"a": 1.0, "b": 2.0}

"""Answers as what JSON can hold."""

import json

import numpy as np

from nystream.live.answers import Answer, clock, shortest, softmax


def test_numbers_are_as_short_as_float32_allows():
    assert shortest(np.float32(0.1)) == 0.1
    assert shortest(np.float32("nan")) is None
    assert np.float32(shortest(np.float32(1) / np.float32(3))) == np.float32(1) / np.float32(3)


def test_what_is_not_finite_is_null():
    answer = Answer(1, "output", (), np.array([1, np.inf], np.float32))
    assert json.loads(json.dumps(answer.to_dict(), allow_nan=False))["output"] == [1.0, None]


def test_probabilities_of_large_logits():
    assert softmax(np.array([1000.0, 0.0])).tolist() == [1.0, 0.0]


def test_times():
    assert clock(np.datetime64("2024-01-01")) == "2024-01-01T00:00:00"
    assert clock(np.datetime64("2024-01-01T00:00:00.5")) == "2024-01-01T00:00:00.500000"

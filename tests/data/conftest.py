import csv
from datetime import datetime, timedelta

import numpy as np
import pytest


@pytest.fixture
def hours():
    """Times of `count` rows, as text."""

    def make(count, step=timedelta(hours=1), form="%Y-%m-%d %H:%M:%S"):
        return [(datetime(2024, 1, 1) + i * step).strftime(form) for i in range(count)]

    return make


@pytest.fixture
def write_csv(tmp_path):
    """A CSV file of columns, None for an empty field."""

    def write(columns, name="data.csv", separator=","):
        path = tmp_path / name
        with path.open("w", newline="") as file:
            writer = csv.writer(file, delimiter=separator)
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
        return path

    return write


@pytest.fixture
def waves():
    """A daily wave and noise, [count]."""

    def make(count, seed=0):
        noise = np.random.default_rng(seed).normal(size=count)
        return (10 * np.sin(2 * np.pi * np.arange(count) / 24) + 0.1 * noise).round(4).tolist()

    return make

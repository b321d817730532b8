"""Small tables and runs for the tests of `nystream train`; they load it with runpy."""

import csv
import math
from datetime import datetime, timedelta

from nystream.cli import main

SMALL = ["--window", "8", "--embed-dim", "8", "--num-heads", "2", "--epochs", "3", "--plain"]


def write(name, columns, separator=","):
    with open(name, "w", newline="") as file:
        writer = csv.writer(file, delimiter=separator)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def stamps(count, step=timedelta(hours=1), form="%Y-%m-%d %H:%M"):
    return [(datetime(2024, 1, 1) + i * step).strftime(form) for i in range(count)]


def load(count):
    return [round(100 + 10 * math.sin(i / 4) + (i * 7 % 5), 2) for i in range(count)]


def table(name="data.csv", count=160, **columns):
    write(name, {"time": stamps(count), "total": load(count), **columns})


def trained(capsys, *arguments):
    assert main(["train", *SMALL, *arguments]) == 0
    out, err = capsys.readouterr()
    # Progress is reported after ten seconds, which a busy machine may take.
    assert not [line for line in err.splitlines() if not line.startswith("training:")]
    assert "\x1b" not in out
    return out

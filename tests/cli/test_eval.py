"""`nystream eval`: a trained model on a source."""

import json
import math

import numpy as np
import pytest

from nystream.cli import main
from nystream.data import run as running

SMALL = ["--window", "8", "--embed-dim", "8", "--num-heads", "2", "--epochs", "1", "--plain"]


def rows(count, first=0):
    lines = ["time,total,kind"]
    for i in range(first, first + count):
        lines.append(f"2024-01-{1 + i // 24:02d} {i % 24:02d}:00,{100 + 10 * math.sin(i / 4):.3f},{'ab'[i % 2]}")
    return lines


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with a run on a table, and one on a folder."""
    folder = tmp_path_factory.mktemp("work")
    patch = pytest.MonkeyPatch()
    patch.chdir(folder)
    patch.setattr(running, "FEWEST", 2)
    (folder / "data.csv").write_text("\n".join(rows(200)))
    assert main(["train", "data.csv", "--target", "total", "--variant", "co-cont", *SMALL]) == 0
    (folder / "clips").mkdir()
    rng = np.random.default_rng(0)
    for i in range(9):
        np.savez(folder / "clips" / f"{i}.npz", x=rng.normal(size=(20, 3)), y=(np.arange(20) + i) % 2)
    assert main(["train", "clips", *SMALL]) == 0
    yield folder
    patch.undo()


def test_a_table(capsys, work):
    (work / "new.csv").write_text("\n".join(rows(60, first=200)))
    assert main(["eval", "runs/data", "new.csv", "--json", "scores.json", "--plain"]) == 0
    out = capsys.readouterr().out
    assert "persistence" in out
    held = json.loads((work / "scores.json").read_text())["scores"]
    assert held["model"]["mean absolute error"] > 0
    change = [abs(math.sin((i + 1) / 4) - math.sin(i / 4)) * 10 for i in range(207, 259)]
    assert held["persistence"]["mean absolute error"] == pytest.approx(np.mean(change), rel=1e-2)


def test_it_is_what_a_stream_gives(capsys, work):
    import nystream as ns
    from nystream.data.forecast import forecast
    from nystream.data.reader import reader_from_dict
    from nystream.data.table import read_table

    assert main(["eval", "runs/data/model", "data.csv", "--json", "scores.json", "--plain"]) == 0
    capsys.readouterr()
    model = ns.StreamModel.from_pretrained("runs/data/model")
    reader = reader_from_dict(model.info.reader)
    live, pool = reader.live(), ns.StreamPool(model)
    stream, errors = pool.open(), []
    table = read_table("data.csv")
    truth = forecast(table, reader=reader).rows.base[:, 0]
    for i, record in enumerate(table.records()):
        (token,) = live.read(record)
        y = pool.push(stream, token.x)
        if 7 <= i < 199:
            errors.append(abs(token.base[0] + y[0] - truth[i + 1]))
    held = json.loads((work / "scores.json").read_text())["scores"]["model"]
    assert held["mean absolute error"] == pytest.approx(np.mean(errors), rel=1e-3)


def test_a_folder(capsys, work):
    assert main(["eval", "runs/clips", "clips", "--plain"]) == 0
    assert "mean average precision" in capsys.readouterr().out


def test_bad_input(capsys, refused, work):
    assert "is not a folder" in refused("eval", "nothing", "data.csv")
    assert "does not exist" in refused("eval", "runs/data", "none.csv")
    assert "the model reads a table, but clips is a folder of feature files" in refused("eval", "runs/data", "clips")
    (work / "short.csv").write_text("\n".join(rows(8)))
    assert "do not fill a window of 8" in refused("eval", "runs/data", "short.csv")
    (work / "less.csv").write_text("time,total\n2024-01-01,1\n")
    assert "has no column 'kind'" in refused("eval", "runs/data", "less.csv")
    (work / "new.csv").write_text("\n".join([*rows(30)[:20], *rows(40)[25:]]))
    assert "not even in time, line 21" in refused("eval", "runs/data", "new.csv")
    assert main(["eval", "runs/data", "new.csv", "--gaps", "fill", "--plain"]) == 0
    assert "5 missing rows filled" in capsys.readouterr().out
    (work / "new.csv").write_text("\n".join(rows(30)).replace(",b", ",c"))
    assert "'kind' is 'c', a new category" in refused("eval", "runs/data", "new.csv")

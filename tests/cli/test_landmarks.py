"""`nystream fit-landmarks`: a trained model with fixed landmarks."""

import math

import pytest

from nystream.cli import main
from nystream.data import run as running
from nystream.models import StreamModel


@pytest.mark.parametrize(("variant", "stack"), [("co-cont", "deep"), ("co-full", "paper")])
def test_landmarks_are_fitted(capsys, refused, tmp_path, monkeypatch, variant, stack):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running, "MIN_UPDATES_PER_EPOCH", 2)
    rows = [f"2024-01-{1 + i // 24:02d} {i % 24:02d}:00,{10 * math.sin(i / 4):.3f}" for i in range(200)]
    (tmp_path / "data.csv").write_text("\n".join(["time,total", *rows]))
    size = ["--window", "8", "--embed-dim", "8", "--num-heads", "2", "--layers", "2", "--stack", stack]
    train = ["train", "data.csv", "--target", "total", "--variant", variant, *size, "--epochs", "1", "--plain"]
    assert main(train) == 0
    capsys.readouterr()
    arguments = ["fit-landmarks", "runs/data", "data.csv", "--landmarks", "3", "--plain"]
    assert main([*arguments, "--out", "fixed"]) == 0
    out = capsys.readouterr().out
    assert "before" in out
    assert out.splitlines()[-1] == "wrote fixed"
    model = StreamModel.from_pretrained("fixed")
    first = "co-fixed-single" if stack == "deep" else "co-fixed-retro"
    assert [block.variant for block in model.config.blocks] == [first, "co-fixed-single"]
    assert {block.landmarks for block in model.config.blocks} == {3}
    assert model.info == StreamModel.from_pretrained("runs/data/model").info
    assert main(["eval", "fixed", "data.csv", "--plain"]) == 0
    capsys.readouterr()
    assert "already exists" in refused(*arguments, "--out", "fixed")
    assert "landmarks=0" in refused(*arguments[:3], "--landmarks", "0", "--out", "other")
    assert "landmarks=9" in refused(*arguments[:3], "--landmarks", "9", "--out", "other")
    assert not (tmp_path / "other").exists()

"""Records on disk."""

import copy

import pytest

from nystream.lab.reproduce import store

RECORD = {
    "cell": {"task": "gtzan", "model": "full", "landmarks": None, "pinv_ridge": 0.1},
    "name": "gtzan-1-full",
    "budget": {"epochs": 30, "lr": 5e-4},
    "data": {"file": "tokens.npz", "fingerprint": "abc"},
    "runs": [{"split": split, "seed": seed} for split in range(2) for seed in range(2)],
}


def changed(**changes):
    return copy.deepcopy(RECORD) | changes


def runs(splits, seeds):
    return [{"split": split, "seed": seed} for split in range(splits) for seed in range(seeds)]


def test_round_trip(tmp_path):
    folder = tmp_path / "new" / "results"
    path = store.write(folder, RECORD | {"λ": "±"})
    assert path == folder / "gtzan-1-full.json"
    assert store.read(folder, "gtzan-1-full") == RECORD | {"λ": "±"}
    assert store.read(folder, "gtzan-2-full") is None
    assert "λ" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(("splits", "seeds", "done"), [(2, 2, True), (1, 2, True), (2, 1, True), (3, 2, False)])
def test_finished_with_all_runs_or_more(tmp_path, splits, seeds, done):
    assert store.finished(tmp_path, RECORD) is None
    store.write(tmp_path, RECORD)
    assert store.finished(tmp_path, changed(runs=runs(splits, seeds))) == (RECORD if done else None)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"cell": RECORD["cell"] | {"pinv_ridge": 0.3}}, "pinv_ridge is 0.1 there and 0.3 here"),
        ({"budget": {"epochs": 3, "lr": 1e-3}}, "epochs is 30 there and 3 here, lr is 0.0005 there and 0.001 here"),
        ({"data": {"file": "tokens.npz", "fingerprint": "x"}}, "fingerprint is 'abc' there and 'x' here"),
        ({"baseline": {"task": "gtzan"}}, "it has no baseline"),
        ({"runs": runs(1, 3)}, "has 2 splits x 2 seeds, but 1 splits x 3 seeds were requested"),
    ],
)
def test_what_would_be_lost_is_refused(tmp_path, changes, named):
    path = store.write(tmp_path, RECORD)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=named) as refused:
        store.finished(tmp_path, changed(**changes))
    assert str(path) in str(refused.value)
    assert "--again" in str(refused.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize("text", ["", '{"name": "gtzan-1-f', "[1, 2]", "3", "[" * 10**5, '{"runs": [], "runs": []}'])
def test_a_damaged_file_is_named(tmp_path, text):
    (tmp_path / "gtzan-1-full.json").write_text(text)
    with pytest.raises(ValueError, match=r"gtzan-1-full\.json is not a record.*delete it"):
        store.finished(tmp_path, RECORD)


@pytest.mark.parametrize("runs", [None, 3, [3], [{"split": 0}]])
def test_a_record_without_runs_is_damaged(tmp_path, runs):
    store.write(tmp_path, {name: value for name, value in (RECORD | {"runs": runs}).items() if value is not None})
    with pytest.raises(ValueError, match=r"gtzan-1-full\.json is not a record"):
        store.finished(tmp_path, RECORD)


def test_written_whole_or_not_at_all(tmp_path):
    path = store.write(tmp_path, RECORD)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="JSON"):
        store.write(tmp_path, RECORD | {"score": float("nan")})
    with pytest.raises(TypeError):
        store.write(tmp_path, RECORD | {"score": object()})
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["gtzan-1-full.json"]

import numpy as np
import pytest
import torch

from nystream.lab.tasks import audio
from nystream.lab.tasks.audio.gtzan import copies_of, filtered_of


@pytest.fixture
def save(tmp_path, ready):
    def write(**changes):
        arrays = {name: value for name, value in (ready | changes).items() if value is not None}
        np.savez(tmp_path / "tokens.npz", **arrays)
        return tmp_path / "tokens.npz"

    return write


def test_reads_the_ready_layout(save, ready):
    data = audio.load(save())
    assert data.x.shape == (36, 5, 4)
    assert data.x.dtype == torch.float32
    assert data.y.dtype == torch.int64
    np.testing.assert_allclose(data.x, ready["tokens"] * (4 / 255) - 2, atol=1e-6)
    assert data.genres == ("blues", "jazz", "rock")
    assert data.tracks[13] == "jazz.00001"
    assert len(data) == 36
    assert data.skipped == ()
    assert data.fingerprint == audio.load(save()).fingerprint


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": None, "track_names": None}, "has no labels, track_names; it has tokens"),
        ({"tokens": np.zeros((36, 5))}, r"tokens is float64 \[36, 5\], but must be numbers \[N, T, D\]"),
        ({"labels": np.zeros(36)}, "labels is float64, but must be whole"),
        ({"labels": np.zeros(35, dtype=int)}, r"y is \[35\], but x has 36 tracks"),
        ({"labels": np.full(36, 3)}, "y goes from 3 to 3, but with 3 genres"),
        ({"duplicate_group": np.zeros((36, 1), dtype=int)}, r"copies is \[36, 1\]"),
        ({"split_filtered": np.full(36, 4)}, r"filtered has \[4\]"),
        ({"dequant_scale": np.array(["a"])}, "tokens.npz: "),
        ({"genre_names": np.array(["a", None], dtype=object)}, "not of plain arrays"),
    ],
)
def test_wrong_arrays(save, changes, message):
    with pytest.raises(ValueError, match=message):
        audio.load(save(**changes))


def test_wrong_files(tmp_path, save, means):
    with pytest.raises(FileNotFoundError, match=r"nothing\.npz is not a file"):
        audio.load(tmp_path / "nothing.npz")
    other = tmp_path / "other.npz"
    other.write_bytes(b"no archive")
    with pytest.raises(ValueError, match=r"is not an \.npz file|cut short"):
        audio.load(other)
    other.write_bytes(save().read_bytes()[:2000])
    with pytest.raises(ValueError, match=r"is not an \.npz file|cut short"):
        audio.load(other)
    with pytest.raises(ValueError, match="only that takes an embedder"):
        audio.load(save(), means)
    with pytest.raises(ValueError, match="is a folder of audio: give an embedder"):
        audio.load(tmp_path)


def numbers(data, part):
    """Which tracks a part has; every track's tokens differ."""
    return {int(torch.nonzero((data.x == track).all(2).all(1)).flatten()[0]) for track in part.x}


@pytest.mark.parametrize("seed", [0, 1])
def test_splits_keep_copies_together(save, seed):
    data = audio.load(save())
    splits = data.splits(10, seed)
    tested = []
    for split in splits:
        parts = [numbers(data, part) for part in split]
        assert sum(map(len, parts)) == 36
        assert set.union(*parts) == set(range(36))
        groups = [{int(data.copies[i]) for i in part} for part in parts]
        assert sum(map(len, groups)) == len(set.union(*groups))
        tested.append(parts[2])
    assert len(set.union(*tested)) == sum(map(len, tested)) == 36
    again = data.splits(2, seed)
    for one, other in zip(splits, again, strict=False):
        assert [part.fingerprint for part in one] == [part.fingerprint for part in other]


def test_splits_differ_with_the_seed(save):
    data = audio.load(save())
    assert data.splits(1, 0)[0].test.fingerprint != data.splits(1, 1)[0].test.fingerprint


def test_wrong_splits(save, ready):
    data = audio.load(save())
    for count in (0, 11):
        with pytest.raises(ValueError, match=f"count is {count}, but must be 1 to 10"):
            data.splits(count)
    few = audio.load(save(duplicate_group=ready["duplicate_group"] // 2))
    with pytest.raises(ValueError, match="genre 'blues' has 6 different tracks"):
        few.splits()


def test_filtered_split(save, ready):
    data = audio.load(save())
    split = data.filtered_split()
    assert [len(part) for part in split] == [15, 9, 9]
    assert numbers(data, split.test) == {9, 10, 11, 21, 22, 23, 33, 34, 35}
    with pytest.raises(ValueError, match="none of the 36 tracks is in the test part"):
        audio.load(save(split_filtered=np.zeros(36, dtype=np.int8) + ready["labels"].clip(max=1))).filtered_split()


def test_copies_by_name_and_content():
    names = ["own", "jazz.00033", "twin", "jazz.00051", "blues.00000", "bridge"]
    found = copies_of(names, ["a", "b", "a", "c", "d", "c"])
    assert found[0] == found[2]
    assert found[1] == found[3] == found[5]
    assert len(set(found)) == 3
    # The third belongs to both of the others, by name and by content, so all are one.
    assert len(set(copies_of(["jazz.00033", "x", "jazz.00051"], ["a", "b", "b"]))) == 1
    assert filtered_of(["own", "other"]) is None
    assert filtered_of(["blues.00000", "own", "blues.00012"]).tolist() == [1, -1, 2]


def test_baseline_learns(save, ready):
    tokens = np.clip(ready["labels"][:, None, None] * 80 + ready["tokens"] // 4, 0, 255).astype(np.uint8)
    found = audio.mean_token_accuracy(audio.load(save(tokens=tokens)).splits(1)[0])
    assert found["test"] == found["valid"] == 1


@pytest.fixture(scope="module")
def gtzan(data_dir):
    return audio.load(data_dir / "gtzan_yamnet_tokens.npz")


def test_real_sizes(gtzan):
    assert gtzan.x.shape == (1000, 120, 128)
    assert torch.bincount(gtzan.y).tolist() == [100] * 10
    for split in gtzan.splits():
        assert [len(part) for part in split] == [720, 180, 100]
        assert torch.bincount(split.test.y).tolist() == [10] * 10
    assert [len(part) for part in gtzan.filtered_split()] == [443, 197, 290]


def test_what_is_known_by_name_is_what_the_file_says(gtzan):
    np.testing.assert_array_equal(filtered_of(gtzan.tracks), gtzan.filtered)
    by_name = copies_of(gtzan.tracks, range(1000))
    assert len(set(zip(by_name, gtzan.copies, strict=True))) == len(set(by_name)) == len(set(gtzan.copies))


def test_the_mean_token_tells_most_genres(gtzan):
    assert audio.mean_token_accuracy(gtzan.splits(3)[2])["test"] > 0.78
    assert audio.mean_token_accuracy(gtzan.filtered_split())["test"] > 0.66

"""OadTR's TSN pickles, and which files `load` recognises as such."""

import os
import shutil

import numpy as np
import pytest
import torch

from nystream.lab.tasks.actions import AMBIGUOUS, load, tsn


class Calls:
    def __reduce__(self):
        return os.system, ("true",)


def check(found, make):
    """Tokens are rgb then flow, labels those of the annotation."""
    assert found.token_seconds == 0.2
    for part, videos in (("val", found.train), ("test", found.test)):
        held, labels = make.features(part), make.annotation(part)
        assert videos.names == tuple(sorted(held))
        for i, name in enumerate(videos.names):
            x, y = videos.data.stream(i)
            assert x.dtype == torch.float32
            assert np.array_equal(x, np.concatenate([held[name]["rgb"], held[name]["flow"]], axis=1))
            unknown = labels[name]["anno"][:, AMBIGUOUS] > 0
            assert y[unknown].isnan().all()
            assert np.array_equal(y[~unknown], labels[name]["anno"][~unknown])


def test_a_folder(tsn_folder, make):
    check(load(tsn_folder), make)
    check(load(str(tsn_folder), features="V3"), make)


def test_one_pickle_of_the_pair(tsn_folder, make):
    for part in ("val", "test"):
        check(load(tsn_folder / f"thumos_all_feature_{part}_V3.pickle"), make)


@pytest.mark.parametrize("protocol", [2, 3, 5])
def test_files_of_any_name(tmp_path, make, protocol):
    train, test = (make.dump(tmp_path / part, make.features(part), protocol) for part in ("val", "test"))
    labels = tuple(make.dump(tmp_path / f"{part}_y", make.annotation(part), protocol) for part in ("val", "test"))
    check(tsn.read(tsn.Files(train, test, labels)), make)


def test_labels_as_bits(tsn_folder, tmp_path, make):
    other = tmp_path / "labels"
    other.mkdir()
    np.savez(other / "thumos14_oadtr_anno_5hz.npz", **make.bits(make.annotation("val"), make.annotation("test")))
    for part in ("val", "test"):
        (tsn_folder / f"thumos_{part}_anno.pickle").unlink()
    check(load(tsn_folder, annotation=other), make)
    check(load(tsn_folder, annotation=other / "thumos14_oadtr_anno_5hz.npz"), make)
    shutil.copy(other / "thumos14_oadtr_anno_5hz.npz", tsn_folder)
    check(load(tsn_folder), make)


def test_labels_beside_the_features(tmp_path, make):
    for part in ("val", "test"):
        make.dump(tmp_path / f"thumos_all_feature_{part}.pickle", make.features(part, anno=True))
    found = load(tmp_path)
    expected = make.features("test", anno=True)["video_test_2"]["anno"]
    known = expected[:, AMBIGUOUS] == 0
    assert np.array_equal(found.test.data.stream(2)[1][known], expected[known])


def test_other_floats_become_single_precision(tmp_path, make):
    held = make.features("val", anno=True)
    held["video_val_0"]["rgb"] = held["video_val_0"]["rgb"].astype(np.float64)
    held["video_val_1"]["flow"] = held["video_val_1"]["flow"].astype(np.float16)
    train = make.dump(tmp_path / "a", held)
    assert tsn.read(tsn.Files(train, train)).train.data.x.dtype == torch.float32


def changed(make, **arrays):
    held = make.features("val", anno=True)
    held["video_val_1"] |= arrays
    return held


@pytest.mark.parametrize(
    ("make_it", "message"),
    [
        (
            lambda make: changed(make, rgb=np.ones((3, 1024), np.float32)),
            r"rgb of video_val_1 in .* \[3, 1024\], .* 2048",
        ),
        (lambda make: changed(make, flow=np.ones((3, 2048), np.float32)), r"flow of video_val_1 .* floats \[T, 1024\]"),
        (lambda make: changed(make, flow=np.ones((3, 1024), np.int32)), r"flow of video_val_1 in .* is int32"),
        (lambda make: changed(make, flow=np.ones(1024, np.float32)), r"flow of video_val_1 in .* float32 \[1024\]"),
        (lambda make: changed(make, rgb=np.ones((4, 2048), np.float32)), "4 frames of rgb, 3 of flow and 3 of labels"),
        (lambda make: changed(make, flow=np.ones((2, 1024), np.float32)), "3 frames of rgb, 2 of flow and 3 of labels"),
        (lambda make: changed(make, anno=np.eye(22)[:2]), "3 frames of rgb, 3 of flow and 2 of labels"),
        (lambda make: changed(make, anno=np.eye(20)[:3]), r"anno of video_val_1 .* has labels \[3, 20\]"),
        (lambda make: changed(make, anno=np.full((3, 22), 0.5)), "anno of video_val_1 .* not all zeros and ones"),
        (lambda make: changed(make, rgb=np.full((3, 2048), np.nan, np.float32)), "video_val_1 .* not finite"),
        (
            lambda make: changed(make, rgb=[[1.0] * 2048] * 3),
            "video_val_1 in .* has no array rgb; it has rgb, flow, anno",
        ),
        (lambda make: changed(make, rgb=Calls()), rf"asks for {os.system.__module__}\.system"),
        (lambda make: make.features("val"), "video_val_0 in .* has no anno; give the labels as annotation"),
        (lambda make: {"video": np.ones((3, 2048))}, "video in .* is a ndarray, but must be a dict of arrays"),
        (lambda make: {"video": {"rgb": np.ones((3, 2048))}}, "has no array flow; it has rgb"),
        (lambda make: {1: {}}, "must have {video: ...}"),
        (lambda make: {}, "must have {video: ...}, with at least one video"),
        (lambda make: [np.ones(3)], "has a list, but must have {video: ...}"),
    ],
)
def test_wrong_pickles_are_refused(tmp_path, make, make_it, message):
    path = make.dump(tmp_path / "wrong.pickle", make_it(make))
    with pytest.raises(ValueError, match=message):
        tsn.read(tsn.Files(path, path))


def test_labels_that_do_not_fit_are_refused(tsn_folder, tmp_path, make):
    path = tsn_folder / "thumos_test_anno.pickle"
    make.dump(path, make.annotation("test", frames=(4, 3)))
    with pytest.raises(ValueError, match=r"video_test_2 is in .*, but not in the annotation, which has 2 videos"):
        load(tsn_folder)
    make.dump(path, make.annotation("test", frames=(4, 3, 6)))
    with pytest.raises(ValueError, match=r"video_test_2 in .* has 5 frames of rgb, 5 of flow and 6 of labels"):
        load(tsn_folder)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match=r"thumos_test_anno\.pickle is not a pickle, or is cut short"):
        load(tsn_folder)
    make.dump(path, make.features("test"))
    with pytest.raises(ValueError, match=r"video_test_0 in .* has no array anno; it has rgb, flow"):
        load(tsn_folder)
    np.savez(tmp_path / "bits.npz", **make.bits(make.annotation("val"), make.annotation("test")))
    shutil.copy(tmp_path / "bits.npz", path)
    with pytest.raises(ValueError, match=r"is an \.npz file, which has both parts"):
        load(tsn_folder)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"y_val": np.zeros((12, 22), np.uint8)}, r"y_val uint8 \[12, 22\], but it must be uint8 \[N, 3\]"),
        ({"len_val": np.array([1, 2, 3])}, "12 frames y_val, but len_val of 3 videos does not fit"),
        ({"classes": np.array(["walk"])}, r"has the classes \['walk'\]"),
    ],
)
def test_wrong_bits_are_refused(tmp_path, make, arrays, message):
    np.savez(tmp_path / "bits.npz", **(make.bits(make.annotation("val"), make.annotation("test")) | arrays))
    with pytest.raises(ValueError, match=message):
        tsn.read_bits(tmp_path / "bits.npz", "val")


def test_what_load_cannot_tell_it_asks(tsn_folder, ready_file, tmp_path, make):
    shutil.copy(ready_file, tsn_folder)
    with pytest.raises(ValueError, match=r"has both .*; give the file, or features="):
        load(tsn_folder)
    check(load(tsn_folder, features="V3"), make)
    assert load(tsn_folder / ready_file.name).token_seconds == 0.64
    shutil.copy(tsn_folder / "thumos_all_feature_val_V3.pickle", tsn_folder / "thumos_all_feature_val_tsn_v2.pickle")
    (tsn_folder / ready_file.name).unlink()
    with pytest.raises(ValueError, match=r"several kinds of features; set features to one of \['V3', 'tsn_v2'\]"):
        load(tsn_folder)
    with pytest.raises(FileNotFoundError, match=r"no thumos_all_feature_test of the features 'tsn_v2'"):
        load(tsn_folder, features="tsn_v2")
    with pytest.raises(FileNotFoundError, match=r"no pickles of features='V4'; it has \['V3', 'tsn_v2'\]"):
        load(tsn_folder, features="V4")
    with pytest.raises(ValueError, match=r"features='V4', but .* has 'V3'"):
        load(tsn_folder / "thumos_all_feature_val_V3.pickle", features="V4")


def test_paths_that_lead_nowhere(tsn_folder, ready_file, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(FileNotFoundError, match=r"has neither thumos14_i3d_pca256_i8.npz nor"):
        load(empty)
    with pytest.raises(FileNotFoundError, match=r"none is neither a file nor a folder"):
        load(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match=r"annotation=.*empty' has neither"):
        load(tsn_folder, annotation=empty)
    with pytest.raises(ValueError, match=r"features and annotation are for TSN pickles"):
        load(ready_file, features="V3")
    other = tmp_path / "features.pickle"
    shutil.copy(tsn_folder / "thumos_all_feature_val_V3.pickle", other)
    with pytest.raises(ValueError, match=r"nor named as OadTR's pickles are"):
        load(other)


def test_real_annotation(data_dir):
    path = data_dir / "thumos14_oadtr_anno_5hz.npz"
    if not path.is_file():
        pytest.skip(f"{path.name} is not among the data sets")
    for part, videos, frames in (("val", 200, 203_363), ("test", 213, 225_222)):
        found = tsn.read_bits(path, part)
        assert len(found) == videos
        assert sum(map(len, found.values())) == frames
        assert all(y.shape[1] == 22 and (y.sum(1) == 1).all() for y in found.values())

"""Load THUMOS14 from a path in any of its forms."""

from __future__ import annotations

import re
from pathlib import Path

from nystream.lab.tasks.actions import i3d, tsn
from nystream.lab.tasks.actions.videos import Actions
from nystream.lab.tasks.archive import is_archive

I3D_FILE = "thumos14_i3d_pca256_i8.npz"
LABELS_FILE = "thumos14_oadtr_anno_5hz.npz"
FEATURES = re.compile(r"thumos_all_feature_(val|test)(?:_(.+))?\.(pickle|pkl)")


def load(path: str | Path, features: str | None = None, annotation: str | Path | None = None) -> Actions:
    """Load THUMOS14 from the I3D file, from OadTR's TSN pickles, or from a folder with either.

    Args:
        path: `thumos14_i3d_pca256_i8.npz`; or one of the pickles `thumos_all_feature_{val,test}_<features>.pickle`,
            with the other one in the same folder; or a folder. A folder with both forms is read as TSN if `features`
            is given.
        features: Selects the pickles of a folder with several: "V3" (Kinetics), "tsn_v2" (ActivityNet).
        annotation: Labels of the pickles: `thumos14_oadtr_anno_5hz.npz`, or a folder with it or with
            `thumos_{val,test}_anno.pickle`. By default, next to the features, then in them.
    """
    path = Path(path)
    if path.is_dir():
        if features is None and annotation is None and (path / I3D_FILE).is_file():
            if _variants(path):
                raise ValueError(f"{path} has both {I3D_FILE} and TSN pickles; give the file, or features=")
            return i3d.read(path / I3D_FILE)
        return tsn.read(_pickles(path, features, annotation))
    if not path.is_file():
        raise FileNotFoundError(f"{path} is neither a file nor a folder")
    if is_archive(path):
        if features is not None or annotation is not None:
            raise ValueError(f"{path} is an .npz file with its own labels: features and annotation are for TSN pickles")
        return i3d.read(path)
    match = FEATURES.fullmatch(path.name)
    if match is None:
        raise ValueError(
            f"{path} is neither an .npz file nor named as OadTR's pickles are, "
            f"thumos_all_feature_val_<features>.pickle; other names go to nystream.lab.tasks.actions.tsn.read"
        )
    if features is not None and features != (match[2] or ""):
        raise ValueError(f"features={features!r}, but {path} has {match[2] or ''!r}")
    return tsn.read(_pickles(path.parent, match[2] or "", annotation))


def _variants(folder: Path) -> dict[str, dict[str, Path]]:
    """{features: {"val" or "test": pickle}} of a folder."""
    pickles: dict[str, dict[str, Path]] = {}
    for path in sorted(folder.iterdir()):
        match = FEATURES.fullmatch(path.name)
        if match is not None:
            pickles.setdefault(match[2] or "", {})[match[1]] = path
    return pickles


def _pickles(folder: Path, features: str | None, annotation: str | Path | None) -> tsn.Files:
    pickles = _variants(folder)
    if not pickles:
        raise FileNotFoundError(
            f"{folder} has neither {I3D_FILE} nor thumos_all_feature_{{val,test}}_<features>.pickle"
        )
    if features is None and len(pickles) > 1:
        raise ValueError(f"{folder} has several kinds of features; set features to one of {sorted(pickles)}")
    chosen = next(iter(pickles)) if features is None else features
    if chosen not in pickles:
        raise FileNotFoundError(f"{folder} has no pickles of features={chosen!r}; it has {sorted(pickles)}")
    missing = {"val", "test"} - set(pickles[chosen])
    if missing:
        raise FileNotFoundError(f"{folder} has no thumos_all_feature_{missing.pop()} of the features {chosen!r}")
    labels = _labels(folder) if annotation is None else _given(Path(annotation))
    return tsn.Files(pickles[chosen]["val"], pickles[chosen]["test"], labels)


def _given(annotation: Path) -> Path | tuple[Path, Path]:
    if not annotation.is_dir():
        return annotation
    labels = _labels(annotation)
    if labels is None:
        raise FileNotFoundError(
            f"annotation={str(annotation)!r} has neither {LABELS_FILE} nor thumos_{{val,test}}_anno.pickle"
        )
    return labels


def _labels(folder: Path) -> Path | tuple[Path, Path] | None:
    pair = (folder / "thumos_val_anno.pickle", folder / "thumos_test_anno.pickle")
    if all(path.is_file() for path in pair):
        return pair
    return folder / LABELS_FILE if (folder / LABELS_FILE).is_file() else None

"""Which of the two forms of the data set a path leads to."""

from __future__ import annotations

import re
from pathlib import Path

from nystream.lab.tasks.actions import i3d, tsn
from nystream.lab.tasks.actions.archive import is_archive
from nystream.lab.tasks.actions.videos import Actions

READY = "thumos14_i3d_pca256_i8.npz"
BITS = "thumos14_oadtr_anno_5hz.npz"
FEATURES = re.compile(r"thumos_all_feature_(val|test)(?:_(.+))?\.(pickle|pkl)")


def load(path: str | Path, features: str | None = None, annotation: str | Path | None = None) -> Actions:
    """THUMOS14 from the ready I3D file, from OadTR's TSN pickles, or from a folder with either.

    Args:
        path: `thumos14_i3d_pca256_i8.npz`; or one of the pickles `thumos_all_feature_{val,test}_<features>.pickle`,
            the other one beside it; or a folder. A folder with both forms is read as TSN if `features` is given.
        features: which pickles of a folder, if there are several: "V3" (Kinetics), "tsn_v2" (ActivityNet).
        annotation: labels of the pickles: `thumos14_oadtr_anno_5hz.npz`, or a folder with it or with
            `thumos_{val,test}_anno.pickle`. If not given, they are looked for beside the features, then in them.
    """
    path = Path(path)
    if path.is_dir():
        if features is None and annotation is None and (path / READY).is_file():
            if _variants(path):
                raise ValueError(f"{path} has both {READY} and TSN pickles; name the file, or say features=")
            return i3d.read(path / READY)
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
    found: dict[str, dict[str, Path]] = {}
    for path in sorted(folder.iterdir()):
        match = FEATURES.fullmatch(path.name)
        if match is not None:
            found.setdefault(match[2] or "", {})[match[1]] = path
    return found


def _pickles(folder: Path, features: str | None, annotation: str | Path | None) -> tsn.Files:
    found = _variants(folder)
    if not found:
        raise FileNotFoundError(f"{folder} has neither {READY} nor thumos_all_feature_{{val,test}}_<features>.pickle")
    if features is None and len(found) > 1:
        raise ValueError(f"{folder} has several kinds of features; say which: features= one of {sorted(found)}")
    chosen = next(iter(found)) if features is None else features
    if chosen not in found:
        raise FileNotFoundError(f"{folder} has no pickles of features={chosen!r}; it has {sorted(found)}")
    missing = {"val", "test"} - set(found[chosen])
    if missing:
        raise FileNotFoundError(f"{folder} has no thumos_all_feature_{missing.pop()} of the features {chosen!r}")
    labels = _labels(folder) if annotation is None else _given(Path(annotation))
    return tsn.Files(found[chosen]["val"], found[chosen]["test"], labels)


def _given(annotation: Path) -> Path | tuple[Path, Path]:
    if not annotation.is_dir():
        return annotation
    found = _labels(annotation)
    if found is None:
        raise FileNotFoundError(
            f"annotation={str(annotation)!r} has neither {BITS} nor thumos_{{val,test}}_anno.pickle"
        )
    return found


def _labels(folder: Path) -> Path | tuple[Path, Path] | None:
    pair = (folder / "thumos_val_anno.pickle", folder / "thumos_test_anno.pickle")
    if all(path.is_file() for path in pair):
        return pair
    return folder / BITS if (folder / BITS).is_file() else None

"""Which files are for training, validation and testing: drawn by class and by group, or given as other folders."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from nystream.data.clips import UNKNOWN, UNKNOWN_CLASS, Clip, Clips
from nystream.data.labels_file import NAME, read_labels, value_of
from nystream.data.problem import HELD_OUT, SHARES, HeldOut
from nystream.data.reader import Reader
from nystream.data.table import counted, listed

FOLDER = "folder"  # the group of a file is the subfolder that it is in
MIN_STRATUM = 10  # groups; of fewer, a tenth is not one
ATTEMPTS = 200  # to draw groups so that every class is trained on


def with_groups(clips: Clips, group: str) -> Clips:
    """The files with their groups, which are never split: a column of labels.csv, or "folder" for subfolders."""
    if not group:
        return clips
    names = [clip.name for clip in clips.clips]
    labels = clips.folder / NAME
    if group == FOLDER and not (labels.is_file() and FOLDER in _columns(labels.read_text(encoding="utf-8-sig"))):
        outside = [name for name in names if "/" not in name]
        if outside:
            raise ValueError(
                f"group='folder' needs every file in a subfolder of {clips.folder}, but {listed(outside)} is in none"
            )
        return dataclasses.replace(clips, groups=tuple(name.split("/")[0] for name in names), group=group)
    if not labels.is_file():
        raise ValueError(
            f"group={group!r} needs a column of that name in {labels}, which does not exist; to keep the files of a "
            f"subfolder together, give the word folder"
        )
    try:
        values = read_labels(clips.folder, group)
    except ValueError as error:
        raise ValueError(f"group={group!r} cannot be used: {error}") from error
    found = [value_of(values, name) for name in names]
    missing = [name for name, value in zip(names, found, strict=True) if value is None]
    if missing:
        raise ValueError(f"group={group!r} is not given in {labels} for {listed(missing)}; every file needs one")
    return dataclasses.replace(clips, groups=tuple(map(str, found)), group=group)


def joined(clips: Clips, others: Mapping[HeldOut, Clips]) -> Clips:
    """The files of a source, and those of other folders that are its validation or test data.

    A file that is also in the test data is dropped from the others, one that is in the validation data from the source.
    """
    if not others:
        return clips
    seen: dict[bytes, HeldOut] = {}
    kept: dict[HeldOut | None, list[int]] = {}
    sources: dict[HeldOut | None, Clips] = {None: clips}
    sources.update(others.items())
    for part in (*reversed(HELD_OUT), None):  # the test data first
        if part not in sources:
            continue
        hashes = [hashlib.sha256(clip.x.tobytes()).digest() for clip in sources[part].clips]
        kept[part] = [i for i, digest in enumerate(hashes) if digest not in seen]
        if not kept[part]:
            name = "source" if part is None else part
            raise ValueError(f"{name}={sources[part].folder} has no file that is not also among the held-out files")
        if part is not None:
            seen |= dict.fromkeys(hashes, part)
    order = [part for part in (None, *HELD_OUT) if part in kept]
    chosen = [(part, i) for part in order for i in kept[part]]
    new = dataclasses.replace(
        clips,
        clips=tuple(_named(sources[part].clips[i], part, sources[part]) for part, i in chosen),
        groups=tuple(sources[part].groups[i] for part, i in chosen) if clips.groups else (),
        parts=tuple(part for part, _ in chosen),
        bad={**clips.bad, **{f"{part}: {name}": why for part, o in others.items() for name, why in o.bad.items()}},
        copies=sum(len(sources[part].clips) - len(kept[part]) for part in order),
    )
    _check_groups(new)
    return new


def check_match(part: HeldOut, other: Clips, clips: Clips) -> None:
    """Raise if another folder cannot be the validation or test data of a source."""
    where = f"{part}={other.folder}"
    check_features(where, other.reader, clips.reader)
    if unknown := [f"{name}: {why}" for name, why in other.bad.items() if why.startswith(UNKNOWN_CLASS)]:
        raise ValueError(f"{where} has classes that {clips.folder} has not: {unknown[0]}")
    if clips.classes != other.classes:
        raise ValueError(f"{where} has the classes {listed(other.classes)}, but {clips.folder} {listed(clips.classes)}")
    if clips.labelling != other.labelling:
        raise ValueError(f"{where} has labels for {other.labelling}, but {clips.folder} for {clips.labelling}")


def check_features(where: object, theirs: Reader, ours: Reader) -> None:
    """Raise if a folder has other features than the reader of a model or of its training data.

    Names count only if both have them: models of older versions have none.
    """
    if len(theirs.names) != len(ours.names):
        raise ValueError(f"{where} has tokens of {len(theirs.names)} numbers, but the model reads {len(ours.names)}")
    if not all(getattr(reader, "features", reader.names) for reader in (theirs, ours)):
        return
    for place, (name, needed) in enumerate(zip(theirs.names, ours.names, strict=True)):
        if name != needed:
            raise ValueError(f"{where}: feature {place} is {name!r}, but the model reads {needed!r} there")


def split(clips: Clips, seed: int) -> tuple[list[int], list[int], list[int]]:
    """Return the numbers of the files for training, validation and testing, stratified by class.

    Parts that are given stay as they are; groups are not split.
    """
    given = clips.parts or (None,) * len(clips.clips)
    held = {name: [i for i, part in enumerate(given) if part == name] for name in HELD_OUT}
    free = [i for i, part in enumerate(given) if part is None]
    shares = [0.0 if held[name] else share for name, share in zip(HELD_OUT, SHARES[1:], strict=True)]
    needed = 1 + sum(share > 0 for share in shares)  # one for training, and one for each part that is not given
    if needed == 1:
        return free, held["valid"], held["test"]
    groups = [clips.groups[i] for i in free] if clips.groups else [str(i) for i in free]
    members: dict[str, list[int]] = {}
    for i, group in zip(free, groups, strict=True):
        members.setdefault(group, []).append(i)
    what = f"{clips.group!r} groups" if clips.groups else "usable files"
    if len(members) < needed:
        raise ValueError(f"{clips.folder} has {len(members)} {what}, but a split needs {needed} or more")
    classes = _classes(clips)
    if clips.groups:
        units = _split_groups(clips, members, classes, shares, seed)
    else:
        units = _split_files(clips, free, classes, shares, needed, seed)
    train, valid, test = ([i for unit in part for i in members[unit]] for part in units)
    return sorted(train), sorted(valid or held["valid"]), sorted(test or held["test"])


def describe(clips: Clips, parts: Sequence[Sequence[int]], seed: int) -> str:
    """What a split does, as a note."""
    sizes = [counted(len(part), "file") for part in parts]
    note = f"{sizes[0]} for training, {sizes[1]} for validation, {sizes[2]} for testing"
    given = [part for part in HELD_OUT if part in clips.parts]
    if len(given) < len(HELD_OUT):
        note += f", drawn with seed {seed}"
    if given:
        note += "; --" + " and --".join(given) + (" are" if len(given) > 1 else " is") + " as given"
    if clips.groups:
        note += f"; none of the {len(set(clips.groups))} groups of {clips.group!r} is in two parts"
    if clips.copies:
        note += f"; {counted(clips.copies, 'file')} dropped: also among the held-out files"
    return note


def _columns(text: str) -> list[str]:
    return [name.strip() for name in text.partition("\n")[0].split(",")]


def _named(clip: Clip, part: HeldOut | None, source: Clips) -> Clip:
    """A file, whose name says from which folder it is unless that is the source."""
    return clip if part is None else clip._replace(name=f"{source.folder.name}/{clip.name}")


def _check_groups(clips: Clips) -> None:
    """Raise if a group is in two sources."""
    sources: dict[str, HeldOut | None] = {}
    for group, part in zip(clips.groups, clips.parts, strict=False):
        other = sources.setdefault(group, part)
        if other != part:
            names = [f"--{name}" if name else "the source" for name in (other, part)]
            raise ValueError(
                f"group={clips.group!r}: {group!r} is in {' and '.join(names)}, but a group must be in one part only"
            )


def _classes(clips: Clips) -> list[list[int]]:
    """The classes that occur in each file."""
    present = []
    for clip in clips.clips:
        if clip.y.ndim == 2:
            present.append([i for i in range(clip.y.shape[1]) if (clip.y[:, i] > 0).any()])
        else:
            present.append([int(i) for i in np.unique(clip.y) if i != UNKNOWN])
    return present


def _strata(classes: Sequence[Sequence[int]], names: Sequence[str]) -> list[str]:
    """The class of each unit; of several classes, the one that the fewest have."""
    units = Counter(number for numbers in classes for number in numbers)
    return [names[min(numbers, key=lambda i: (units[i], i))] if numbers else "" for numbers in classes]


def _split_files(
    clips: Clips, free: Sequence[int], classes: Sequence[Sequence[int]], shares: Sequence[float], needed: int, seed: int
) -> list[list[str]]:
    strata = _strata([classes[i] for i in free], clips.classes)
    if clips.labelling == "classification":
        for name, count in sorted(Counter(strata).items()):
            if count < needed:
                each = "training, validation and testing" if needed == 3 else "training and a held-out part"
                raise ValueError(f"class {name!r} has {count} usable files, but needs {needed}: for {each}")
    parts = _split(strata, shares, needed, np.random.default_rng(seed))
    if not all(part or not share for part, share in zip(parts[1:], shares, strict=True)):
        # Every stratum is too small: split without them.
        parts = _split([""] * len(strata), shares, needed, np.random.default_rng(seed))
    return [[str(free[i]) for i in part] for part in parts]


def _split_groups(
    clips: Clips,
    members: Mapping[str, Sequence[int]],
    classes: Sequence[Sequence[int]],
    shares: Sequence[float],
    seed: int,
) -> list[list[str]]:
    """Draw groups, stratified by class where there are enough, until all classes are in the training data."""
    names = list(members)
    present = [{number for i in members[name] for number in classes[i]} for name in names]
    everything, rng = set().union(*present), np.random.default_rng(seed)
    strata = _strata([sorted(numbers) for numbers in present], clips.classes)
    sizes = Counter(strata)
    strata = [name if sizes[name] >= MIN_STRATUM else "" for name in strata]
    for _ in range(ATTEMPTS):
        parts = _split(strata, shares, 1 + sum(share > 0 for share in shares), rng)
        if set().union(*(present[i] for i in parts[0])) == everything:
            return [[names[i] for i in part] for part in parts]
    rare = min(everything, key=lambda number: sum(number in numbers for numbers in present))
    groups = [name for name, numbers in zip(names, present, strict=True) if rare in numbers]
    raise ValueError(
        f"group={clips.group!r}: no split found with all classes in the training data: {clips.classes[rare]!r} is only "
        f"in {counted(len(groups), 'group')} of {len(names)}, {listed(groups)}"
    )


def _split(
    strata: Sequence[str], shares: Sequence[float], needed: int, rng: np.random.Generator
) -> tuple[list[int], list[int], list[int]]:
    train, valid, test = list[int](), list[int](), list[int]()
    for name in sorted(set(strata)):
        members = rng.permutation([i for i, stratum in enumerate(strata) if stratum == name]).tolist()
        if len(members) < needed:
            train += members
            continue
        valid_count, test_count = (max(1, round(share * len(members))) if share else 0 for share in shares)
        valid += members[:valid_count]
        test += members[valid_count : valid_count + test_count]
        train += members[valid_count + test_count :]
    return sorted(train), sorted(valid), sorted(test)

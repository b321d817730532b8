"""Classification of files, or of their frames."""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from nystream.config import ModelInfo
from nystream.data.class_scores import ClassScores, class_scores
from nystream.data.clips import Clips
from nystream.data.file_splits import describe, split
from nystream.data.logistic_start import LogisticStart, fit_start, path_config
from nystream.data.problem import PartName, Problem, Scores
from nystream.train import Classification, Detection, StreamData, metrics

PARTS: tuple[PartName, ...] = ("train", "valid", "test")


@dataclass(frozen=True, eq=False)
class Labelled(Problem):
    """Files as streams. The class of a file is also that of each of its tokens, so a stream has an answer at each."""

    clips: Clips
    info: ModelInfo
    notes: tuple[str, ...]
    task: Classification | Detection
    seed: int

    linear: bool = False  # whether the model has a linear path

    short, dropout = 1.0, 0.1

    @property
    def per_file(self) -> bool:
        """Whether a file has one class."""
        return self.clips.labelling == "classification"

    @cached_property
    def start(self) -> LogisticStart:
        """Logistic regression, fitted to the training files."""
        config = path_config(self.longest, self.per_file)
        train, valid = self.part("train", 0), self.part("valid", 0)
        return fit_start(train, valid, self.task, self.output_dim, config, self.per_file, self.seed)

    def answers(self, name: PartName) -> Tensor | slice:
        """The tokens of a part whose answers are scored first: the last of each file, if it has one class."""
        if not self.per_file:
            return slice(None)
        return torch.tensor([len(self.clips.clips[i].x) for i in self.numbers(name)]).cumsum(0) - 1

    @cached_property
    def parts(self) -> dict[PartName, list[int]]:
        """The numbers of the files in every part."""
        return dict(zip(PARTS, split(self.clips, self.seed), strict=True))

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all tokens and targets, and of the groups and given parts of the files."""
        found = self.part("all", 0).fingerprint
        if not (self.clips.groups or self.clips.parts):
            return found
        return hashlib.sha256(repr((found, self.clips.groups, self.clips.parts)).encode()).hexdigest()

    @property
    def longest(self) -> int:
        return max(len(clip.x) for clip in self.clips.clips)

    def numbers(self, name: PartName) -> list[int]:
        return list(range(len(self.clips.clips))) if name == "all" else self.parts[name]

    def part(self, name: PartName, warm: int) -> StreamData:
        chosen = [self.clips.clips[i] for i in self.numbers(name)]
        return StreamData([clip.x for clip in chosen], [clip.y for clip in chosen])

    def scores(self, name: PartName, warm: int, output: Tensor, y: Tensor) -> Scores:
        if self.per_file:
            ends = self.answers(name)
            return {
                "accuracy at the end of a file": metrics.accuracy(output[ends], y[ends]),
                "accuracy of all tokens": metrics.accuracy(output, y),
            }
        scores = self.task.scores(output, y)
        named = {"mean average precision": scores["map"], "calibrated mean average precision": scores["cmap"]}
        if self.info.several:
            return named
        known, hot = metrics.known(y), metrics.one_hot(y, self.output_dim)
        output, hot = output[known], hot[known]
        right = hot.gather(1, output.argmax(1, keepdim=True)).double().mean()
        return {**named, "accuracy of frames": float(right) if bool(output.isfinite().all()) else float("nan")}

    def probabilities(self, output: Tensor) -> Tensor:
        """Probabilities [N, classes] of outputs."""
        return self.task.probabilities(output) if isinstance(self.task, Detection) else output.float().softmax(-1)

    def class_scores(self, name: PartName, output: Tensor) -> ClassScores:
        y, probabilities, ends = self.part(name, 0).y, self.probabilities(output), self.answers(name)
        hot, known = metrics.one_hot(y, self.output_dim)[ends], metrics.known(y)[ends]
        return class_scores(
            self.info.labels,
            "files" if self.per_file else "frames",
            hot[known],
            probabilities[ends][known],
            single=not self.info.several,
            ranked=not self.per_file,
            background=self.info.background,
        )

    def baselines(self, name: PartName, warm: int) -> dict[str, Scores]:
        """Always predict the most frequent class of the training data; and logistic regression, fitted to them."""
        source: PartName = name if name == "all" else "train"
        frequent = metrics.one_hot(self.part(source, warm).y, self.output_dim).sum(0)
        if self.per_file:
            ends = [int(self.clips.clips[i].y[-1]) for i in self.numbers(source)]
            frequent = torch.from_numpy(np.bincount(ends, minlength=self.output_dim)).float()
        y = self.part(name, warm).y
        output = torch.zeros(len(y), self.output_dim)
        output[:, int(frequent.argmax())] = 1.0
        baselines = {"most frequent class": self.scores(name, warm, output, y)}
        if self.linear and name in ("valid", "test"):
            logits = self.start.predict(self.part(name, warm))
            baselines = {"logistic regression": self.scores(name, warm, logits, y), **baselines}
        return baselines


def with_split(problem: Labelled) -> Labelled:
    """The problem with a note on its split, which must be possible."""
    note = describe(problem.clips, [problem.numbers(name) for name in PARTS], problem.seed)
    return dataclasses.replace(problem, notes=(*problem.notes, note))


def labelled(
    clips: Clips, background: str = "", seed: int = 0, several: bool | None = None, linear: bool = False
) -> Labelled:
    """Set up classification or detection.

    Args:
        clips: The files.
        background: The class of frames in which there is nothing to detect.
        seed: Seed of the split of the files.
        several: As in `ModelInfo`, by default determined from the labels.
        linear: Whether the model has a linear path, which starts as logistic regression.
    """
    if background and background not in clips.classes:
        raise ValueError(f"background={background!r} is not one of the classes: {', '.join(clips.classes)}")
    if len(clips.classes) < 2:
        raise ValueError(f"{clips.folder} has only one class, {clips.classes[0]!r}, so there is nothing to tell apart")
    task: Classification | Detection = Classification()
    several = clips.several if several is None else several
    if clips.labelling == "detection":
        kind: Literal["softmax", "sigmoid"] = "sigmoid" if several else "softmax"
        task = Detection(kind, clips.classes.index(background) if background else None)
    elif background:
        raise ValueError(f"background={background!r} needs labels of frames, but these are labels of files")
    info = ModelInfo(
        task=clips.labelling,
        inputs=clips.reader.names,
        labels=clips.classes,
        seconds=clips.seconds,
        reader=clips.reader.to_dict(),
        several=several,
        background=background or None,
        file_seconds=clips.file_seconds,
    )
    return Labelled(clips, info, clips.notes, task, seed, linear)

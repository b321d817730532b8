"""The estimators of classes: of every frame of a stream, and of whole streams."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score, average_precision_score
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from nystream.data.clips import UNKNOWN, Labelling
from nystream.data.labelled import Labelled
from nystream.data.open_source import linear_path
from nystream.data.option_groups import ClassOptions, ModelOptions
from nystream.data.problem import Problem
from nystream.data.run import Result
from nystream.data.settings import Settings
from nystream.estimators.arrays import LabelledArrays, labelled_arrays
from nystream.estimators.base import Estimator, silent
from nystream.estimators.inputs import feature_names, is_source, streams
from nystream.train import StreamData, predict

THRESHOLD = 0.5  # probability from which a class is predicted, if there can be several

Streams = list[NDArray[np.float32]]


@dataclass(kw_only=True, eq=False, repr=False)
class _ClassEstimator(ClassifierMixin, Estimator, ModelOptions, ClassOptions):  # type: ignore[misc]
    """What the two share.

    Attributes:
        classes_: The classes, in the order of the probabilities.
    """

    labelling: ClassVar[Labelling]

    def fit(
        self, data: Any, y: Any = None, *, out: str | Path | None = None, log: Callable[[str], None] = silent
    ) -> Self:
        """Fit files, or arrays and their labels.

        Args:
            data: A folder of feature files or of audio; or arrays, as the class describes.
            y: The labels of arrays.
            out: A folder for the run, which `load` and `nystream stream` read; a run that was stopped is resumed.
            log: Is called with each line that `nystream train` prints.
        """
        if is_source(data):
            self._fit_source(data, out, log)
            return self
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None; only a folder has labels"
            )
        settings = self.settings()
        if settings.hop > 1:
            raise ValueError(f"hop={settings.hop} is for folders of feature files, but data is a {type(data).__name__}")
        found, several = streams(self, data, reset=True)
        found, targets = self._targets(found, y, several)
        background = self._background()
        problem = labelled_arrays(
            found,
            targets,
            list(self.classes_),
            self.labelling,
            feature_names(self),
            settings.seed,
            linear_path(settings),
            background,
        )
        settings.background = ""
        self._fit_arrays_problem(settings, problem, out, log)
        return self

    @abstractmethod
    def _targets(self, found: Streams, y: Any, several: bool) -> tuple[Streams, list[NDArray[Any]]]:
        """Streams and their targets: numbers of classes [T], or zeros and ones [T, classes]; sets `classes_`."""

    def _background(self) -> int | None:
        if not self.background:
            return None
        names = list(map(str, self.classes_))
        if self.background not in names:
            raise ValueError(f"background={self.background!r} is not one of the classes: {', '.join(names)}")
        return names.index(self.background)

    def _probabilities(self, found: Sequence[NDArray[np.float32]]) -> list[NDArray[np.float64]]:
        """Probabilities [T, classes] after every token of every stream."""
        model = self.model_
        empty = [np.zeros(len(x), np.int64) for x in found]
        logits = predict(model, StreamData(list(found), empty))[0].double()
        values = logits.sigmoid() if model.info.several else torch.softmax(logits, 1)
        ends = np.cumsum([len(x) for x in found])[:-1]
        return np.split(values.numpy(), ends)

    def _labels(self, probabilities: NDArray[np.float64]) -> NDArray[Any]:
        if self.model_.info.several:
            return (probabilities >= THRESHOLD).astype(np.int64)
        return self.classes_[probabilities.argmax(-1)]

    def _files(self, source: str | Path) -> tuple[Labelled, dict[str, NDArray[np.float64]]]:
        problem = self._open(source)
        assert isinstance(problem, Labelled)
        found = self._probabilities([clip.x for clip in problem.clips.clips])
        return problem, {clip.name: one for clip, one in zip(problem.clips.clips, found, strict=True)}

    def fit_problem(self, settings: Settings, problem: Problem, *rest: Any, **options: Any) -> Result:
        if not isinstance(problem, LabelledArrays):
            self.classes_ = np.array(problem.info.labels)
        return super().fit_problem(settings, problem, *rest, **options)

    def _streams(self, data: Any) -> tuple[Streams, bool]:
        """Streams to predict, as in `inputs.streams`."""
        hop = (self.model_.info.reader or {}).get("hop", 1)
        if hop > 1:
            raise ValueError(
                f"hop={hop}: the model reads statistics of {hop} frames each; give a folder, use sessions(), or fit "
                f"with hop=1 to predict arrays"
            )
        return streams(self, data, reset=False)

    def _about(self) -> dict[str, Any]:
        return {**super()._about(), "classes": self.classes_.tolist()}

    def _restore(self, about: dict[str, Any]) -> None:
        super()._restore(about)
        self.classes_ = np.array(about.get("classes", self.model_.info.labels))


@dataclass(kw_only=True, eq=False, repr=False)
class Detector(_ClassEstimator):
    """Detects classes in every frame of a stream, from that frame and those before it.

    Arrays: `data` is one stream [T, features], whose frames are in order of time, or a list of streams; y has the class
    of every frame [T], or zeros and ones [T, classes] if a frame can have several, for every stream. Beside two or more
    other numbers, −1 means that the class of a frame is unknown.

    Example:
        >>> import numpy as np, nystream as ns
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(0, 2, 40).repeat(10)
        >>> x = y[:, None] + rng.normal(size=(400, 3))
        >>> detector = ns.Detector(epochs=2, window=16).fit(x[:300], y[:300])
        >>> detector.predict_proba(x[300:]).shape
        (100, 2)
    """

    tasks: ClassVar[tuple[str, ...]] = ("detection",)
    labelling: ClassVar[Labelling] = "detection"

    def _targets(self, found: Streams, y: Any, several: bool) -> tuple[Streams, list[NDArray[Any]]]:
        given = [np.asarray(one) for one in y] if several else [np.asarray(y)]
        if len(given) != len(found):
            raise ValueError(f"y has labels of {len(given)} streams, but data has {len(found)}")
        for i, (x, one) in enumerate(zip(found, given, strict=True)):
            if len(one) != len(x):
                raise ValueError(f"y has {len(one)} labels for stream {i}, but it has {len(x)} frames")
        if all(one.ndim == 2 and one.shape[1] > 1 for one in given):
            hot = [one.astype(np.float32) for one in given]
            if any(not np.isin(one, (0, 1)).all() for one in hot):
                raise ValueError("y [T, classes] must be zeros and ones")
            self.classes_ = np.arange(hot[0].shape[1])
            return found, hot
        labels = [column_or_1d(one, warn=True) for one in given]
        for one in labels:
            check_classification_targets(one)
        every = np.unique(np.concatenate(labels))
        unknown = every.dtype.kind in "if" and UNKNOWN in every and len(every) > 2
        self.classes_ = every[every != UNKNOWN] if unknown else every
        numbers = [np.searchsorted(self.classes_, one) for one in labels]
        if unknown:
            numbers = [np.where(one == UNKNOWN, UNKNOWN, n) for one, n in zip(labels, numbers, strict=True)]
        return found, numbers

    def predict(self, data: Any) -> Any:
        """Return the class of every frame [T], or zeros and ones [T, classes] if there can be several.

        For a list of streams, a list; for a folder, a dict by file.
        """
        return self._each(data, self._labels)

    def predict_proba(self, data: Any) -> Any:
        """Return the probabilities of every frame, [T, classes]; lists and folders as for `predict`."""
        return self._each(data, lambda probabilities: probabilities)

    def score(self, data: Any, y: Any = None) -> float:
        """Return the share of frames whose class is right; if there can be several, the mean average precision."""
        if is_source(data):
            check_is_fitted(self, "model_")
            problem, found = self._files(data)
            truth = np.concatenate([clip.y for clip in problem.clips.clips])
            probabilities = np.concatenate(list(found.values()))
            if truth.ndim == 1:
                known = truth != UNKNOWN
                return float(accuracy_score(truth[known], probabilities.argmax(1)[known]))
        else:
            if y is None:
                raise ValueError("y=None: the score of arrays needs their labels")
            found = self.predict_proba(data)
            several = isinstance(found, list)
            probabilities = np.concatenate(found) if several else found
            truth = np.concatenate([np.asarray(one) for one in y]) if several else np.asarray(y)
            if truth.ndim == 1:
                marked = truth.dtype.kind in "if" and UNKNOWN not in self.classes_
                known = truth != UNKNOWN if marked else np.ones(len(truth), bool)
                return float(accuracy_score(truth[known], self._labels(probabilities)[known]))
        if self.model_.info.several:
            return float(average_precision_score(truth, probabilities))
        return float(accuracy_score(truth.argmax(1), probabilities.argmax(1)))

    def _each(self, data: Any, form: Callable[[NDArray[np.float64]], NDArray[Any]]) -> Any:
        check_is_fitted(self, "model_")
        if is_source(data):
            return {name: form(one) for name, one in self._files(data)[1].items()}
        found, several = self._streams(data)
        outputs = [form(one) for one in self._probabilities(found)]
        return outputs if several else outputs[0]


@dataclass(kw_only=True, eq=False, repr=False)
class Classifier(_ClassEstimator):
    """Finds the class of a whole stream, such as a recording; while streaming, it has an answer after every token.

    Arrays: `data` is a list of streams [T, features], an array [N, T, features], or [N, features] for streams of one
    token each; y has their classes [N].

    Example:
        >>> import numpy as np, nystream as ns
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(0, 2, 60)
        >>> x = y[:, None, None] + rng.normal(size=(60, 20, 3))
        >>> classifier = ns.Classifier(epochs=2).fit(x[:40], y[:40])
        >>> classifier.predict(x[40:]).shape
        (20,)
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    labelling: ClassVar[Labelling] = "classification"

    def _targets(self, found: Streams, y: Any, several: bool) -> tuple[Streams, list[NDArray[Any]]]:
        found = found if several else list(found[0][:, None])
        labels = column_or_1d(y, warn=True)
        check_classification_targets(labels)
        if len(labels) != len(found):
            raise ValueError(f"y has {len(labels)} labels, but data has {len(found)} samples")
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        return found, [np.full(len(x), number) for x, number in zip(found, numbers, strict=True)]

    def predict(self, data: Any) -> Any:
        """Return the class of every stream, [N]; for a folder, a dict by file."""
        return self._each(data, self._labels)

    def predict_proba(self, data: Any) -> Any:
        """Return the probabilities of every stream, [N, classes]; for a folder, a dict by file."""
        return self._each(data, lambda probabilities: probabilities)

    def score(self, data: Any, y: Any = None) -> float:
        """Return the share of streams whose class is right, after their last token."""
        if not is_source(data):
            return float(accuracy_score(y, self.predict(data)))
        check_is_fitted(self, "model_")
        problem, found = self._files(data)
        truth = [int(clip.y[-1]) for clip in problem.clips.clips]
        return float(accuracy_score(truth, [one[-1].argmax() for one in found.values()]))

    def _each(self, data: Any, form: Callable[[NDArray[np.float64]], Any]) -> Any:
        check_is_fitted(self, "model_")
        if is_source(data):
            return {name: form(one[-1]) for name, one in self._files(data)[1].items()}
        found, several = self._streams(data)
        found = found if several else list(found[0][:, None])
        return form(np.stack([one[-1] for one in self._probabilities(found)]))

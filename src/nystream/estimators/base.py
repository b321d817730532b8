"""What the estimators share: fitting through a training run, saving and loading, and live sessions."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from nystream import extras, files
from nystream.data.open_source import open_for, open_for_training
from nystream.data.option_groups import Names
from nystream.data.problem import Problem, Scores
from nystream.data.reader import Policy
from nystream.data.run import Result, train
from nystream.data.run_folder import MODEL, info_of
from nystream.data.scoring import evaluate
from nystream.data.settings import CONFIG, Settings, read_config
from nystream.live.sessions import Sessions
from nystream.models import StreamModel
from nystream.models.find import folder_of
from nystream.train.log import plain_numbers

extras.require("an estimator", "sklearn")
from sklearn.base import BaseEstimator  # noqa: E402
from sklearn.utils.validation import check_is_fitted  # noqa: E402

from nystream.estimators.inputs import are_sources, is_source  # noqa: E402

ABOUT = "estimator.json"
ARRAYS = "arrays"  # the source of a model that was fitted to arrays


def silent(line: str) -> None:
    """Log nothing."""


class Estimator(BaseEstimator):  # type: ignore[misc]
    """Base class of the estimators, whose parameters are the options of `nystream train`.

    Attributes:
        model_: The trained `StreamModel`.
        scores_: Part of the data ("valid", and "test" where one was kept) -> "model" or a baseline -> its scores.
        notes_: What was found in the data, and what was dropped or filled.
    """

    tasks: ClassVar[tuple[str, ...]]  # of models that it can load

    model_: StreamModel
    scores_: dict[str, dict[str, Scores]]
    notes_: tuple[str, ...]
    _source_: Names = ARRAYS  # that it was fitted to

    def settings(self, source: Names = ARRAYS) -> Settings:
        """The parameters as the settings of a run; raises if one of them cannot be used."""
        return Settings(**{"source": source, **self.get_params(deep=False)})

    def fit_problem(
        self,
        settings: Settings,
        problem: Problem,
        folder: Path | None = None,
        log: Callable[[str], None] = silent,
        show: bool | None = False,
        teacher: StreamModel | None = None,
    ) -> Result:
        """Fit data that have been read. A run of the same settings in the folder is resumed."""
        with _folder(folder) as place:
            result = train(settings, problem, place, log, show, teacher)
        self.model_, self.scores_, self.notes_ = result.model.eval(), result.scores, problem.notes
        self._source_ = settings.source
        self._set_width()
        return result

    def _fit_arrays_problem(
        self, settings: Settings, problem: Problem, out: str | Path | None, log: Callable[[str], None]
    ) -> None:
        """Fit arrays; a run folder then also has what `load` cannot know from the model."""
        folder = None if out is None else Path(out)
        self.fit_problem(settings, problem, folder, log)
        if folder is not None:
            self._write_about(folder)

    def _fit_source(
        self, source: str | Path | Sequence[str | Path], out: str | Path | None, log: Callable[[str], None]
    ) -> Problem:
        paths = tuple(str(path.resolve()) for path in paths_of(source))
        settings = self.settings(paths[0] if len(paths) == 1 else paths)
        teacher = StreamModel.from_pretrained(folder_of(settings.teacher)) if settings.teacher else None
        problem = open_for_training(settings, False)
        self._check_task(problem.info.task, str(source))
        self.fit_problem(settings, problem, None if out is None else Path(out), log, teacher=teacher)
        return problem

    def _open(self, data: Any, **options: Any) -> Problem:
        """A source, read as the training data were; options as those of `open_for`."""
        check_is_fitted(self, "model_")
        if not (is_source(data) or are_sources(data)):
            raise TypeError(f"data is a {type(data).__name__}, but must be the path of a folder; `score` takes arrays")
        return open_for(self.model_.info, paths_of(data), **options, show=False)

    def _check_task(self, task: str | None, source: str) -> None:
        if task not in self.tasks:
            raise ValueError(f"{type(self).__name__} is for {' or '.join(self.tasks)}, but {source} is for {task}")

    def evaluate(
        self,
        data: Any,
        *,
        missing: Policy | None = None,
        gaps: Policy | None = None,
        background: str | None = None,
        seconds: float | None = None,
        skip_lines: int = 0,
        skip_end: int = 0,
        log: Callable[[str], None] = silent,
    ) -> dict[str, Scores]:
        """Return the scores of the model and of its baselines on new data, as `nystream eval` shows them.

        Args:
            data: The path of a table or of a folder, or a DataFrame for a model of tables. The model streams over it
                from beginning to end; the first rows of a table only fill its window.
            missing, gaps, background, seconds: As in `nystream train`; by default as in training.
            skip_lines, skip_end: Lines of a CSV file before the header and after the data.
            log: Is called with what was found in the data, and what was dropped or filled.

        Returns:
            "model" or a baseline -> its scores.
        """
        check_is_fitted(self, "model_")
        options: dict[str, Any] = {"missing": missing, "gaps": gaps, "background": background, "seconds": seconds}
        problem = self._open(data, **options, skip_lines=skip_lines, skip_end=skip_end)
        for note in problem.notes:
            log(note)
        return evaluate(self.model_, problem, log=log).scores

    def sessions(self, **options: Any) -> Sessions:
        """Return an object that takes in the records of any number of live streams by key, and answers them.

        Options are those of `nystream.live.Sessions`.
        """
        check_is_fitted(self, "model_")
        return Sessions(self.model_, **options)

    def save(self, folder: str | Path) -> None:
        """Save the fitted estimator in a folder, in the form of a run folder of `nystream train`."""
        check_is_fitted(self, "model_")
        folder = Path(folder)
        if (folder / CONFIG).exists():
            raise FileExistsError(f"folder={folder} has a run or an estimator already; give another folder")
        folder.mkdir(parents=True, exist_ok=True)
        self.model_.save_pretrained(folder / MODEL)
        files.write_text(folder / CONFIG, self.settings(self._source_).to_toml())
        self._write_about(folder)

    def _write_about(self, folder: Path) -> None:
        about = plain_numbers({"scores": self.scores_, "notes": list(self.notes_), **self._about()})
        files.write_text(folder / ABOUT, json.dumps(about, indent=2, ensure_ascii=False) + "\n")

    def _set_width(self) -> None:
        """Set `n_features_in_`, also of a model that was not fitted to arrays."""
        reader = self.model_.info.reader or {}
        if reader.get("kind") == "frames":
            self.n_features_in_ = int(reader["width"])

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Load an estimator from a folder that `save`, `fit(out=)` or `nystream train` wrote."""
        folder = Path(folder).expanduser()
        place = folder_of(str(folder))
        model = StreamModel.from_pretrained(place)
        model.info = info_of(model.info, place)
        config = read_config(folder / CONFIG) if (folder / CONFIG).is_file() else {}
        names = cls._get_param_names()
        estimator = cls(**{name: _hashable(value) for name, value in config.items() if name in names})
        estimator._check_task(model.info.task, str(folder))
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8")) if (folder / ABOUT).is_file() else {}
        scores = folder / "scores.json"
        if not about and scores.is_file():
            record = json.loads(scores.read_text(encoding="utf-8"))
            about = {"scores": {name: record[name] for name in ("valid", "test") if name in record}}
        estimator.model_, estimator.scores_ = model, about.get("scores", {})
        estimator.notes_ = tuple(about.get("notes", ()))
        estimator._source_ = config.get("source", ARRAYS)
        estimator._restore(about)
        estimator._set_width()
        return estimator

    def _about(self) -> dict[str, Any]:
        """What `save` keeps beside the model."""
        names = getattr(self, "feature_names_in_", None)
        return {
            "n_features_in": getattr(self, "n_features_in_", None),
            "feature_names_in": None if names is None else list(map(str, names)),
        }

    def _restore(self, about: dict[str, Any]) -> None:
        if about.get("n_features_in") is not None:
            self.n_features_in_ = about["n_features_in"]
        if about.get("feature_names_in") is not None:
            self.feature_names_in_ = np.array(about["feature_names_in"], dtype=object)


def paths_of(source: str | Path | Sequence[str | Path]) -> list[Path]:
    """The paths of a source."""
    return [Path(path).expanduser() for path in ([source] if isinstance(source, str | Path) else source)]


def _hashable(value: Any) -> Any:
    """A value of a config file, in which tuples are lists."""
    return tuple(value) if isinstance(value, list) else value


@contextlib.contextmanager
def _folder(folder: Path | None) -> Iterator[Path]:
    """The folder of a run, or one that is deleted afterwards."""
    if folder is not None:
        yield folder
        return
    with tempfile.TemporaryDirectory() as temporary:
        yield Path(temporary) / "run"

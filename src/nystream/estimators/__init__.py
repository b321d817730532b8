"""Estimators with scikit-learn's conventions, for your own data: forecasts, detection and classification.

The command `nystream train` is a face of them, so both take the same data and the same options.
"""

from nystream.config.option import add_args
from nystream.data.problem import Problem
from nystream.data.settings import Settings
from nystream.estimators.base import Estimator
from nystream.estimators.classes import Classifier, Detector
from nystream.estimators.forecaster import Forecaster

__all__ = ["Classifier", "Detector", "Forecaster"]

ESTIMATORS: tuple[type[Estimator], ...] = (Forecaster, Detector, Classifier)
KINDS: dict[str | None, type[Estimator]] = {task: kind for kind in ESTIMATORS for task in kind.tasks}
for estimator in ESTIMATORS:
    add_args(estimator)


def estimator_of(settings: Settings, problem: Problem) -> Estimator:
    """The estimator for a problem, with those of the settings that are its parameters."""
    kind = KINDS[problem.info.task]
    return kind(**{name: getattr(settings, name) for name in kind._get_param_names()})

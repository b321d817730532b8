"""Whether a model was worth training: one plain sentence for each baseline that it is compared with."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from nystream.data.problem import Scores

SAME = 0.005  # difference within which two results are as good as each other
FAR = 100  # times the error of a baseline: what follows is not worth a number
LARGEST_LOG = 700.0  # its exponential is still finite

# Baselines whose names do not fit into a sentence.
SPOKEN = {
    "persistence": "the last value",
    "linear path": "its linear path alone",
    "a day ago": "the value of a day ago",
    "a week ago": "the value of a week ago",
    "most frequent class": "the most frequent class",
}


class Verdict(NamedTuple):
    """How a model compares with a baseline.

    Attributes:
        baseline: The name of the baseline.
        gain: How much better the model is: the fraction by which its error is smaller, or the difference of scores.
            Negative if it is worse, NaN if one of the two is not known.
        sentence: The same in words, without a full stop.
    """

    baseline: str
    gain: float
    sentence: str


def verdicts(
    scores: Mapping[str, Scores], *, higher_is_better: bool, score: str = "", model: str = "model"
) -> list[Verdict]:
    """Compare a model with each baseline.

    Errors are compared in percent, and scores between 0 and 1 in points of 100. With one error for each of several
    targets, such as "mean absolute error of A", the geometric mean of their ratios counts, so that no unit does.

    Args:
        scores: Scores by the names of the model and of baselines.
        higher_is_better: Whether the scores are better if they are higher, as accuracy, or lower, as errors.
        score: The score to compare, or its name without targets for all of them; by default the model's first, of all
            targets.
        model: The name of the model.

    Example:
        >>> from nystream.data.verdict import verdicts
        >>> errors = {"model": {"error": 88.0}, "ridge": {"error": 100.0}}
        >>> [verdict.sentence for verdict in verdicts(errors, higher_is_better=False)]
        ['12 % better than ridge']
    """
    if model not in scores or not scores[model]:
        raise ValueError(f"scores has no scores of {model!r}; it has those of {', '.join(scores) or 'nothing'}")
    names = _compared(scores[model], score)
    found = []
    for baseline, values in scores.items():
        if baseline != model:
            pairs = [(scores[model][name], values.get(name, math.nan)) for name in names]
            gain = _points(pairs) if higher_is_better else _percent(pairs)
            found.append(Verdict(baseline, gain, _sentence(baseline, gain, names[0], higher_is_better)))
    return found


def _compared(scores: Scores, score: str) -> list[str]:
    """The names of one score, of all targets that have it."""
    if score in scores:
        return [score]
    kind = (score or next(iter(scores))).partition(" of ")[0]
    names = [name for name in scores if name.partition(" of ")[0] == kind]
    if not names:
        raise ValueError(f"score={score!r} is not one of {', '.join(scores)}")
    return names


def _percent(pairs: list[tuple[float, float]]) -> float:
    """The fraction by which errors are smaller than those of a baseline."""
    if any(math.isnan(ours) or math.isnan(theirs) for ours, theirs in pairs):
        return math.nan
    # Two errors of 0 are the same, too.
    logs = [0.0 if ours == theirs else _log(ours) - _log(theirs) for ours, theirs in pairs]
    return -math.expm1(min(sum(logs) / len(logs), LARGEST_LOG))


def _log(error: float) -> float:
    return math.log(error) if error else -math.inf


def _points(pairs: list[tuple[float, float]]) -> float:
    return sum(ours - theirs for ours, theirs in pairs) / len(pairs)


def _sentence(baseline: str, gain: float, name: str, higher_is_better: bool) -> str:
    spoken = SPOKEN.get(baseline, baseline)
    if math.isnan(gain):
        return f"not compared with {spoken}: one of the two has no {name.partition(' of ')[0]}"
    if abs(gain) <= SAME:
        return f"as good as {spoken}"
    size = 100 * abs(gain)
    number = f"{size:.0f}" if size >= 9.95 else f"{size:.1f}"
    amount = f"{number} points" if higher_is_better else f"{number} %"
    if gain > 0:
        return f"{amount} better than {spoken}"
    worse = f"{amount} worse than"
    if gain < -1:
        worse = f"{1 - gain:.1f} times the error of" if gain >= -FAR else "far worse than"
    more = "labelled data" if higher_is_better else "rows"
    return f"{worse} {spoken}: train on more {more}, or use {spoken}"

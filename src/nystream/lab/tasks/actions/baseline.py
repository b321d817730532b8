"""A baseline without memory of its own: logistic regression on the last tokens."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from nystream import extras
from nystream.train import Detection, StreamData, metrics

LAST = 8  # tokens whose mean is read beside the newest one
STRENGTHS = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2)  # C: weight of the data relative to the penalty


class LogisticScores(NamedTuple):
    """Scores of the baseline, and its C, chosen by the mean average precision on validation data."""

    valid: dict[str, float]
    test: dict[str, float]
    strength: float


def last_tokens_scores(train: StreamData, valid: StreamData, test: StreamData) -> LogisticScores:
    """Scores of logistic regression over the classes of a frame, on its token and the mean of its last 8 tokens.

    Ambiguous frames are dropped. A frame with several actions is learned as the first of them.
    """
    extras.require("logistic regression", "sklearn")
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x, x_valid, x_test = (last_tokens(part) for part in (train, valid, test))
    known = metrics.known(train.y)
    frames, classes = x[known].numpy(), train.y[known].argmax(-1).numpy()
    task, best = Detection(), None
    for strength in STRENGTHS:
        model = make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=1000)).fit(frames, classes)

        def scores(x: Tensor, y: Tensor, model: object = model) -> dict[str, float]:
            return task.scores(_outputs(model, x, y.shape[-1]), y)

        on_valid = scores(x_valid, valid.y)
        if best is None or on_valid["map"] > best.valid["map"]:
            best = LogisticScores(on_valid, scores(x_test, test.y), strength)
    assert best is not None
    return best


def last_tokens(data: StreamData) -> Tensor:
    """[tokens, 2 · input_dim]: every token, and the mean of the last 8 up to it, or of as many as there are."""
    parts = []
    for i in range(len(data)):
        x, _ = data.stream(i)
        padded = torch.cat([x.new_zeros(LAST - 1, x.shape[1]), x])
        count = torch.arange(1, len(x) + 1).clamp(max=LAST)
        parts.append(torch.cat([x, padded.unfold(0, LAST, 1).sum(-1) / count[:, None]], 1))
    return torch.cat(parts)


def _outputs(model: object, x: Tensor, width: int) -> Tensor:
    """Logarithms of probabilities [N, width]; classes that are not in the training data have the least."""
    found = torch.from_numpy(model.predict_log_proba(x.numpy())).float().clamp(min=-100)  # type: ignore[attr-defined]
    outputs = torch.full((len(x), width), -100.0)
    outputs[:, torch.from_numpy(model.classes_)] = found  # type: ignore[attr-defined]
    return outputs

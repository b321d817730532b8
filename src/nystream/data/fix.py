"""Fixed landmarks for a model that was trained without."""

from __future__ import annotations

from nystream.config.checks import positive_int
from nystream.data.problem import Problem
from nystream.landmarks import fit_landmarks
from nystream.models import StreamModel


def with_landmarks(
    model: StreamModel, problem: Problem, landmarks: int, tokens: int, seed: int = 0, show: bool | None = None
) -> StreamModel:
    """The model with fixed landmarks in every block, fitted one after another; the one that is given stays."""
    positive_int("landmarks", landmarks)
    given = model.config.attention
    records = [cfg.record for cfg in (given if isinstance(given, tuple) else [given] * len(model.config.blocks))]
    for record in records:
        if record.fixed_form is None:
            raise ValueError(f"the model has blocks of variant {record.name!r}, which has no form with fixed landmarks")
    data = problem.part("all", 0)
    for layer, record in enumerate(records):
        # First m, which full attention has none of and fixed landmarks cannot be without.
        model = model.convert(landmarks=landmarks, layer=layer).convert(variant=record.fixed_form, layer=layer)
        fit_landmarks(model, data.batches(32, model.config.update_size), tokens, layer, seed, progress=show)
    return model.eval()

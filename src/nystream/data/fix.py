"""Fixed landmarks for a model that was trained without."""

from __future__ import annotations

from nystream.config.checks import positive_int
from nystream.data.problem import Problem
from nystream.landmarks import fit_landmarks
from nystream.models import StreamModel

# What a model is -> what it becomes
FIXED = {
    "full": "nystrom-fixed",
    "nystrom": "nystrom-fixed",
    "nystrom-fixed": "nystrom-fixed",
    **{
        f"{family}-{rows}": f"co-fixed-{rows}"
        for family in ("co-full", "co-cont", "co-fixed")
        for rows in ("single", "retro")
    },
}


def with_landmarks(
    model: StreamModel, problem: Problem, landmarks: int, tokens: int, seed: int = 0, show: bool | None = None
) -> StreamModel:
    """The model with fixed landmarks in every block, fitted one after another; the one that is given stays."""
    positive_int("landmarks", landmarks)
    given = model.config.attention
    variants = [cfg.variant for cfg in (given if isinstance(given, tuple) else [given] * len(model.config.blocks))]
    data = problem.part("all", 0)
    for layer, variant in enumerate(variants):
        # First m, which full attention has none of and fixed landmarks cannot be without.
        model = model.convert(landmarks=landmarks, layer=layer).convert(variant=FIXED[variant], layer=layer)
        fit_landmarks(model, data.batches(32, model.config.update_size), tokens, layer, seed, progress=show)
    return model.eval()

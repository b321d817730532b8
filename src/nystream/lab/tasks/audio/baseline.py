"""The baseline: logistic regression on the mean token of a track."""

from __future__ import annotations

from nystream.lab.tasks.audio.splits import Split

STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # C: weight of the data relative to the penalty


def mean_token_accuracy(split: Split) -> dict[str, float]:
    """Validation and test accuracy of logistic regression on the mean token, with C chosen on validation data."""
    try:
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "logistic regression needs scikit-learn: pip install 'nystream[train]'", name="sklearn"
        ) from error
    (x, y), (x_valid, y_valid), (x_test, y_test) = ((part.x.mean(1).numpy(), part.y.numpy()) for part in split)
    best: dict[str, float] = {}
    for strength in STRENGTHS:
        model = make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=1000)).fit(x, y)
        valid = float(model.score(x_valid, y_valid))
        if not best or valid > best["valid"]:
            best = {"valid": valid, "test": float(model.score(x_test, y_test)), "C": strength}
    return best

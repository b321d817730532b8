"""Fixed landmarks from training data: a bounded sample of an attention's tokens, and m-means of each head."""

from nystream.landmarks.fit import LandmarkReport, fit_landmarks

__all__ = ["LandmarkReport", "fit_landmarks"]

"""Fitting fixed landmarks to training data: a sample of an attention's tokens, and m-means for each head."""

from nystream.landmarks.fit import LandmarkReport, fit_landmarks

__all__ = ["LandmarkReport", "fit_landmarks"]

"""Applying a model to a live source: records in, answers in the user's units out, with saving and resuming."""

from nystream.live.answers import Answer
from nystream.live.session import Session, live_reader

__all__ = ["Answer", "Session", "live_reader"]

"""A model that follows a live source: records in, answers in the user's units out, stopped and gone on with at will."""

from nystream.live.answers import Answer
from nystream.live.session import Session, live_reader

__all__ = ["Answer", "Session", "live_reader"]

"""Applying a model to a live source: records in, answers in the user's units out, with saving and resuming."""

from nystream.live.answers import Answer
from nystream.live.readers import live_reader
from nystream.live.session import Session
from nystream.live.sessions import Sessions
from nystream.live.taken import Taken

__all__ = ["Answer", "Session", "Sessions", "Taken", "live_reader"]

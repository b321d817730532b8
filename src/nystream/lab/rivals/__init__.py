"""The models that a practitioner would use instead: recurrent networks, trained and streamed like our own."""

from nystream.lab.rivals.config import RecurrentConfig
from nystream.lab.rivals.recurrent import RecurrentModel, RecurrentState

__all__ = ["RecurrentConfig", "RecurrentModel", "RecurrentState"]

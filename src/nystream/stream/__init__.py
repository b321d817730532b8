"""`StreamPool`: many streams of one model in one process."""

from nystream.stream.errors import UnknownStreamError
from nystream.stream.pool import StreamPool

__all__ = ["StreamPool", "UnknownStreamError"]

"""What is in flight in a service, over all connections."""

from __future__ import annotations

from nystream.serve.protocol import RequestError


class InFlight:
    """Bytes of requests without a reply, which are bounded, and replies that are not sent yet.

    Args:
        most: The most bytes.

    Attributes:
        bytes: Of requests without a reply.
        replies: To messages that came over WebSockets, which bound them for themselves; a shutdown waits for them.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.bytes = self.replies = 0

    def add(self, size: int) -> None:
        """Count bytes until `remove`; RequestError if they are too many."""
        if self.bytes + size > self._most:
            message = f"requests of {self.bytes} bytes wait, and {self._most} may; send {size} later"
            raise RequestError("overloaded", message, retry_after=0.1)
        self.bytes += size

    def remove(self, size: int) -> None:
        """Count bytes no longer."""
        self.bytes -= size

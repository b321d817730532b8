"""An answer that a device gives later, for code that branches on it."""

from __future__ import annotations

import torch
from torch import Tensor


class Later:
    """A number on a device, such as one that kernels change, that is asked for as a `bool` after `note()`.

    On a CUDA device, asking waits for what was launched before `note()`, and not for what was launched after it: the
    device has work while the code decides.
    """

    def __init__(self, number: Tensor) -> None:
        self.number = number
        self._event: torch.Event | None = None

    def note(self) -> Later:
        """Start to read the number, which is final."""
        if self.number.is_cuda:
            stream = torch.cuda.current_stream(self.number.device)
            self.number = self.number.to("cpu", non_blocking=True)  # into pinned memory
            self._event = stream.record_event()
        return self

    def __bool__(self) -> bool:
        if self._event is not None:
            self._event.synchronize()
        return bool(self.number)

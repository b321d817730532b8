"""What needs the package continual-inference to be installed; import it only when it is."""

from __future__ import annotations

from typing import Any

from continual.module import CoModule  # type: ignore[import-untyped]
from continual.transformer import RetroactiveUnity  # type: ignore[import-untyped]
from torch import Tensor

import nystream.state as states
from nystream.compat.stateful import Continual


class CoContinual(Continual, CoModule):  # type: ignore[misc]
    """A `Continual` that the package's containers take for one of their own."""

    # They call their modules, and say with `call_mode` which method they mean.
    __call__ = CoModule._call_impl
    _call_impl = CoModule._call_impl

    @property
    def _state_shape(self) -> int:
        return sum(1 for _ in states.named_leaves(self.module.init_state(1)))

    @property
    def _dynamic_state_inds(self) -> list[bool]:
        return [True] * self._state_shape


class AlignedUnity(RetroactiveUnity):  # type: ignore[misc]
    """The rows of the window beside retroactive attention, in step with it at all times.

    The package's own ring has `delay + 1` places, but its index runs round `delay` of them: from token 2 n − 1 on,
    rows are added to the attention of others.
    """

    def _forward_step(self, input: Tensor, prev_state: Any) -> tuple[Tensor | None, Any]:
        before = self.init_state(input) if prev_state is None else prev_state
        output, (buffer, _) = super()._forward_step(input, before)
        index = before[1] + 1
        return output, (buffer, index % (self.delay + 1) if index > 0 else index)

"""Subclasses of classes in continual-inference. Importing this module requires that package."""

from __future__ import annotations

from typing import Any

from continual.module import CoModule  # type: ignore[import-untyped]
from continual.transformer import RetroactiveUnity  # type: ignore[import-untyped]
from torch import Tensor

import nystream.state as states
from nystream.compat.stateful import Continual


class CoContinual(Continual, CoModule):  # type: ignore[misc]
    """A `Continual` that can be used in the containers of continual-inference."""

    # The containers call their modules, and select the method with `call_mode`.
    __call__ = CoModule._call_impl
    _call_impl = CoModule._call_impl

    @property
    def _state_shape(self) -> int:
        return sum(1 for _ in states.named_leaves(self.module.init_state(1)))

    @property
    def _dynamic_state_inds(self) -> list[bool]:
        return [True] * self._state_shape


class AlignedUnity(RetroactiveUnity):  # type: ignore[misc]
    """The residual connection around retroactive attention, with the right rows at all times.

    The ring buffer of `RetroactiveUnity` has `delay + 1` places, but its index cycles through only `delay` of them, so
    that from token 2n − 1 on, rows are added to the attention outputs of other rows.
    """

    def _forward_step(self, input: Tensor, prev_state: Any) -> tuple[Tensor | None, Any]:
        before = self.init_state(input) if prev_state is None else prev_state
        output, (buffer, _) = super()._forward_step(input, before)
        index = before[1] + 1
        return output, (buffer, index % (self.delay + 1) if index > 0 else index)

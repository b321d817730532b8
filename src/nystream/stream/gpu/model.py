"""One step of a whole model: attention in kernels, everything else by the model's own layers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nystream.layers.attention import MultiheadAttention
from nystream.layers.encoder import CascadeState, StreamEncoder
from nystream.layers.linear_path import ModelState
from nystream.models.stream_model import StreamModel
from nystream.stream.gpu.attention import Attention
from nystream.stream.gpu.continual import ContinualAttention
from nystream.stream.gpu.full import FullAttention
from nystream.stream.gpu.landmarks import FixedAttention
from nystream.stream.gpu.launch import Call

KINDS: dict[str, type[Attention]] = {"fixed": FixedAttention, "continual": ContinualAttention, "full": FullAttention}


class Recent(NamedTuple):
    """What a linear path reads of a state."""

    recent: Tensor
    time: Tensor


class Streams:
    """The states of all streams of a model, on its device, and their step."""

    def __init__(self, model: Any, capacity: int, ring_dtype: torch.dtype) -> None:
        self.model, self.update_size = model, model.config.update_size
        attentions = [model] if isinstance(model, MultiheadAttention) else [b.attention for b in self._encoder.blocks]
        self.attentions = []
        for module in attentions:
            kernel = module.config.record.kernel
            assert kernel is not None
            self.attentions.append(KINDS[kernel](module, ring_dtype))
        self.device = self.attentions[0].device
        # The last row is for rows that are skipped.
        self.recent: Tensor | None = self._path.init_ring(capacity + 1) if self._looks_back else None
        self.time = torch.zeros(capacity, dtype=torch.long, device=self.device)
        for attention in self.attentions:
            attention.allocate(capacity)

    @property
    def bytes_per_stream(self) -> int:
        """Memory of one more stream."""
        leaves = [leaf for attention in self.attentions for leaf in attention.leaves.values()] + [self.time]
        leaves += [] if self.recent is None else [self.recent]
        return sum(leaf[:1].nbytes for leaf in leaves)

    def grow(self, capacity: int) -> None:
        """Add slots. The tensors are new ones, so a captured graph must not be used again."""
        larger = [attention.grow(capacity) for attention in self.attentions]
        time = torch.zeros(capacity, dtype=torch.long, device=self.device)
        time[: len(self.time)] = self.time
        if self.recent is not None:
            recent = self._path.init_ring(capacity + 1)
            recent[: len(self.time)] = self.recent[: len(self.time)]
            self.recent = recent
        for attention, leaves in zip(self.attentions, larger, strict=True):
            attention.leaves = leaves
        self.time = time

    def clear(self, slot: int) -> None:
        """Start a new stream."""
        for attention in self.attentions:
            attention.clear(slot)
        if self.recent is not None:
            self.recent[slot] = 0.0
        self.time[slot] = 0

    def read(self, slot: int) -> Any:
        """The state of a stream in the layout of `init_state(1)`, on the CPU."""
        time = self.time[slot : slot + 1].cpu()
        blocks = tuple(attention.read(slot, time.clone()) for attention in self.attentions)
        state = blocks[0] if isinstance(self.model, MultiheadAttention) else CascadeState(blocks)
        return state if self.recent is None else ModelState(state, self.recent[slot : slot + 1].to("cpu", copy=True))

    def write(self, slot: int, state: Any) -> None:
        """Set the state of a stream."""
        if isinstance(state, ModelState):
            assert self.recent is not None
            self.recent[slot : slot + 1] = state.recent.to(self.device)
            state = state.encoder
        blocks = state.blocks if isinstance(state, CascadeState) else (state,)
        for attention, block in zip(self.attentions, blocks, strict=True):
            attention.write(slot, block)
        self.time[slot] = int(blocks[0].time[0])

    def step(self, slots: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Step x [rows, r, input_dim], in the dtype of the model, and skip rows of slot −1.

        Returns:
            The outputs [rows, r, output_dim], zero in rows that are skipped, and whether the step was made: a bool
            tensor on the device. A row with a number that is not finite, and is not skipped, stops the whole step.
        """
        skipped = slots < 0
        accepted = (x.isfinite().flatten(1).all(1) | skipped).all()
        call = Call(slots, self.time, accepted)
        return torch.where((skipped | ~accepted)[:, None, None], 0.0, self._model_step(x, call)), accepted

    def _model_step(self, x: Tensor, call: Call) -> Tensor:
        model = self.model
        if isinstance(model, MultiheadAttention):
            (attend,) = self._attends(call)
            return attend(x)
        if isinstance(model, StreamEncoder):
            return self._encoded(x, call)
        rows = call.slots.clamp(min=0)
        time = call.time[rows]  # now, because the plans of the encoder count the tokens
        tokens = path = None
        if model.config.linear is not None:
            tokens = model._scaled(x)
            recent = tokens[:, :0] if self.recent is None else self.recent[rows]
            path = self._path.step(tokens, Recent(recent, time))
        y = self._encoded(model._embed(x, time, path), call)
        if self.recent is not None:
            assert tokens is not None
            scratch = len(self.recent) - 1
            into = torch.where((call.slots >= 0) & call.accepted, call.slots, scratch)
            self.recent[into, time % self.recent.shape[1]] = tokens[:, 0, : self.recent.shape[2]]
        return model._head(y, path)

    def _encoded(self, x: Tensor, call: Call) -> Tensor:
        encoder = self._encoder
        for block, attend in zip(encoder.blocks, self._attends(call), strict=True):
            x = block.finish(x, attend(block.attended(x)))
        return encoder.norm(x)

    def _attends(self, call: Call) -> Iterator[Any]:
        """For every attention, a function from its inputs [rows, r, E] to its outputs."""
        planners = {attention.plan_key: attention for attention in self.attentions}
        plans = {
            key: attention.plan(call, advance=number == len(planners))
            for number, (key, attention) in enumerate(planners.items(), 1)
        }
        for attention in self.attentions:
            plan = plans[attention.plan_key]
            yield lambda x, attention=attention, plan=plan: attention.module.out_proj(attention.step(x, call, plan))

    @property
    def _encoder(self) -> StreamEncoder:
        encoder: StreamEncoder = self.model.encoder if isinstance(self.model, StreamModel) else self.model
        return encoder

    @property
    def _path(self) -> Any:
        return self.model.linear

    @property
    def _looks_back(self) -> bool:
        return isinstance(self.model, StreamModel) and self.model._looks_back

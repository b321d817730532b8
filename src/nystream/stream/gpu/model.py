"""One step of a whole model: attention, norms and sums in kernels, the rest by the model's own layers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from nystream.layers.attention import MultiheadAttention
from nystream.layers.block import EncoderBlock
from nystream.layers.encoder import CascadeState, StreamEncoder
from nystream.layers.linear_path import ModelState
from nystream.models.stream_model import StreamModel
from nystream.stream.gpu import rows
from nystream.stream.gpu.attention import Attention
from nystream.stream.gpu.continual import ContinualAttention
from nystream.stream.gpu.full import FullAttention
from nystream.stream.gpu.landmarks import FixedAttention
from nystream.stream.gpu.launch import Call, Plan

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
        scaler = self.model.input_scaler if isinstance(self.model, StreamModel) else None
        x, refused = rows.entered(x.contiguous(), slots, scaler)
        y = self._model_step(x, Call(slots, self.time, refused))
        skipped = (slots < 0) | refused.bool()
        return torch.where(skipped[:, None, None], 0.0, y), refused == 0

    def _model_step(self, x: Tensor, call: Call) -> Tensor:
        model = self.model
        if isinstance(model, MultiheadAttention):
            (attend,) = self._attends(call)
            return attend(x)
        if isinstance(model, StreamEncoder):
            return self._encoded(x, rows.normed_sum(x, None, self._first_norm), call)
        tokens, path = x, None
        if model.config.linear is not None:
            slots = call.slots.clamp(min=0)
            time = call.time[slots]  # now, because the plans of the encoder advance it
            recent = tokens[:, :0] if self.recent is None else self.recent[slots]
            path = self._path.step(tokens, Recent(recent, time))
        x = model.input_proj(tokens)
        if path is not None and model._embeds_path:
            x = x + model.linear_embed(path.to(x.dtype))
        y = self._encoded(*rows.embedded(x, model.positions, call, self._first_norm), call)
        if self.recent is not None:
            scratch = len(self.recent) - 1
            into = torch.where((call.slots >= 0) & (call.refused == 0), call.slots, scratch)
            self.recent[into, time % self.recent.shape[1]] = tokens[:, 0, : self.recent.shape[2]]
        return model._head(y, path)

    def _encoded(self, x: Tensor, normed: Tensor, call: Call) -> Tensor:
        """The outputs of the encoder for x [rows, r, E] and `normed`, its first norm of x.

        As `EncoderBlock.finish`, in another order: a sum and the norm that follows it are one kernel.
        """
        encoder, blocks = self._encoder, self._encoder.blocks
        norms = [*(block.norm1 for block in list(blocks)[1:]), None]
        for block, attend, following in zip(blocks, self._attends(call), norms, strict=True):
            if block.pre_norm:
                x, normed = rows.add_norm(x, attend(normed), block.norm2)
                inner = _feed_forward(block, normed)
                if following is None:
                    return rows.normed_sum(x, inner, encoder.norm)
                x, normed = rows.add_norm(x, inner, following)
            else:
                x = rows.normed_sum(x, attend(x), block.norm1)
                x = rows.normed_sum(x, _feed_forward(block, x), block.norm2)
        return rows.normed_sum(x, None, encoder.norm)

    @property
    def _first_norm(self) -> nn.Module:
        first = self._encoder.blocks[0]
        return first.norm1 if first.pre_norm else nn.Identity()

    def _attends(self, call: Call) -> Iterator[Any]:
        """For every attention, a function from its inputs [rows, r, E] to its outputs.

        A plan is made when an attention needs it, just before the kernel that reads it. The last one advances
        the time of the streams.
        """
        last: Any = list(dict.fromkeys(attention.plan_key for attention in self.attentions))[-1]
        plans: dict[Any, Plan] = {}

        def plan(attention: Attention) -> Plan:
            key = attention.plan_key
            if key not in plans:
                plans[key] = attention.plan(call, advance=key == last)
            return plans[key]

        for attention in self.attentions:
            made = partial(plan, attention)
            yield lambda x, attention=attention, made=made: attention.module.out_proj(attention.step(x, call, made))

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


def _feed_forward(block: EncoderBlock, x: Tensor) -> Tensor:
    inner: Tensor = block.linear2(block.activation(block.linear1(x)))
    return inner

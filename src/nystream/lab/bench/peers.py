"""Other ways to run a Transformer on a stream, implemented as well as we can, with the weights of our model."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, scaled_dot_product_attention

from nystream.compat import to_continual
from nystream.lab.bench.contenders import Contender
from nystream.layers.block import EncoderBlock
from nystream.models.stream_model import StreamModel


class WindowRecompute(Contender):
    """nn.TransformerEncoder over the last n tokens, at every step.

    Tokens are stored twice, n places apart, so that every window is contiguous; positions likewise. `model` has
    full attention, and provides the weights.
    """

    name = "window recompute"

    def __init__(self, model: StreamModel) -> None:
        cfg = model.config
        self.model, self.blocks, self.encoder = model, len(cfg.blocks), torch_encoder(model)
        self.window, self.time = cfg.window, 0
        repeats = -(-2 * cfg.window // model.positions.num_positions)
        self.positions = model.positions.table.repeat(repeats + 1, 1)
        self.tokens = torch.zeros(1, 2 * cfg.window, cfg.input_dim)
        self.bytes_per_stream = self.tokens.nbytes

    def step(self, x: Tensor) -> Tensor:
        self._keep(x)
        first = self.time % self.window if self.time > self.window else 0
        rows = min(self.time, self.window)
        start = (self.time - rows) % self.model.positions.num_positions
        h = self.model.input_proj(self.tokens[:, first : first + rows]) + self.positions[start : start + rows]
        return self.model.head(self.model.encoder.norm(self.encoder(h)[:, -1]))

    def fill(self, x: Tensor) -> None:
        for token in x:
            self._keep(token)

    def _keep(self, x: Tensor) -> None:
        place = self.time % self.window
        self.tokens[0, place] = x
        self.tokens[0, place + self.window] = x
        self.time += 1


class RingCache(Contender):
    """A ring of keys and values, and scaled_dot_product_attention of the newest token over it.

    Queries, keys and values come from one product, both rings are one tensor [2, 1, H, n, D] that is written once, and
    nothing else is copied. `model` is a co-full-single model, one block or deep, and provides the weights.
    """

    name = "ring KV + SDPA"

    def __init__(self, model: StreamModel) -> None:
        cfg = model.config
        self.model, self.window, self.time = model, cfg.window, 0
        self.rings = [RingBlock(block) for block in model.encoder.blocks]
        self.blocks = len(self.rings)
        self.bytes_per_stream = sum(block.ring.nbytes for block in self.rings)

    def step(self, x: Tensor) -> Tensor:
        model, place, full = self.model, self.time % self.window, self.time >= self.window
        h = model.input_proj(x) + model.positions.table[self.time % model.positions.num_positions]
        for block in self.rings:
            h = block.step(h, place, self.window if full else place + 1)
        self.time += 1
        return model.head(model.encoder.norm(h))


class RingBlock:
    """One block with its own ring."""

    def __init__(self, block: EncoderBlock) -> None:
        attn = block.attention
        cfg = attn.config
        layers = (attn.q_proj, attn.k_proj, attn.v_proj)
        self.block, self.shape, self.width = block, (3, 1, cfg.num_heads, 1, cfg.head_dim), cfg.embed_dim
        self.weight = torch.cat([layer.weight for layer in layers])
        self.bias = torch.cat([layer.bias for layer in layers])
        self.ring = torch.zeros(2, 1, cfg.num_heads, cfg.window, cfg.head_dim)
        self.keys, self.values = self.ring

    def step(self, h: Tensor, place: int, rows: int) -> Tensor:
        """Store one token [1, E] at `place`, and attend to the first `rows` places of the ring."""
        block = self.block
        qkv = linear(block.norm1(h) if block.pre_norm else h, self.weight, self.bias).view(self.shape)
        self.ring[:, :, :, place : place + 1] = qkv[1:]
        keys, values = self.keys, self.values
        if rows < keys.shape[2]:
            keys, values = keys[:, :, :rows], values[:, :, :rows]
        out = scaled_dot_product_attention(qkv[0], keys, values).view(1, self.width)
        h = h + block.attention.out_proj(out)
        if not block.pre_norm:
            h = block.norm1(h)
        y = h + block.linear2(block.activation(block.linear1(block.norm2(h) if block.pre_norm else h)))
        return y if block.pre_norm else block.norm2(y)


class ContinualInference(Contender):
    """The package continual-inference: its co.TransformerEncoder between our input projection and head.

    `model` is a post-norm model with co-full attention, one block or a "paper" stack: what the package computes. Its
    encoder comes from `to_continual`, which also fixes the package's ring, which is wrong from token 2n − 1 on.
    """

    name = "continual-inference"

    def __init__(self, model: StreamModel) -> None:
        self.model, self.blocks, self.time = model, len(model.encoder.blocks), 0
        self.encoder = to_continual(model.encoder)

    @property
    def bytes_per_stream(self) -> int:  # type: ignore[override]
        """The size of all buffers of its modules, which it allocates during the stream."""
        return sum(buffer.nbytes for buffer in self.encoder.buffers())

    def step(self, x: Tensor) -> Tensor | None:
        model = self.model
        h = model.input_proj(x) + model.positions.table[self.time % model.positions.num_positions]
        self.time += 1
        y = self.encoder.forward_step(h)
        return model.head(y) if isinstance(y, Tensor) else None

    def output(self, y: Tensor | None) -> Tensor | None:
        return None if y is None else y[0]


def torch_encoder(model: StreamModel) -> nn.TransformerEncoder:
    """nn.TransformerEncoder with the blocks of a model with full attention; the final norm stays with the model."""
    cfg = model.config
    layer = nn.TransformerEncoderLayer(
        cfg.embed_dim,
        cfg.blocks[0].num_heads,
        cfg.ff_dim or cfg.embed_dim,
        dropout=0.0,
        activation=cfg.activation,
        layer_norm_eps=cfg.norm_eps,
        batch_first=True,
        norm_first=cfg.norm == "pre",
    )
    encoder = nn.TransformerEncoder(layer, len(cfg.blocks), enable_nested_tensor=False)
    for theirs, block in zip(encoder.layers, model.encoder.blocks, strict=True):
        attn = block.attention
        projections = (attn.q_proj, attn.k_proj, attn.v_proj)
        theirs.load_state_dict(
            {
                "self_attn.in_proj_weight": torch.cat([layer.weight for layer in projections]),
                "self_attn.in_proj_bias": torch.cat([layer.bias for layer in projections]),
            }
            | {f"self_attn.out_proj.{name}": x for name, x in attn.out_proj.state_dict().items()}
            | {
                f"{part}.{name}": x
                for part in ("linear1", "linear2", "norm1", "norm2")
                for name, x in getattr(block, part).state_dict().items()
            }
        )
    return encoder.eval().requires_grad_(False)

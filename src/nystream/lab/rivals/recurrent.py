"""A GRU or LSTM with the methods of `StreamModel`, so that it is trained, scored and streamed in the same way."""

from __future__ import annotations

import json
import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import nystream.state as states
from nystream import files
from nystream.config import json_text
from nystream.lab.rivals.config import RecurrentConfig
from nystream.layers import checks
from nystream.layers.scaler import Scaler
from nystream.models import weights_file
from nystream.models.find import CONFIG
from nystream.models.pretrained import WEIGHTS
from nystream.ops.ragged import keep_first, keep_last

CELL_WEIGHTS = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")  # of a layer, in the order of torch's cells


class RecurrentState(NamedTuple):
    """The state of B streams."""

    hidden: Tensor  # [B, layers, E]
    cell: Tensor  # [B, layers, E]; [B, 0, E] for a GRU, which has none


class RecurrentModel(nn.Module):
    """A recurrent network for streams: input scaler, linear projection, GRU or LSTM layers, head, output scaler.

    Example:
        >>> import torch
        >>> from nystream.lab.rivals import RecurrentConfig, RecurrentModel
        >>> config = RecurrentConfig(kind="gru", input_dim=5, output_dim=3, embed_dim=8, layers=2)
        >>> model = RecurrentModel(config).eval()
        >>> x = torch.randn(1, 12, 5)
        >>> y, state = model.steps(x, model.init_state(1))
        >>> y.shape
        torch.Size([1, 12, 3])
        >>> torch.allclose(y[:, -1], model(x), atol=1e-5)
        True
    """

    def __init__(
        self,
        config: RecurrentConfig,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(config, RecurrentConfig):
            raise TypeError(f"config is a {type(config).__name__}, but must be a RecurrentConfig")
        self.config = config
        width, layer = config.embed_dim, {"gru": nn.GRU, "lstm": nn.LSTM}[config.kind]
        self.input_scaler = Scaler(config.input_dim, device=device, dtype=dtype)
        self.input_proj = nn.Linear(config.input_dim, width, device=device, dtype=dtype)
        # One module per layer: the dropout inside a module of several layers is cuDNN's on a GPU. Its masks do not
        # follow torch's seed, so a resumed run would end with other weights.
        self.layers = nn.ModuleList(
            layer(width, width, batch_first=True, device=device, dtype=dtype) for _ in range(config.layers)
        )
        self.dropout = nn.Dropout(config.dropout)
        self.head = nn.Linear(width, config.output_dim, device=device, dtype=dtype)
        self.output_scaler = Scaler(config.output_dim, device=device, dtype=dtype)

    def forward(self, x: Tensor, offset: int | Tensor = 0, *, lengths: Tensor | None = None) -> Tensor:
        """Compute the output after the last token of new streams x [B, T, input_dim], as [B, output_dim].

        `offset` is ignored: there are no positions. `lengths` [B] is the number of tokens in each row; as in
        `StreamModel`, they are the last ones of its T positions.
        """
        self._check(x, lengths)
        if lengths is not None:  # moved to the start, where `_run` needs them
            place = torch.arange(x.shape[1], device=x.device) - lengths[:, None]
            x = keep_last(x, lengths).gather(1, (place % x.shape[1])[..., None].expand_as(x))
        _, state = self._run(x, self.init_state(x.shape[0]), lengths)
        y = self._head(self.dropout(state.hidden[:, -1]))
        return y if lengths is None else torch.where(lengths[:, None] > 0, y, 0.0)

    def init_state(self, batch_size: int = 1) -> RecurrentState:
        """Return the state of `batch_size` new streams."""
        layers, width = self.config.layers, self.config.embed_dim
        zeros = self.head.weight.new_zeros(2, batch_size, layers, width)
        return RecurrentState(zeros[0], zeros[1] if self.config.kind == "lstm" else zeros[1, :, :0])

    def step(self, x: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """Process one token x [B, input_dim] of each stream; return the output [B, output_dim] and the new state."""
        checks.tensor("x", x)
        if x.dim() != 2 or x.shape[1] != self.config.input_dim:
            raise ValueError(f"x is {list(x.shape)}, but step needs [B, {self.config.input_dim}]")
        checks.dtype(x, self.input_proj.weight)
        states.check(state, self.init_state(1), x.shape[0], type(self).__name__)
        return self.one_step(x, state)

    def one_step(self, x: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """`step` without checks. The cells are called directly: for one token, `nn.LSTM` is ten times slower."""
        current, hidden, memory = self._embed(x), [], []
        with self._in_full_precision():
            for place, layer in enumerate(self.layers):
                h = state.hidden[:, place]
                weights = [getattr(layer, name) for name in CELL_WEIGHTS]
                if self.config.kind == "gru":
                    h = torch.gru_cell(current, h, *weights)
                else:
                    h, c = torch.lstm_cell(current, (h, state.cell[:, place]), *weights)
                    memory.append(c)
                hidden.append(h)
                current = self.dropout(h)
        new = RecurrentState(torch.stack(hidden, 1), torch.stack(memory, 1) if memory else state.cell)
        return self._head(current), new

    def steps(
        self, x: Tensor, state: RecurrentState, *, lengths: Tensor | None = None, offset: int | Tensor = 0
    ) -> tuple[Tensor, RecurrentState]:
        """Process T tokens of a stream, with the outputs of `step` in a loop. Differentiable.

        Args:
            x: [B, T, input_dim].
            state: The result of `init_state`, `step` or `steps`. It is not modified.
            lengths: [B], the number of tokens in each row, at its start. Outputs beyond them are zero, and the new
                state is the one after them.
            offset: Ignored: there are no positions.

        Returns:
            The outputs [B, T, output_dim] and the new state.
        """
        self._check(x, lengths)
        states.check(state, self.init_state(1), x.shape[0], type(self).__name__)
        y, new = self._run(x if lengths is None else keep_first(x, lengths), state, lengths)
        y = self._head(y)
        return (y if lengths is None else keep_first(y, lengths)), new

    def outputs(
        self, x: Tensor, state: RecurrentState, *, lengths: Tensor | None = None, offset: int | Tensor = 0
    ) -> Tensor:
        """Return the outputs of `steps` without the new state, which is faster if rows have different lengths."""
        self._check(x, lengths)
        states.check(state, self.init_state(1), x.shape[0], type(self).__name__)
        y = self._head(self._run(x if lengths is None else keep_first(x, lengths), state, None)[0])
        return y if lengths is None else keep_first(y, lengths)

    def advance(
        self, x: Tensor, state: RecurrentState, *, lengths: Tensor | None = None, offset: int | Tensor = 0
    ) -> RecurrentState:
        """Return the new state of `steps`."""
        return self.steps(x, state, lengths=lengths, offset=offset)[1]

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write the model to a folder: `config.json` and `model.safetensors`."""
        from safetensors.torch import save_file

        tensors = {name: x.detach().contiguous().clone() for name, x in self.state_dict().items()}
        weights_file.check_values(tensors, "the model")
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        files.replace(path / WEIGHTS, lambda partial: save_file(tensors, partial, {"format": "pt"}))
        files.write_text(path / CONFIG, json.dumps({"recurrent": self.config.to_dict()}, indent=2) + "\n")

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str], *, device: torch.device | str = "cpu") -> RecurrentModel:
        """Load a model from a folder of `save_pretrained`, in eval mode."""
        from safetensors.torch import load_file

        path = Path(folder)
        for file in (CONFIG, WEIGHTS):
            if not (path / file).is_file():
                raise FileNotFoundError(f"{path} has no {file}; it is not a folder written by save_pretrained")
        try:
            fields = json_text.parse((path / CONFIG).read_text(encoding="utf-8"))
            config = RecurrentConfig.from_dict(fields["recurrent"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path / CONFIG} is not the config of a recurrent model: {error}") from error
        tensors = load_file(path / WEIGHTS, device=str(device))
        weights_file.check_values(tensors, os.fspath(path / WEIGHTS))
        model = cls(config, device=device, dtype=tensors["head.weight"].dtype)
        model.load_state_dict(tensors)
        return model.eval()

    def _check(self, x: Tensor, lengths: Tensor | None) -> None:
        checks.sequence("x", x, self.config.input_dim, "input_dim")
        checks.dtype(x, self.input_proj.weight)
        if lengths is not None:
            checks.row_counts("lengths", lengths, x.shape[0], x.shape[1], self.config)  # type: ignore[arg-type]

    def _run(self, x: Tensor, state: RecurrentState, lengths: Tensor | None) -> tuple[Tensor, RecurrentState]:
        """Outputs [B, T, E] of the last layer, and the state after the first `lengths` tokens of each row."""
        current, hidden, memory = self._embed(x), [], []
        counts = None if lengths is None else lengths.cpu().clamp(min=1)  # a packed row has at least one token
        with self._in_full_precision():
            for place, layer in enumerate(self.layers):
                h = state.hidden[:, place][None].contiguous()  # [1, B, E]
                start = h if self.config.kind == "gru" else (h, state.cell[:, place][None].contiguous())
                if counts is None:
                    current, end = layer(current, start)
                else:
                    packed = pack_padded_sequence(current, counts, batch_first=True, enforce_sorted=False)
                    packed, end = layer(packed, start)
                    current, _ = pad_packed_sequence(packed, batch_first=True, total_length=x.shape[1])
                hidden.append(end if self.config.kind == "gru" else end[0])
                memory += [] if self.config.kind == "gru" else [end[1]]
                current = self.dropout(current)
        new = RecurrentState(
            torch.cat(hidden).transpose(0, 1), torch.cat(memory).transpose(0, 1) if memory else state.cell
        )
        if lengths is not None:
            new = states.map_state(lambda a, b: torch.where(lengths[:, None, None] > 0, a, b), new, state)
        return current, new

    def _in_full_precision(self) -> AbstractContextManager[object]:
        """Without autocast, which would run the layers in float16 on a GPU, without scaling the loss."""
        device = self.head.weight.device.type
        return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()

    def _embed(self, x: Tensor) -> Tensor:
        return self.dropout(self.input_proj(self.input_scaler(x)).to(self.input_proj.weight.dtype))

    def _head(self, y: Tensor) -> Tensor:
        return self.output_scaler.restore(self.head(y))

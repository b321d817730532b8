import math
from typing import Any

import numpy as np
import pytest
import torch

import nystream as ns
from nystream.data.reader import LiveReader, RecordError, Token


class HourlyReader(LiveReader):
    """Records {"hour", "load"}; hours that are missing are filled with the last load, up to a limit."""

    def __init__(self) -> None:
        self.hour, self.load = None, math.nan

    def read(self, record: Any) -> list[Token]:
        if not isinstance(record, dict) or "hour" not in record:
            raise RecordError("no hour")
        before, hour = self.hour, int(record["hour"])
        if before is not None and hour <= before:
            return []  # one that comes late is skipped
        tokens = []
        for missing in range(before + 1 if before is not None else hour, hour):
            tokens.append(self._token(missing, self.load, gap=True))
        self.hour, self.load = hour, float(record["load"])  # NaN goes through: the session must refuse it
        return [*tokens, self._token(hour, self.load)]

    def _token(self, hour: int, load: float, gap: bool = False) -> Token:
        x = np.array([load, math.sin(hour), math.cos(hour)], np.float32)
        time = np.datetime64("2024-01-01T00", "s") + np.timedelta64(hour, "h")
        return Token(x, time, ("load",) if gap else (), gap, np.array([load, -load], np.float32))

    def memory(self) -> dict[str, Any]:
        return {"hour": self.hour, "load": None if math.isnan(self.load) else self.load}

    def remember(self, memory: dict[str, Any]) -> None:
        self.hour = memory["hour"]
        self.load = math.nan if memory["load"] is None else memory["load"]


@pytest.fixture
def hourly():
    """A new reader of each call."""
    return HourlyReader


@pytest.fixture
def make_model():
    """A small model of three inputs and two outputs."""

    def make(seed: int = 0, update_size: int = 1, **info: Any) -> ns.StreamModel:
        torch.manual_seed(seed)
        attention = ns.AttentionConfig(
            "co-cont-single", embed_dim=8, num_heads=2, window=6, landmarks=3, update_size=update_size
        )
        config = ns.ModelConfig(input_dim=3, output_dim=2, attention=attention)
        return ns.StreamModel(config, ns.ModelInfo(**info)).eval()

    return make


@pytest.fixture
def stepped():
    """What `model.step` gives for tokens [T, input_dim]: [T, output_dim]."""

    def step(model: ns.StreamModel, x: Any) -> np.ndarray:
        state, outputs = model.init_state(1), []
        with torch.no_grad():
            for row in torch.as_tensor(np.asarray(x, np.float32)):
                y, state = model.step(row[None], state)
                outputs.append(y[0].numpy())
        return np.stack(outputs)

    return step

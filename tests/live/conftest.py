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
        self.state = None, math.nan  # the last hour, its load

    def read(self, record: Any) -> list[Token]:
        if not isinstance(record, dict) or "hour" not in record:
            raise RecordError("no hour")
        (before, load), hour = self.state, int(record["hour"])
        self.note, self.lost = "", 0
        if before is not None and hour <= before:
            self.note, self.lost = "it comes late", 1
            return []
        tokens = []
        for missing in range(before + 1 if before is not None else hour, hour):
            tokens.append(self._token(missing, load, gap=True))
        self.state = hour, float(record["load"])  # NaN goes through: the session must refuse it
        return [*tokens, self._token(*self.state)]

    def _token(self, hour: int, load: float, gap: bool = False) -> Token:
        x = np.array([load, math.sin(hour), math.cos(hour)], np.float32)
        time = np.datetime64("2024-01-01T00", "s") + np.timedelta64(hour, "h")
        return Token(x, time, ("load",) if gap else (), gap, np.array([load, -load]))

    def memory(self) -> dict[str, Any]:
        hour, load = self.state
        return {"hour": hour, "load": None if math.isnan(load) else load}

    def remember(self, memory: dict[str, Any]) -> None:
        self.state = memory["hour"], math.nan if memory["load"] is None else memory["load"]

    def check(self, columns: Any, width: int) -> None:
        if columns is not None and "hour" not in columns:
            raise ValueError("no hour")

    def ahead(self, time: Any, rows: int) -> Any:
        return time + np.timedelta64(rows, "h")


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

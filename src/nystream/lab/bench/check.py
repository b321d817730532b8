"""Correctness before speed: every contender is compared with the float64 model, and a wrong one stops the run."""

from __future__ import annotations

import torch
from torch import Tensor

import nystream.testing as testing
from nystream.lab.bench.contenders import Contender
from nystream.lab.bench.sizes import double
from nystream.models.stream_model import StreamModel

MAX_WHOLE = 400  # windows up to this length are checked at every step; for longer ones, at both ends of the stream
NUM_ENDS = 32  # steps at either end
TOLERANCE = testing.TOLERANCE[torch.float32]
LIGHT = {"bfloat16": 0.02, "int8": 0.06}  # tolerances of a block with such weights


class WrongNumbersError(RuntimeError):
    """A contender does not compute what it should."""


def checked_tokens(window: int) -> int:
    """Length of the stream for the check: longer than warm-up and a full turn of the ring."""
    return 2 * window + 9 if window <= MAX_WHOLE else window + 2 * NUM_ENDS


def expected(model: StreamModel, x: Tensor) -> Tensor:
    """[T, output_dim]: the outputs of the float64 model for the stream x [T, input_dim]."""
    exact = double(model)
    return exact.steps(x[None].double(), exact.init_state(1))[0][0]


def outputs(contender: Contender, x: Tensor, window: int) -> dict[int, Tensor]:
    """Stream x [T, input_dim], and return the outputs to check by their place in the stream."""
    by_place = {}
    last = len(x) - NUM_ENDS
    place = 0
    while place < len(x):
        if window > MAX_WHOLE and place == NUM_ENDS:
            contender.fill(x[place:last])
            place = last
        y = contender.output(contender.step(*contender.arguments(x[place])))
        if y is not None:
            by_place[place] = y.double().clone()
        place += 1
    return by_place


def compare(
    name: str,
    outputs: dict[int, Tensor],
    wanted: Tensor,
    than: str = "the float64 model",
    blocks: int = 1,
    tolerance: float = TOLERANCE,
) -> float:
    """The largest error relative to the largest output; raises if it is too large. Every block adds rounding errors."""
    if not outputs:
        raise WrongNumbersError(f"{name} gave no output in {len(wanted)} steps; it cannot be compared with {than}")
    places = list(outputs)
    error = testing.relative_error(torch.stack([outputs[place] for place in places]), wanted[places])
    return refuse(name, error, than, blocks, tolerance)


def refuse(
    name: str, error: float, than: str = "the float64 model", blocks: int = 1, tolerance: float = TOLERANCE
) -> float:
    """Return the error, or raise if it is more than rounding."""
    if not error <= tolerance * blocks:  # also if it is NaN
        raise WrongNumbersError(
            f"{name} differs from {than} by {error:.1e} of the largest output, but rounding explains at most "
            f"{tolerance * blocks:.0e}; nothing was timed"
        )
    return error

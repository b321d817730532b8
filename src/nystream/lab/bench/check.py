"""Correct before fast: every contender against the float64 model, and one that is wrong stops the run."""

from __future__ import annotations

import torch
from torch import Tensor

import nystream.testing as testing
from nystream.lab.bench.contenders import Contender
from nystream.lab.bench.sizes import double
from nystream.models.stream_model import StreamModel

WHOLE = 400  # windows up to this one are checked at every step; of longer ones, the ends of the stream
ENDS = 32
TOLERANCE = testing.TOLERANCE[torch.float32]


class WrongNumbersError(RuntimeError):
    """A contender does not compute what it is compared for."""


def checked_tokens(window: int) -> int:
    """How long a stream is that shows whether a contender is right: past warm-up and once round the ring."""
    return 2 * window + 9 if window <= WHOLE else window + 2 * ENDS


def expected(model: StreamModel, x: Tensor) -> Tensor:
    """[T, output_dim]: what the float64 model says about the stream x [T, input_dim]."""
    exact = double(model)
    return exact.steps(x[None].double(), exact.init_state(1))[0][0]


def outputs(contender: Contender, x: Tensor, window: int) -> dict[int, Tensor]:
    """Stream x [T, input_dim]; the outputs by place, where the contender gives them and they are looked at."""
    found = {}
    last = len(x) - ENDS
    place = 0
    while place < len(x):
        if window > WHOLE and place == ENDS:
            contender.fill(x[place:last])
            place = last
        y = contender.output(contender.step(*contender.arguments(x[place])))
        if y is not None:
            found[place] = y.double().clone()
        place += 1
    return found


def compare(
    name: str, found: dict[int, Tensor], wanted: Tensor, than: str = "the float64 model", blocks: int = 1
) -> float:
    """The largest error, relative to the largest output; too large a one is an error. Each block adds its rounding."""
    if not found:
        raise WrongNumbersError(f"{name} gave no output in {len(wanted)} steps; it was to be compared with {than}")
    places = list(found)
    error = testing.relative_error(torch.stack([found[i] for i in places]), wanted[places])
    return refuse(name, error, than, blocks)


def refuse(name: str, error: float, than: str = "the float64 model", blocks: int = 1) -> float:
    """The error, if it is small enough."""
    if not error <= TOLERANCE * blocks:  # a NaN is too large as well
        raise WrongNumbersError(
            f"{name} is off by {error:.1e} of the largest output from {than}, and at most {TOLERANCE * blocks:.0e} "
            f"is rounding; nothing was timed"
        )
    return error

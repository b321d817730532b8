"""The configuration of a model's linear path."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from nystream.config.checks import boolean, fields_of, size

MAX_SEGMENTS = 2**16  # segments are Python objects: a typo must not create them until memory runs out


class Run(NamedTuple):
    """Adjacent segments of one length."""

    age: int  # of the newest token of the first of them; the newest token of all has age 0
    length: int
    repeats: int


@dataclass(frozen=True, kw_only=True)
class LinearConfig:
    """The configuration of a linear path, from the last tokens of a stream directly to the output.

    Args:
        segments: Lengths of adjacent segments of the last tokens, newest first. The first is 1, the newest token alone.
            An integer p stands for p single tokens. At most 65,536 segments.
        inputs: Of every segment after the first, the path reads the mean over its tokens of their first `inputs`
            numbers. Default: of all numbers. Of the newest token, it always reads all.
        embedded: Whether the output of the path is also an input of the Transformer: projected to the width of the
            embedded token, and added to it.

    Example:
        >>> import nystream as ns
        >>> path = ns.LinearConfig(segments=(1, 3, 28), inputs=2)
        >>> path.tokens, path.features(input_dim=5)
        (32, 9)
        >>> ns.LinearConfig(segments=4).segments
        (1, 1, 1, 1)
    """

    segments: int | tuple[int, ...] = (1,)
    inputs: int | None = None
    embedded: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "segments", _lengths(self.segments))
        size("the sum of segments", self.tokens)
        if self.inputs is not None:
            size("inputs", self.inputs)
        boolean("embedded", self.embedded)

    @property
    def lengths(self) -> tuple[int, ...]:
        """The lengths of all segments, newest first."""
        assert isinstance(self.segments, tuple)
        return self.segments

    @property
    def tokens(self) -> int:
        """Number of tokens that the path reads."""
        return sum(self.lengths)

    @property
    def runs(self) -> tuple[Run, ...]:
        """The segments after the first, those of one length together."""
        age, runs = 1, []
        for length, group in groupby(self.lengths[1:]):
            runs.append(Run(age, length, len(list(group))))
            age += length * runs[-1].repeats
        return tuple(runs)

    def width(self, input_dim: int) -> int:
        """Numbers that are read of each token before the newest."""
        return input_dim if self.inputs is None else self.inputs

    def features(self, input_dim: int) -> int:
        """Number of features: `input_dim` of the newest token, and `inputs` of every later segment."""
        return input_dim + (len(self.lengths) - 1) * self.width(input_dim)

    def to_dict(self) -> dict[str, Any]:
        """The fields; single tokens alone as their number, so that files stay short."""
        singles = self.tokens == len(self.lengths)
        return dataclasses.asdict(self) | {"segments": self.tokens if singles else list(self.lengths)}

    @classmethod
    def from_dict(cls, fields: Any, where: str = "config.linear") -> LinearConfig:
        """Create the config from the result of `to_dict`, possibly read from JSON. Unknown fields are errors."""
        return cls(**fields_of(cls, fields, where))


def _lengths(segments: object) -> tuple[int, ...]:
    """Check `segments`, and return the lengths of all."""
    if isinstance(segments, list | tuple):
        size("the number of segments", len(segments), MAX_SEGMENTS)
        for place, length in enumerate(segments):
            size(f"segments[{place}]", length)
        if segments[0] != 1:
            raise ValueError(f"segments[0]={segments[0]} must be 1: the newest token is a segment by itself")
        return tuple(segments)
    size("segments", segments, MAX_SEGMENTS)
    assert isinstance(segments, int)
    return (1,) * segments

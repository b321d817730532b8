"""What becomes of the records of one call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from nystream.data.reader import RecordError
from nystream.live.answers import Answer

Outcome = list[Answer] | RecordError


class Taken(Sequence[Outcome]):
    """For each record of a call, the list of its answers, or the RecordError if it could not be taken in.

    A sequence that makes the answers of a record when they are asked for: thousands of objects that nobody looks at
    would take longer than the model. `list(taken)` has all of them.
    """

    def __init__(self, count: int) -> None:
        self._outcomes: dict[int, Outcome] = {}  # by place
        self._makers: list[Callable[[int], list[Answer]]] = []
        self._maker = np.full(count, -1)  # [count], which of them makes the answers; -1 if none does
        self._number = np.zeros(count, np.int64)  # [count], which of its records this is

    def put(self, place: int, outcome: Outcome) -> None:
        """Set what became of a record."""
        self._outcomes[place] = outcome

    def put_many(self, places: NDArray[np.int64], make: Callable[[int], list[Answer]]) -> None:
        """Set what became of several records: the answers of the i-th of them are `make(i)`."""
        self._maker[places], self._number[places] = len(self._makers), np.arange(len(places))
        self._makers.append(make)

    def is_taken(self, place: int) -> bool:
        """Whether a record was taken in."""
        return bool(self._maker[place] >= 0) or isinstance(self._outcomes.get(place), list)

    @property
    def errors(self) -> dict[int, RecordError]:
        """The errors of records that could not be taken in, by place."""
        return {place: error for place, error in self._outcomes.items() if isinstance(error, RecordError)}

    def __len__(self) -> int:
        return len(self._maker)

    @overload
    def __getitem__(self, place: int) -> Outcome: ...

    @overload
    def __getitem__(self, place: slice) -> list[Outcome]: ...

    def __getitem__(self, place: int | slice) -> Outcome | list[Outcome]:
        if isinstance(place, slice):
            return [self[i] for i in range(len(self))[place]]
        place = range(len(self))[place]
        if place not in self._outcomes:
            self._outcomes[place] = self._makers[self._maker[place]](int(self._number[place]))
        return self._outcomes[place]

    def __iter__(self) -> Iterator[Outcome]:
        outcomes, makers = self._outcomes, zip(self._maker.tolist(), self._number.tolist(), strict=True)
        for place, (maker, number) in enumerate(makers):
            if place not in outcomes:
                outcomes[place] = self._makers[maker](number)
            yield outcomes[place]

    def __repr__(self) -> str:
        return repr(list(self))

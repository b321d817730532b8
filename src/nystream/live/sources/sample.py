"""The demand of electricity that comes with the package, as lines of CSV: a source for the packaged model."""

from __future__ import annotations

from collections.abc import Iterator

from nystream.data.sample import csv_lines
from nystream.live.sources.formats import Parser
from nystream.live.sources.lines import LineSource
from nystream.live.sources.source import Raw

NAME = "sample"
SHARE = 0.1  # of the hours, the last ones: the packaged model was not trained on them


class Sample(LineSource):
    """The last hours of the sample."""

    def __init__(self) -> None:
        super().__init__(NAME, "csv")

    def items(self) -> Iterator[Raw]:
        self._parser = Parser("csv")
        for line in csv_lines(SHARE):
            yield line.encode()

    def pass_over(self, raw: Raw) -> None:
        if not self._parser.begun:
            self.record(raw)

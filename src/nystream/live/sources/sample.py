"""The demand of electricity that comes with the package, as lines of CSV: a source for the packaged model."""

from __future__ import annotations

from collections.abc import Iterator

from nystream.lab.tasks.electricity import sample
from nystream.live.sources.formats import Parser
from nystream.live.sources.lines import LineSource
from nystream.live.sources.source import Raw

NAME = "sample"
SHARE = 0.1  # of the hours, the last ones: the packaged model was not trained on them


def csv_lines(share: float = 1.0) -> Iterator[str]:
    """A header, then the last share of the hours: time, the demand of every area, their total; megawatts."""
    series = sample()
    yield ",".join(["time", *series.names, "total"])
    total = series.total()
    for row in range(len(series) - round(share * len(series)), len(series)):
        values = [*series.values[row], total[row]]
        yield ",".join([str(series.time[row]), *(f"{value:.0f}" for value in values)])


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

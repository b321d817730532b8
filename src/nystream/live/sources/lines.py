"""Lines of text: from standard input, from a file that may still grow, or from the sample of the package."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from nystream.data.reader import RecordError
from nystream.data.sample import csv_lines
from nystream.live.sources.formats import MAX_LINE, Format, Parser
from nystream.live.sources.source import Raw, Shape, Source

LINE_ENDS = b"\r\n"
POLL_SECONDS = 0.1  # between checks of a file that may grow
SAMPLE = "sample"
SAMPLE_SHARE = 0.1  # of the hours, the last ones, on which the packaged model was not trained


class LineSource(Source):
    """Each line is a record."""

    unit = "line"

    def __init__(self, name: str, form: Format, skip_lines: int = 0) -> None:
        self.name = name
        self._parser = Parser(form, skip_lines)
        self._form, self._skip_lines = form, skip_lines

    def record(self, raw: Raw) -> Any:
        assert isinstance(raw, bytes)
        return self._parser.parse(raw)

    def shape(self) -> Shape | None:
        return self._parser.shape

    def replay(self, raw: Raw) -> None:
        if not self._parser.begun:
            with contextlib.suppress(RecordError):  # it was reported when it was first read
                self.record(raw)

    def memory(self) -> dict[str, Any]:
        return self._parser.memory()

    def remember(self, memory: dict[str, Any] | None) -> None:
        if memory is not None:
            self._parser.remember(memory)

    def lines(self, file: BinaryIO, wait: Callable[[], bool] = lambda: False) -> Iterator[bytes]:
        """Yield lines without their ends; a line that is too long is cut, but stays too long.

        At the end of the file, `wait` says whether there may be more. Until there is, an incomplete line is held back.
        """
        line = b""
        while True:
            piece = file.readline(MAX_LINE)
            line = (line + piece)[: MAX_LINE + len(LINE_ENDS) + 1] if line else piece
            if piece.endswith(b"\n") or (not piece and line and not wait()):
                self.unfinished = not piece
                yield line.removesuffix(b"\n").removesuffix(b"\r")
                line = b""
            elif not piece and not line and not wait():
                return


class PipedLines(LineSource):
    """Lines from standard input ("-") or a named pipe."""

    again = False

    def items(self) -> Iterator[Raw]:
        if self.name != "-":
            with open(self.name, "rb") as pipe:
                yield from self.lines(pipe)
        elif sys.stdin is None:
            raise OSError("standard input is closed, so there is nothing to read")
        else:
            yield from self.lines(sys.stdin.buffer)


class LineFile(LineSource):
    """The lines of a file; with `follow`, also those that are appended later."""

    def __init__(self, path: Path, form: Format = "auto", follow: bool = False, skip_lines: int = 0) -> None:
        super().__init__(os.fspath(path.resolve()), form, skip_lines)
        self.path, self.follow = path, follow

    def items(self) -> Iterator[Raw]:
        self._parser = Parser(self._form, self._skip_lines)
        with self.path.open("rb") as file:
            yield from self.lines(file, lambda: self._wait(file))

    def _wait(self, file: BinaryIO) -> bool:
        """At the end of the file, wait a little; whether there may be more."""
        if self.follow:
            if os.fstat(file.fileno()).st_size < file.tell():
                raise OSError(f"{self.path} was truncated while it was read")
            time.sleep(POLL_SECONDS)
        return self.follow


class SampleLines(LineSource):
    """The last hours of the sample data set, as CSV: a source for the packaged model."""

    def __init__(self) -> None:
        super().__init__(SAMPLE, "csv")

    def items(self) -> Iterator[Raw]:
        self._parser = Parser(self._form)
        for line in csv_lines(SAMPLE_SHARE):
            yield line.encode()

"""Lines of text: of standard input, or of a file that may still grow."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from nystream.data.reader import RecordError
from nystream.live.sources.formats import LONGEST, Format, Parser
from nystream.live.sources.source import Raw, Shape, Source

ENDS = b"\r\n"
POLL = 0.1  # seconds between two looks at a file that may grow


class LineSource(Source):
    """Each line is a record."""

    unit = "line"

    def __init__(self, name: str, form: Format) -> None:
        self.name = name
        self._parser = Parser(form)
        self._form = form

    def record(self, raw: Raw) -> Any:
        assert isinstance(raw, bytes)
        return self._parser.parse(raw)

    def shape(self) -> Shape | None:
        return self._parser.shape

    def memory(self) -> dict[str, Any]:
        return self._parser.memory()

    def remember(self, memory: dict[str, Any] | None) -> None:
        if memory is not None:
            self._parser.remember(memory)

    def lines(self, file: BinaryIO, wait: Callable[[], bool] = lambda: False) -> Iterator[bytes]:
        """Lines without their ends; of one that is too long, only as much as shows that.

        `wait` says, at the end, whether there may be more. Until there is, a line that has no end is not given.
        """
        held = b""
        while True:
            piece = file.readline(LONGEST)
            held = (held + piece)[: LONGEST + len(ENDS) + 1] if held else piece
            if piece.endswith(b"\n") or (not piece and held and not wait()):
                self.unfinished = not piece
                yield held.removesuffix(b"\n").removesuffix(b"\r")
                held = b""
            elif not piece and not held and not wait():
                return


class PipedLines(LineSource):
    """Lines as they come, of standard input ("-") or of a pipe that has a name."""

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
    """Lines of a file; with `follow`, also those that are written to it later."""

    def __init__(self, path: Path, form: Format = "auto", follow: bool = False) -> None:
        super().__init__(os.fspath(path.resolve()), form)
        self.path, self.follow = path, follow

    def items(self) -> Iterator[Raw]:
        self._parser = Parser(self._form)
        with self.path.open("rb") as file:
            yield from self.lines(file, lambda: self._wait(file))

    def pass_over(self, raw: Raw) -> None:
        if not self._parser.begun:
            with contextlib.suppress(RecordError):  # which was reported when it was read
                self.record(raw)

    def _wait(self, file: BinaryIO) -> bool:
        """At the end: whether there may be more, after a while."""
        if self.follow:
            if os.fstat(file.fileno()).st_size < file.tell():
                raise OSError(f"{self.path} has become shorter while it was read")
            time.sleep(POLL)
        return self.follow

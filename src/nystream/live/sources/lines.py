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
from nystream.live.sources.source import Raw, Source

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

    def memory(self) -> dict[str, Any]:
        return self._parser.memory()

    def remember(self, memory: dict[str, Any] | None) -> None:
        if memory is not None:
            self._parser.remember(memory)


class PipedLines(LineSource):
    """Lines as they come, of standard input ("-") or of a pipe that has a name."""

    again = False

    def items(self) -> Iterator[Raw]:
        if self.name != "-":
            with open(self.name, "rb") as pipe:
                yield from lines(pipe, lambda: False, lambda: False)
        elif sys.stdin is None:
            raise OSError("standard input is closed, so there is nothing to read")
        else:
            yield from lines(sys.stdin.buffer, lambda: False, lambda: False)


class LineFile(LineSource):
    """Lines of a file; with `follow`, also those that are written to it later."""

    def __init__(self, path: Path, form: Format = "auto", follow: bool = False) -> None:
        super().__init__(os.fspath(path.resolve()), form)
        self.path, self.follow = path, follow

    def items(self) -> Iterator[Raw]:
        self._parser = Parser(self._form)
        with self.path.open("rb") as file:
            yield from lines(file, lambda: self.follow, lambda: self._wait(file))

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


def lines(file: BinaryIO, partial: Callable[[], bool], wait: Callable[[], bool]) -> Iterator[bytes]:
    """Lines without their ends; of one that is too long, only as much as shows that.

    `partial` says whether a line that has no end yet may still get one, `wait` whether to look again at the end.
    """
    held, begun = b"", False
    while True:
        piece = file.readline(LONGEST)
        if piece:
            held, begun = (held + piece)[: LONGEST + len(ENDS) + 1], True
        if piece.endswith(b"\n") or (begun and not piece and not partial()):
            yield held.removesuffix(b"\n").removesuffix(b"\r")
            held, begun = b"", False
        elif not piece and not wait():
            return

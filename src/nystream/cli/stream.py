"""`nystream stream`: follow a live source with a trained model."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tyro.conf import Positional

from nystream.cli.errors import as_options
from nystream.cli.options import AS_TRAINED
from nystream.config import ModelInfo
from nystream.config.checks import positive_int
from nystream.config.option import option
from nystream.data.reader import Policy, reader_from_dict
from nystream.data.sounds import SoundReader
from nystream.data.table import counted
from nystream.data.table_reader import TableReader
from nystream.files import require_writable
from nystream.live import saving
from nystream.live.output import HumanLines, JsonLines, Printer
from nystream.live.readers import gaps_when_skipping
from nystream.live.run import Count, Keeper, OnError, follow
from nystream.live.series_session import SeriesSession
from nystream.live.session import Session, live_reader
from nystream.live.sources import Feed, Format, Source, open_source
from nystream.models import StreamModel
from nystream.models.find import folder_of

SAVE_INTERVAL = 100  # tokens


@dataclass
class Stream:
    """Follow a live source: print one line per token as it arrives, with forecasts and classes in the units and names
    of the training data.

    Examples:
        nystream stream demand sample --human       # both come with the package
        nystream stream runs/load load.csv --follow --save-state load.state
        tail -n +1 -f load.csv | nystream stream runs/load -
    """

    model: Positional[str] = option(
        help="A run folder, a model folder, or demand: a small model that comes with the package.", metavar="MODEL"
    )
    source: Positional[str] = option(
        help="- for lines on standard input; a file (.jsonl, .csv, .parquet, .npy, .npz, or sound such as .wav); a "
        "folder of tables, feature or audio files, each a separate stream; mic for the microphone; or sample: hours of "
        "electricity demand that come with the package.",
        metavar="SOURCE",
    )
    format: Format = option(
        "auto",
        "Format of lines: JSON objects or arrays, or CSV, with a header (needed for tables) or only numbers. auto "
        "decides by the first line.",
    )
    skip_lines: int = option(0, "Number of lines before the header or the first record.", "N")
    json: bool = option(False, "Print JSON lines, as in a pipe.")
    human: bool = option(False, "Print human-readable lines, as on a terminal.")
    latency: bool = option(False, "Print how many microseconds each step of the model took.")
    missing: Policy | None = option(
        None,
        "How to treat empty fields: fail (see --on-error), fill with the last value, or skip the record. Before the "
        "first value, fill uses a typical value of the training data, and drops records without a target.",
        "fail|fill|skip",
        AS_TRAINED,
    )
    gaps: Policy | None = option(
        None,
        "How to treat gaps in time: fail (needs --on-error fail), fill with the last values, or skip the gap. If "
        "training used fail, gaps are filled, because every bad record that is skipped leaves one.",
        "fail|fill|skip",
        AS_TRAINED,
    )
    on_error: OnError = option(
        "skip", "Report a record that cannot be read and skip it, or end the run with exit code 2."
    )
    save_state: Path | None = option(
        None, "Save the session to this file, atomically: every few tokens, once a second, and at the end.", "FILE"
    )
    load_state: Path | None = option(
        None,
        "Resume the session from this file. A source that is a file continues after the last record that was read. If "
        "this is also the --save-state file, it need not exist yet.",
        "FILE",
    )
    every: int | None = option(
        None,
        "Tokens between two saves. If the process is killed, answers since the last save are repeated on resuming.",
        "N",
        f"{SAVE_INTERVAL}; of several series, once a second or less often",
    )
    limit: int | None = option(None, "Stop after this many records.")
    follow: bool = option(False, "At the end of the file, wait for more lines.")
    backend: Literal["auto", "numba", "torch"] = option(
        "auto", "Backend that steps the model: compiled for the CPU, or torch."
    )

    def run(self) -> None:
        self.check()
        model = StreamModel.from_pretrained(folder_of(self.model))
        records = live_reader(model, self.missing, self.gaps_of(model.info))
        reader = None if model.info.reader is None else reader_from_dict(model.info.reader)
        source = open_source(self.source, self.format, self.follow, rate_of(model.info), self.skip_lines, reader)
        series = reader.series if isinstance(reader, TableReader) else None
        if series is None:
            session = Session(model, records, self.backend)
        else:
            session = SeriesSession(model, series, records, self.backend)
        feed = self.feed(session, source)
        keeper = None
        if self.save_state is not None:
            usual = SAVE_INTERVAL if series is None else sys.maxsize  # the more series, the larger the file
            keeper = Keeper(self.save_state, session, self.every or usual, feed.position)
        if self.source == "-" and sys.stdin is not None and sys.stdin.isatty():
            say("reading lines from the terminal: JSON, or CSV with a header; Ctrl-D ends")
        options: dict[str, Any] = {"on_error": self.on_error, "limit": self.limit, "keeper": keeper, "report": say}
        count = Count()
        try:
            follow(session, feed, self.printer(series or "series"), count=count, **options)
        except KeyboardInterrupt as stop:
            self.tell(count, source)
            raise type(stop)(self.left_at(keeper)) from stop
        self.sum_up(count, source, resumed=feed.resumed)

    def left_at(self, keeper: Keeper | None) -> str:
        """Where a stream that was stopped is saved, and how to resume it."""
        if keeper is None:
            return "the session was not saved: --save-state FILE saves it"
        saved = f"the session of {counted(keeper.saved_tokens, 'token')} is saved in {keeper.path}"
        return f"{saved}; --load-state {keeper.path} resumes it"

    def sum_up(self, count: Count, source: Source, resumed: bool) -> None:
        """Report what was skipped; raise ValueError if there was no answer."""
        every = count.taken + count.skipped
        name, records = "standard input" if self.source == "-" else self.source, counted(every, source.unit)
        if not count.answers and not resumed:
            for reason in count.reasons:
                say(reason)
            if count.skipped and count.skipped == every:
                raise ValueError(f"none of {records} of {name} could be read")
            raise ValueError(f"{name} has {f'{records}, which give no token' if every else f'no {source.unit}s'}")
        self.tell(count, source)
        if resumed and not every:
            say(f"nothing new in {name}")

    def tell(self, count: Count, source: Source) -> None:
        """Report how many records were skipped or dropped, and why, and how many answers are not finite."""
        records = counted(count.taken + count.skipped, source.unit)
        for reason in count.reasons:
            say(reason)
        for what, number in (("skipped", count.skipped), ("dropped", count.dropped)):
            if number:
                say(f"{number:,} of {records} {what}")
        if count.not_finite:
            say(f"{count.not_finite:,} of {counted(count.answers, 'answer')} not finite")

    def check(self) -> None:
        """Raise if the options cannot work together."""
        if self.json and self.human:
            raise ValueError("json and human are both set; give one of them")
        if self.every is not None:
            positive_int("every", self.every)
            if self.save_state is None:
                raise ValueError(f"every={self.every} is for --save-state, which is not given")
        if self.limit is not None:
            positive_int("limit", self.limit)
        if self.save_state is not None:
            require_writable("save-state", self.save_state)
            saving.require_free(self.save_state, self.source)

    def gaps_of(self, info: ModelInfo) -> Policy | None:
        """The policy for gaps."""
        if self.on_error == "fail":
            return self.gaps
        try:
            return gaps_when_skipping(info, self.gaps)
        except ValueError as error:
            raise ValueError(
                "--gaps fail needs --on-error fail: otherwise no record after a gap could be read"
            ) from error

    def feed(self, session: Session, source: Source) -> Feed:
        """The records to read; the session is restored if it is to be resumed."""
        path = self.load_state
        if path is None or (saving.same_file(path, self.save_state) and not path.exists()):
            return Feed(source)
        feed = Feed(source, saving.load(path, session))
        done = feed.position.items
        place = f"after {source.unit} {done}" if done else "at the beginning"
        place = f"{place} of {self.source}" if source.again else "with new records"
        say(f"resuming {place}, with token {session.tokens + 1}")
        return feed

    def printer(self, series: str) -> Printer:
        if self.json or not (self.human or sys.stdout.isatty()):
            return JsonLines(sys.stdout, self.latency, series)
        return HumanLines(sys.stdout, self.latency)


def rate_of(info: ModelInfo) -> int | None:
    """Sample rate of a model's audio; None if it does not read audio."""
    if info.reader is None or info.reader["kind"] != "audio":
        return None
    reader = reader_from_dict(info.reader)
    assert isinstance(reader, SoundReader)
    return reader.rate


def say(message: str) -> None:
    """Print one line to standard error."""
    print("nystream:", *as_options(message).split(), file=sys.stderr, flush=True)

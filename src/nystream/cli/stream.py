"""`nystream stream`: a trained model follows a live source."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from nystream.cli.options import usual
from nystream.config import ModelInfo
from nystream.config.checks import positive_int
from nystream.data.reader import Policy, reader_from_dict
from nystream.data.sounds import SoundReader
from nystream.data.table import counted
from nystream.data.table_reader import TableReader
from nystream.files import require_writable
from nystream.live import models, saving
from nystream.live.output import HumanLines, JsonLines, Printer
from nystream.live.run import Count, Keeper, OnError, follow
from nystream.live.session import Session, live_reader
from nystream.live.sources import Feed, Format, Source, open_source

EVERY = 100  # tokens between two saves, unless told


@dataclass
class Stream:
    """Follow a live source: one line for every token as it comes, forecasts and classes in the units and names of the
    data the model was trained on.

    Examples:
        nystream stream demand sample --human       # both come with the package
        nystream stream runs/load load.csv --follow --save-state load.state
        tail -n +1 -f load.csv | nystream stream runs/load -
    """

    model: Annotated[Positional[str], arg(metavar="MODEL")]
    """A run folder, a model folder, or demand: a small model that comes with the package."""
    source: Annotated[Positional[str], arg(metavar="SOURCE")]
    """- for lines on standard input; a file (.jsonl, .csv, .parquet, .npy, .npz, or sound such as .wav); a folder of
    feature or audio files, each a stream of its own; mic for the microphone; or sample: hours of demand that come with
    the package."""
    format: Format = "auto"
    """Of lines: JSON objects or arrays, or CSV, with a header (which a table needs) or numbers alone. auto goes by the
    first line."""
    json: bool = False
    """JSON lines, as in a pipe."""
    human: bool = False
    """Lines to be read, as on a terminal."""
    latency: bool = False
    """Say how many microseconds the model's step took."""
    missing: Annotated[Policy | None, usual("as in training", "fail|fill|skip")] = None
    """Fields that are empty: fail, as on-error says, fill with the last value (before there is one, with what was usual
    in training; without a target to forecast from, records are left out), or skip the record."""
    gaps: Annotated[Policy | None, usual("as in training", "fail|fill|skip")] = None
    """Rows that are missing in time: fail (which needs --on-error fail), fill with the last values, or skip: pass over
    the gap. Where training had none, they are filled, since bad records that are skipped leave gaps."""
    on_error: OnError = "skip"
    """A record that cannot be read is reported with its number and skipped, or ends the run with exit code 2."""
    save_state: Path | None = None
    """Save the session to this file, whole or not at all: after every so many tokens, once a second, at the end."""
    load_state: Path | None = None
    """Resume from this file: a source that is a file after the last record that was taken in, others with what comes.
    If it is also the one of save-state, it need not be there yet."""
    every: Annotated[int | None, usual(EVERY, "N")] = None
    """Tokens between two saves, with --save-state. After a kill, answers since the last save are given again."""
    limit: int | None = None
    """Stop after so many records."""
    follow: bool = False
    """Wait for more lines where the file ends."""
    backend: Literal["auto", "numba", "torch"] = "auto"
    """What steps the model: compiled for the CPU, or torch."""

    def run(self) -> None:
        self.check()
        model = models.load(self.model)
        records = live_reader(model, self.missing, self.gaps_of(model.info))
        source = open_source(self.source, self.format, self.follow, rate_of(model.info))
        session = Session(model, records, self.backend)
        feed = self.feed(session, source)
        keeper = None
        if self.save_state is not None:
            keeper = Keeper(self.save_state, session, self.every or EVERY, feed.position)
        if self.source == "-" and sys.stdin is not None and sys.stdin.isatty():
            say("reading lines from the terminal: JSON, or CSV with a header; Ctrl-D ends")
        options: dict[str, Any] = {"on_error": self.on_error, "limit": self.limit, "keeper": keeper, "report": say}
        count = Count()
        try:
            follow(session, feed, self.printer(), count=count, **options)
        except KeyboardInterrupt as stop:
            self.tell(count, source)
            raise type(stop)(self.left_at(keeper)) from stop
        self.sum_up(count, source, resumed=feed.resumed)

    def left_at(self, keeper: Keeper | None) -> str:
        """What a stream that is stopped leaves, and how to resume it."""
        if keeper is None:
            return "the session is not saved: --save-state FILE would do that"
        saved = f"the session of {counted(keeper.saved_tokens, 'token')} is saved in {keeper.path}"
        return f"{saved}; --load-state {keeper.path} resumes it"

    def sum_up(self, count: Count, source: Source, resumed: bool) -> None:
        """Say at the end what the answers do not; ValueError where there are none."""
        every = count.taken + count.skipped
        name, records = "standard input" if self.source == "-" else self.source, counted(every, source.unit)
        if not count.answers and not resumed:
            for reason in count.reasons:
                say(reason)
            if count.skipped and count.skipped == every:
                raise ValueError(f"none of {records} of {name} could be read")
            raise ValueError(f"{name} has {f'{records}, which bring no token' if every else f'no {source.unit}s'}")
        self.tell(count, source)
        if resumed and not every:
            say(f"there is nothing new in {name}")

    def tell(self, count: Count, source: Source) -> None:
        """Say how many records were skipped or left out, and why, and how many answers are not finite."""
        records = counted(count.taken + count.skipped, source.unit)
        for reason in count.reasons:
            say(reason)
        for what, some in (("skipped", count.skipped), ("dropped", count.left)):
            if some:
                say(f"{some:,} of {records} {what}")
        if count.not_finite:
            say(f"{count.not_finite:,} of {counted(count.answers, 'answer')} not finite")

    def check(self) -> None:
        """Refuse what would fail later."""
        if self.json and self.human:
            raise ValueError("json and human are both set; a line is one or the other")
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
        """What is done about gaps. Were one refused and the record skipped, all later ones would be after a gap too."""
        reader = None if info.reader is None else reader_from_dict(info.reader)
        if not isinstance(reader, TableReader) or reader.time is None:
            return self.gaps
        if self.gaps == "fail" and self.on_error == "skip":
            raise ValueError("--gaps fail needs --on-error fail: after a gap that is refused, no record could be taken")
        return self.gaps or ("fill" if (self.on_error, reader.gaps) == ("skip", "fail") else reader.gaps)

    def feed(self, session: Session, source: Source) -> Feed:
        """The records that are to come, and the session where it is to go on."""
        path = self.load_state
        if path is None or (saving.same_file(path, self.save_state) and not path.exists()):
            return Feed(source)
        feed = Feed(source, saving.load(path, session))
        done = feed.position.items
        place = f"after {source.unit} {done}" if done else "at the beginning"
        place = f"{place} of {self.source}" if source.again else "with what comes"
        say(f"going on {place}, with token {session.tokens + 1}")
        return feed

    def printer(self) -> Printer:
        if self.json or not (self.human or sys.stdout.isatty()):
            return JsonLines(sys.stdout, self.latency)
        return HumanLines(sys.stdout, self.latency)


def rate_of(info: ModelInfo) -> int | None:
    """Samples a second that a model hears; None if it does not read sound."""
    if info.reader is None or info.reader["kind"] != "audio":
        return None
    reader = reader_from_dict(info.reader)
    assert isinstance(reader, SoundReader)
    return reader.rate


def say(message: str) -> None:
    """One line on standard error."""
    print("nystream:", *message.split(), file=sys.stderr, flush=True)

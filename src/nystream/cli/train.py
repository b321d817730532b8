"""`nystream train`: from a file or a folder to a model that streams."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from nystream import variants
from nystream.cli.options import usual
from nystream.cli.scores import scores_table
from nystream.cli.screen import console
from nystream.config.checks import positive_int
from nystream.data.open_source import open_source
from nystream.data.reader import Policy
from nystream.data.run import LANDMARKS, PLOTS, Result, epochs_done, resolved, train
from nystream.data.run_folder import CONFIG, EPOCHS, free_folder
from nystream.data.settings import Settings, TaskName, Variant, read_config
from nystream.data.table import counted
from nystream.live import models
from nystream.models import StreamModel

RUNS = Path("runs")


@dataclass
class Train:
    """Train a model on data of your own, and write a run folder: model, config, checkpoints, metrics, scores, plots.

    SOURCE is a table (.csv, .parquet), whose columns are forecast; a folder of .npy or .npz feature files, whose frames
    or files have classes; or a folder of audio files, one subfolder for each class. The same command resumes a run that
    was stopped.

    Examples:
        nystream train demand.csv --target total --horizon 24   # 24 rows ahead
        nystream train features/                    # classes of frames or files
        nystream train sounds/ --window 100         # classes of audio files
        nystream train demand.csv --target total --teacher runs/full
        nystream train --config runs/demand/config.toml --out again
    """

    source: Annotated[Positional[Path | None], arg(metavar="SOURCE", help_behavior_hint="")] = None
    """A table, a folder of feature files, or a folder of audio files; may be in the config file instead."""
    config: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """Read options from this TOML or YAML file, as a run writes it; those given here win."""
    out: Annotated[Path | None, usual("runs/NAME", "FOLDER")] = None
    """Where the run goes."""

    target: Annotated[str | None, usual("none", "NAMES")] = None
    """Table: the column to forecast; several with commas between them."""
    horizon: Annotated[int | None, usual(Settings.horizon, "ROWS")] = None
    """Table: how many rows ahead."""
    time: Annotated[str | None, usual("found", "NAME")] = None
    """Table: the column that says when a row was measured; none if there is none."""
    time_format: Annotated[str | None, usual("found", "FORMAT")] = None
    """Table: how times are written, such as '%d.%m.%Y %H:%M', iso, or seconds."""
    decimal: Annotated[str | None, usual("found", ".|,")] = None
    """Table: what stands before the fraction of a number."""
    columns: Annotated[str | None, usual("all", "NAMES")] = None
    """Table: what to forecast from, beside the targets themselves."""
    categorical: Annotated[str | None, usual("text", "NAMES")] = None
    """Table: columns of numbers that are categories."""
    units: Annotated[str | None, usual("none", "NAMES")] = None
    """Table: units of the targets, such as MW."""
    missing: Annotated[Policy | None, usual(Settings.missing, "fail|fill|skip")] = None
    """Table: an empty field is an error, takes the column's last value, or leaves its row out."""
    gaps: Annotated[Policy | None, usual(Settings.gaps, "fail|fill|skip")] = None
    """Table: rows that are missing in time are an error, are filled with the last values, or are passed over."""
    task: Annotated[TaskName | None, usual("found from the labels", "classification|detection")] = None
    """Feature files: a class for every file, or classes of every frame."""
    background: Annotated[str | None, usual("none", "CLASS")] = None
    """Feature files: the class of frames in which nothing is to be detected."""
    seconds: Annotated[float | None, usual(Settings.seconds, "SECONDS")] = None
    """Audio: how much of a file is used, at most."""

    window: Annotated[int | None, usual("64, less for little data", "N")] = None
    """Tokens that the model looks back on."""
    landmarks: Annotated[int | None, usual(f"{LANDMARKS}, less in a shorter window", "M")] = None
    """Landmarks of the low-rank attention, at most as many as the window has tokens."""
    variant: Annotated[Variant | None, usual(Settings.variant, "co-fixed|co-cont|co-full")] = None
    """Fixed landmarks, in two phases of training; continual landmarks; or full attention."""
    embed_dim: Annotated[int | None, usual(Settings.embed_dim, "D")] = None
    """Width of the model."""
    num_heads: Annotated[int | None, usual(Settings.num_heads, "H")] = None
    """Heads of its attention."""
    layers: Annotated[int | None, usual(Settings.layers, "L")] = None
    """Blocks."""
    stack: Annotated[Literal["deep", "paper"] | None, usual(Settings.stack, "deep|paper")] = None
    """Several blocks: deep streams every one of them, paper gives the window model's output."""
    teacher: Annotated[Path | None, usual("none", "RUN")] = None
    """Learn from the model of this run too, such as one of --variant co-full on the same data; none for no one."""
    epochs: Annotated[int | None, usual(EPOCHS, "E")] = None
    """Of all phases of training together, the same for every variant. co-fixed trains continual landmarks for two
    thirds of them, then fixed ones for one third; with L blocks, for one of L+2 parts each."""
    lr: Annotated[float | None, usual(Settings.lr, "RATE")] = None
    """Largest learning rate."""
    batch_size: Annotated[int | None, usual(Settings.batch_size, "B")] = None
    """Pieces of streams an update."""
    seed: Annotated[int | None, usual(Settings.seed, "SEED")] = None
    """Of the weights, the split of files and the order of the data."""
    device: Annotated[str | None, usual(Settings.device, "cpu|cuda|auto")] = None
    """Where to train; auto is cuda where there is a GPU."""
    plain: bool = False
    """No colours and no progress bars, as in a pipe."""

    def run(self) -> None:
        show = False if self.plain else None
        given = self.settings()
        self.check(given)
        teacher = _teacher(given.teacher) if given.teacher else None
        problem = open_source(given, show, [name for name, value in vars(self).items() if value is not None])
        for note in problem.notes:
            _say(note)
        settings = resolved(given, problem)
        usual_place = RUNS / _name(settings)
        out = free_folder(settings, problem, usual_place, teacher) if self.out is None else self.out
        if self.out is None and out != usual_place:
            _say(f"{usual_place} holds a run of other settings or other data: this one goes to {out}")
        try:
            result = train(settings, problem, out, _say, show, teacher)
        except KeyboardInterrupt as stop:
            saved = f"{counted(epochs_done(out), 'epoch')} of training saved in {out}"
            raise type(stop)(f"{saved}; the same command resumes there") from stop
        drawn = _draw(result)
        screen = console(self.plain)
        screen.print()
        screen.print(scores_table(result.scores["test"], result.problem.info, "Test part, as it streams"))
        pictures = f" and {PLOTS}" if drawn else ""
        print(f"{out} has the model, {CONFIG}, checkpoints, metrics.jsonl, scores.json{pictures}")
        print(f"next: {_next(result, settings)}", flush=True)

    def check(self, settings: Settings) -> None:
        """Refuse options that were typed and cannot be honoured."""
        for name in ("window", "landmarks", "epochs"):  # 0 in a config file is what is chosen
            if getattr(self, name) is not None:
                positive_int(name, getattr(self, name))
        if self.landmarks is not None and not variants.of_family(settings.variant).low_rank:
            raise ValueError(f"landmarks={self.landmarks} is for co-fixed and co-cont, but --variant co-full has none")

    def settings(self) -> Settings:
        """Options that were given, then those of the config file, then the usual ones."""
        fields = {field.name for field in dataclasses.fields(Settings)}
        given = {name: value for name, value in vars(self).items() if name in fields and value is not None}
        held = read_config(self.config) if self.config is not None else {}
        chosen = held | given
        for name in ("source", "teacher"):  # so that the run's own config file means the same everywhere
            if name == "teacher" and str(chosen.get(name)) == "none":
                chosen[name] = ""
            elif isinstance(chosen.get(name), str | Path) and str(chosen[name]):
                chosen[name] = str(Path(chosen[name]).expanduser().resolve())
        try:
            return Settings(**chosen)
        except TypeError as error:
            raise ValueError(str(error)) from error


def _name(settings: Settings) -> str:
    return Path(settings.source).stem


def _teacher(run: str) -> StreamModel:
    if not Path(run).is_dir():
        raise FileNotFoundError(f"teacher={run} is not a folder; give a run folder, a model folder, or none")
    return models.load(run)


def _say(line: str) -> None:
    print(line, flush=True)


def _draw(result: Result) -> bool:
    from nystream.data import plots

    try:
        plots.draw(result)
    except ModuleNotFoundError as error:
        print(f"no plots: {error}", file=sys.stderr)
        return False
    return True


def _next(result: Result, settings: Settings) -> str:
    """What to type now: the model on something of its source."""
    clips = getattr(result.problem, "clips", None)
    source = settings.source if clips is None else str(Path(settings.source) / clips.clips[0].name)
    return shlex.join(["nystream", "stream", str(result.folder), source])

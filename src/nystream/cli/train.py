"""`nystream train`: train a model on a file or a folder."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from nystream import variants
from nystream.cli.class_screen import print_classes
from nystream.cli.errors import as_options
from nystream.cli.options import overriding, plain_option
from nystream.cli.screen import console, print_scores
from nystream.cli.series_screen import print_series, series_of
from nystream.config.checks import positive_int
from nystream.config.option import option, option_of
from nystream.data.defaults import with_defaults
from nystream.data.open_source import open_for_training
from nystream.data.run import PLOTS, SCORES, Result, epochs_done
from nystream.data.run_folder import free_folder
from nystream.data.settings import CONFIG, Settings, paths_in, read_config
from nystream.data.table import counted
from nystream.models import StreamModel
from nystream.models.find import folder_of

RUNS = Path("runs")
PATHS = ("source", "valid", "test", "teacher")  # options that are paths


@dataclass
@overriding(Settings)
class Train:
    """Train a model on your own data, and write a run folder: model, config, checkpoints, metrics, scores, plots.

    From a table, the model learns to forecast columns; from feature files or audio, to predict classes of whole files,
    or of every frame. Run the same command again to resume a run that was stopped.

    Examples:
        nystream train demand.csv --target total --horizon 24   # 24 rows ahead
        nystream train demand.csv --target total --horizon 1..48 --quantiles 0.1,0.9
        nystream train meters.csv --series meter --target kwh   # one model of many
        nystream train features/                    # classes of frames or files
        nystream train sounds/ --window 100         # classes of audio files
        nystream train demand.csv --target total --teacher runs/full
        nystream train --config runs/demand/config.toml --out again
    """

    source: Positional[tuple[Path, ...]] = option_of(Settings, "source", ())
    valid: Path | None = option_of(Settings, "valid")
    test: Path | None = option_of(Settings, "test")
    teacher: Path | None = option_of(Settings, "teacher")
    config: Path | None = option(
        None,
        "Read options from this TOML or YAML file, such as a run's config.toml; the command line takes precedence.",
        "FILE",
    )
    out: Path | None = option(None, "Run folder to write.", "FOLDER", "runs/NAME")
    plain: bool = plain_option()

    def run(self) -> None:
        from nystream.estimators import estimator_of  # scikit-learn takes a while to import

        show = False if self.plain else None
        settings = self.settings()
        self.check(settings)
        teacher = _teacher(settings.teacher) if settings.teacher else None
        given = [name for name, value in vars(self).items() if value not in (None, ())]
        problem = open_for_training(settings, show, given)
        for note in problem.notes:
            _say(note)
        with_defaults(settings, problem)  # raises if they do not fit the source
        usual = RUNS / _name(paths_in(settings.source))
        out = free_folder(settings, problem, usual, teacher) if self.out is None else self.out
        if self.out is None and out != usual:
            _say(f"{usual} has a run with other settings or other data: this one goes to {out}")
        try:
            result = estimator_of(settings, problem).fit_problem(settings, problem, out, _say, show, teacher)
        except KeyboardInterrupt as stop:
            saved = f"{counted(epochs_done(out), 'epoch')} of training saved in {out}"
            raise type(stop)(f"{saved}; run the same command to resume") from stop
        drawn = _draw(result)
        screen = console(self.plain)
        screen.print()
        print_scores(screen, result.scores["test"], result.problem.info, "Test part, streaming")
        print_series(screen, series_of(result.problem, "test", result.warm, result.output), f"{out / SCORES} has all")
        if (classes := result.problem.class_scores("test", result.output)) is not None:
            print_classes(screen, classes, f"{out / SCORES} has all")
        screen.print()
        plots = f" and {PLOTS}" if drawn else ""
        print(f"{out} has the model, {CONFIG}, checkpoints, metrics.jsonl, scores.json{plots}")
        print(f"next: {_next(result, settings)}", flush=True)

    def check(self, settings: Settings) -> None:
        """Raise if an option cannot be used with the others."""
        given = {name: getattr(self, name) for name in ("window", "landmarks", "layers", "epochs", "hop", "threads")}
        for name, value in given.items():  # 0 in a config file means that the value is chosen
            if value is not None:
                positive_int(name, value)
        for name in ("patience", "dropout", "weight_decay"):
            if (value := getattr(self, name)) is not None and value < 0:
                raise ValueError(f"{name}={value} must be at least 0")
        recipe = vars(self)["recipe"]  # an option that is made from the settings
        if recipe not in (None, "auto") and not variants.get(settings.variant).fixed:
            raise ValueError(
                f"recipe={recipe!r} is for co-fixed, but --variant {settings.variant} is trained in one phase"
            )
        if given["landmarks"] is not None and not variants.get(settings.variant).low_rank:
            raise ValueError(
                f"landmarks={given['landmarks']} is for co-fixed and co-cont, but --variant co-full has none"
            )

    def settings(self) -> Settings:
        """The options given, then those of the config file, then the defaults."""
        names = {field.name for field in dataclasses.fields(Settings)}
        given = {name: value for name, value in vars(self).items() if name in names and value not in (None, ())}
        chosen = (read_config(self.config) if self.config is not None else {}) | given
        if str(chosen.get("teacher")) == "none":
            chosen["teacher"] = ""
        for name in PATHS:  # absolute, so that the run's own config file works from every folder
            value = chosen.get(name)
            if isinstance(value, str | Path) and str(value):
                chosen[name] = _absolute(value)
            elif name == "source" and isinstance(value, list | tuple):
                chosen[name] = _absolute(value[0]) if len(value) == 1 else tuple(map(_absolute, value))
        try:
            return Settings(**{"threads": -1} | chosen)
        except TypeError as error:
            raise ValueError(str(error)) from error


def _absolute(path: str | Path) -> str:
    return str(Path(path).expanduser().resolve())


def _name(paths: Sequence[Path]) -> str:
    """The name of a run: that of its source, or of the folder of its tables."""
    return paths[0].stem if len(paths) == 1 else paths[0].parent.name


def _teacher(run: str) -> StreamModel:
    if not Path(run).is_dir():
        raise FileNotFoundError(f"teacher={run} is not a folder; give a run folder, a model folder, or none")
    return StreamModel.from_pretrained(folder_of(run))


def _say(line: str) -> None:
    print(as_options(line), flush=True)


def _draw(result: Result) -> bool:
    from nystream.data import plots

    try:
        plots.draw(result)
    except ModuleNotFoundError as error:
        print(f"no plots: {error}", file=sys.stderr)
        return False
    return True


def _next(result: Result, settings: Settings) -> str:
    """The command that streams the model over its source."""
    clips = getattr(result.problem, "clips", None)
    path = paths_in(settings.source)[0]
    source = str(path if clips is None else path / clips.clips[0].name)
    skipped = ["--skip-lines", str(settings.skip_lines)] if settings.skip_lines else []
    return shlex.join(["nystream", "stream", str(result.folder), source, *skipped])

"""What `nystream eval` and `nystream fit-landmarks` share: a saved model, and data read as in its training."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from nystream.cli.errors import as_options
from nystream.cli.options import AS_TRAINED, plain_option
from nystream.config.option import option, option_of
from nystream.data.open_source import open_for
from nystream.data.problem import Problem
from nystream.data.reader import Policy
from nystream.data.run_folder import info_of
from nystream.data.settings import Settings
from nystream.models import StreamModel
from nystream.models.find import folder_of


@dataclass(kw_only=True)
class OnSavedModel:
    """Options and loading of a command that runs a saved model on a source."""

    model: Positional[str] = option(help="A run folder, or a model folder.", metavar="MODEL")
    source: Positional[Path] = option(
        help="A table, or a folder of tables, feature files or audio files, of the kind the model was trained on.",
        metavar="SOURCE",
    )
    missing: Policy | None = option_of(Settings, "missing", shown=AS_TRAINED)
    gaps: Policy | None = option_of(Settings, "gaps", shown=AS_TRAINED)
    background: str | None = option_of(Settings, "background", shown=AS_TRAINED)
    seconds: float | None = option_of(Settings, "seconds", shown=AS_TRAINED)
    skip_lines: int = option_of(Settings, "skip_lines", 0)
    skip_end: int = option_of(Settings, "skip_end", 0)
    plain: bool = plain_option()

    @property
    def show(self) -> bool | None:
        """Whether to show progress bars; None means on a terminal."""
        return False if self.plain else None

    def load(self) -> tuple[StreamModel, Problem]:
        """The model, and its source read as the training data were."""
        folder = folder_of(self.model)
        model = StreamModel.from_pretrained(folder)
        model.info = info_of(model.info, folder)
        problem = open_for(
            model.info,
            self.source,
            missing=self.missing,
            gaps=self.gaps,
            background=self.background,
            seconds=self.seconds,
            skip_lines=self.skip_lines,
            skip_end=self.skip_end,
            show=self.show,
        )
        for note in problem.notes:
            print(as_options(note), flush=True)
        return model, problem

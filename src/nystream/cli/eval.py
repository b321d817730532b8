"""`nystream eval`: the scores of a saved model on a source."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from nystream import files
from nystream.cli.options import usual
from nystream.cli.scores import scores_table
from nystream.cli.screen import console
from nystream.data.open_source import open_for
from nystream.data.reader import Policy
from nystream.data.run import evaluate
from nystream.data.run_folder import info_of
from nystream.files import require_writable
from nystream.live import models
from nystream.train.log import plain_numbers


@dataclass
class Eval:
    """Score a trained model on a table or a folder, read as its training data were. It streams over all of it.

    Rows that the model was trained on count too: give it data that it has not seen.

    Example:
        nystream eval runs/demand newer.csv --gaps fill
    """

    model: Annotated[Positional[str], arg(metavar="MODEL")]
    """A run folder, or a model folder."""
    source: Annotated[Positional[Path], arg(metavar="SOURCE")]
    """A table, a folder of feature files, or a folder of audio files, as the model was trained on."""
    missing: Annotated[Policy | None, usual("as in training", "fail|fill|skip")] = None
    """Table: an empty field is an error, takes the column's last value, or leaves its row out."""
    gaps: Annotated[Policy | None, usual("as in training", "fail|fill|skip")] = None
    """Table: rows that are missing in time are an error, are filled with the last values, or are passed over."""
    background: Annotated[str | None, usual("as in training", "CLASS")] = None
    """Feature files: the class of frames in which nothing is to be detected; '' for none."""
    seconds: Annotated[float | None, usual("as in training", "SECONDS")] = None
    """Audio: how much of a file is used, at most."""
    json: Path | None = None
    """Write the scores here too."""
    plain: bool = False
    """No colours and no progress bars, as in a pipe."""

    def run(self) -> None:
        if self.json is not None:
            require_writable("json", self.json)
        show = False if self.plain else None
        model = models.load(self.model)
        problem = open_for(
            info_of(model.info, models.folder_of(self.model)),
            self.source,
            missing=self.missing,
            gaps=self.gaps,
            background=self.background,
            seconds=self.seconds,
            show=show,
        )
        for note in problem.notes:
            print(note, flush=True)
        scores = evaluate(model, problem, show=show)
        if self.json is not None:
            held = {"model": self.model, "source": str(self.source), "scores": plain_numbers(scores)}
            text = json.dumps(held, indent=2, ensure_ascii=False) + "\n"
            files.write_text(self.json, text)
        screen = console(self.plain)
        screen.print(scores_table(scores, problem.info, f"{self.model} on {self.source}, as it streams"))

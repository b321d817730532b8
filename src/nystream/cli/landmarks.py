"""`nystream fit-landmarks`: a trained model with fixed landmarks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from nystream.cli.options import usual
from nystream.cli.scores import scores_table
from nystream.cli.screen import console
from nystream.data.open_source import open_for
from nystream.data.reader import Policy
from nystream.data.run import evaluate, with_landmarks
from nystream.data.run_folder import info_of
from nystream.live import models


@dataclass
class FitLandmarks:
    """Give a trained model fixed landmarks: the centres of what its attention sees of a source. Nothing else is
    trained; `nystream train --variant co-fixed` fine-tunes too, and is more accurate.

    Example:
        nystream fit-landmarks runs/demand demand.csv --landmarks 16 --out runs/16
    """

    model: Annotated[Positional[str], arg(metavar="MODEL")]
    """A run folder, or a model folder."""
    source: Annotated[Positional[Path], arg(metavar="SOURCE")]
    """What the model was trained on: landmarks must not come from data that it is scored on later."""
    out: Annotated[Path, arg(metavar="FOLDER")]
    """Where the new model goes."""
    landmarks: Annotated[int, arg(metavar="M")] = 4
    """Landmarks of every head."""
    tokens: int = 20_000
    """Tokens of the source that are clustered, at most."""
    seed: int = 0
    """Of the sample and the clustering."""
    missing: Annotated[Policy | None, usual("as in training", "fail|fill|skip")] = None
    """Table: an empty field is an error, takes the column's last value, or leaves its row out."""
    gaps: Annotated[Policy | None, usual("as in training", "fail|fill|skip")] = None
    """Table: rows that are missing in time are an error, are filled with the last values, or are passed over."""
    background: Annotated[str | None, usual("as in training", "CLASS")] = None
    """Feature files: the class of frames in which nothing is to be detected; '' for none."""
    seconds: Annotated[float | None, usual("as in training", "SECONDS")] = None
    """Audio: how much of a file is used, at most."""
    plain: bool = False
    """No colours and no progress bars, as in a pipe."""

    def run(self) -> None:
        show = False if self.plain else None
        if self.out.exists() and (not self.out.is_dir() or any(self.out.iterdir())):
            raise ValueError(f"out={self.out} is there already; give another folder")
        model = models.load(self.model)
        model.info = info_of(model.info, models.folder_of(self.model))
        problem = open_for(
            model.info,
            self.source,
            missing=self.missing,
            gaps=self.gaps,
            background=self.background,
            seconds=self.seconds,
            show=show,
        )
        for note in problem.notes:
            print(note, flush=True)
        fixed = with_landmarks(model, problem, self.landmarks, self.tokens, self.seed, show)
        fixed.save_pretrained(self.out)
        before, after = evaluate(model, problem, show=show), evaluate(fixed, problem, show=show)
        screen = console(self.plain)
        both = {"before": before.pop("model"), "model": after["model"], **before}
        screen.print(scores_table(both, problem.info, f"{self.source}, as it streams"))
        print(f"wrote {self.out}", flush=True)

"""`nystream fit-landmarks`: give a trained model fixed landmarks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nystream.cli.saved import OnSavedModel
from nystream.cli.screen import console, print_table, scores_table
from nystream.config.option import option
from nystream.data.run import with_landmarks
from nystream.data.scoring import evaluate


@dataclass(kw_only=True)
class FitLandmarks(OnSavedModel):
    """Give a trained model fixed landmarks: cluster centres of what its attention sees of SOURCE.

    SOURCE should be the model's training data: landmarks must not be fitted to data that the model is scored on later.
    Nothing else is trained; `nystream train --variant co-fixed` also fine-tunes the model, and is more accurate.

    Example:
        nystream fit-landmarks runs/demand demand.csv --landmarks 16 --out runs/16
    """

    out: Path = option(help="Folder to write the new model to.", metavar="FOLDER")
    landmarks: int = option(4, "Number of landmarks per head.", "M")
    tokens: int = option(20_000, "Maximum number of tokens of the source to cluster.")
    seed: int = option(0, "Random seed of the sample and the clustering.")

    def run(self) -> None:
        if self.out.exists() and (not self.out.is_dir() or any(self.out.iterdir())):
            raise ValueError(f"out={self.out} already exists; give another folder")
        model, problem = self.load()
        fixed = with_landmarks(model, problem, self.landmarks, self.tokens, self.seed, self.show)
        fixed.save_pretrained(self.out)
        before, after = (evaluate(each, problem, show=self.show).scores for each in (model, fixed))
        both = {"before": before.pop("model"), "model": after["model"], **before}
        print_table(console(self.plain), scores_table(both, problem.info), f"{self.source}, streaming")
        print(f"wrote {self.out}", flush=True)

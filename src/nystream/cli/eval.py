"""`nystream eval`: score a saved model on a source."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from nystream import files
from nystream.cli.saved import OnSavedModel
from nystream.cli.screen import console, print_scores
from nystream.config.option import option
from nystream.data.scoring import evaluate
from nystream.train.log import plain_numbers


@dataclass(kw_only=True)
class Eval(OnSavedModel):
    """Score a trained model on a table or a folder, which it streams over from beginning to end.

    Use data that the model has not seen: rows that it was trained on are scored too.

    Example:
        nystream eval runs/demand newer.csv --gaps fill
    """

    json: Path | None = option(None, "Also write the scores to this file.", "FILE")

    def run(self) -> None:
        if self.json is not None:
            files.require_writable("json", self.json)
        model, problem = self.load()
        scores = evaluate(model, problem, show=self.show)
        if self.json is not None:
            record = {"model": self.model, "source": str(self.source), "scores": plain_numbers(scores)}
            files.write_text(self.json, json.dumps(record, indent=2, ensure_ascii=False) + "\n")
        print_scores(console(self.plain), scores, problem.info, f"{self.model} on {self.source}, streaming")

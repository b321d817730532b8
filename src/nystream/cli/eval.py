"""`nystream eval`: score a saved model on a source."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from nystream import files
from nystream.cli.class_screen import print_classes
from nystream.cli.saved import OnSavedModel
from nystream.cli.screen import console, print_scores
from nystream.cli.series_screen import print_series, series_of
from nystream.config.option import option
from nystream.data import predictions
from nystream.data.scoring import evaluate
from nystream.train.log import plain_numbers


@dataclass(kw_only=True)
class Eval(OnSavedModel):
    """Score a trained model on a table or a folder, which it streams over from beginning to end.

    Use data that the model has not seen: rows that it was trained on are scored too.

    Examples:
        nystream eval runs/demand newer.csv --gaps fill
        nystream eval runs/demand newer.csv --out forecasts.csv
    """

    json: Path | None = option(None, "Also write the scores to this file.", "FILE")
    out: Path | None = option(
        None, "Also write the predictions and their truth to this table (.csv, .tsv or .parquet).", "FILE"
    )

    def run(self) -> None:
        if self.json is not None:
            files.require_writable("json", self.json)
        if self.out is not None:
            if self.out.resolve() == self.source.resolve():
                raise ValueError(f"out={self.out} is the source, which would be overwritten; give another file")
            predictions.require_writable(self.out)
        model, problem = self.load()
        found = evaluate(model, problem, show=self.show)
        classes = problem.class_scores("all", found.output)
        series = series_of(problem, "all", found.warm, found.output)
        if self.json is not None:
            record = {"model": self.model, "source": str(self.source), "scores": found.scores}
            record |= {"classes": classes.to_dict()} if classes is not None else {}
            record |= {"series": series} if series else {}
            files.write_text(self.json, json.dumps(plain_numbers(record), indent=2, ensure_ascii=False) + "\n")
        if self.out is not None:
            predictions.write(self.out, problem, "all", found.warm, found.output)
        screen = console(self.plain)
        print_scores(screen, found.scores, problem.info, f"{self.model} on {self.source}, streaming")
        more = "--json writes all" if self.json is None else f"{self.json} has all"
        print_series(screen, series, more)
        if classes is not None:
            print_classes(screen, classes, more)
        if self.out is not None:
            print(f"wrote {self.out}", flush=True)

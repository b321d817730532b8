"""`nystream serve`: a service of live streams."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from nystream.config.option import option
from nystream.live import Sessions, models
from nystream.live.readers import gaps_when_skipping
from nystream.serve.app import run
from nystream.serve.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Serve(Settings):
    """Serve a trained model to any number of live streams: clients push records over a WebSocket or HTTP, and get
    answers in the units and names of the training data.

    What was acknowledged survives a crash: when the service starts again, streams continue where they were.

    Examples:
        nystream serve demand                       # comes with the package
        nystream serve runs/load --store load.db --port 9000
        nystream serve runs/load --host 0.0.0.0 --tokens-file tokens.txt
    """

    model: Positional[str] = option(
        help="A run folder, a model folder, or demand: a small model that comes with the package.", metavar="MODEL"
    )

    def __post_init__(self) -> None:
        """Leave the checks to `run`, whose errors are printed as those of all commands."""

    def run(self) -> None:
        super().__post_init__()
        model = models.load(self.model)
        gaps = gaps_when_skipping(model.info, self.gaps)
        name = Path(self.model).expanduser().resolve().name  # not its path, which is nobody's business
        run(Sessions(model, self.missing, gaps, self.backend), self, name=name)

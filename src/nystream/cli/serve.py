"""`nystream serve`: a service of live streams."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tyro.conf import Positional

from nystream.config.option import option
from nystream.live import Sessions
from nystream.live.readers import gaps_when_skipping
from nystream.models import StreamModel
from nystream.models.find import folder_of
from nystream.serve.app import run
from nystream.serve.cluster import run_on_ray
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
        nystream serve runs/load --ray auto --replicas 4 --store redis://10.0.0.5
    """

    model: Positional[str] = option(
        help="A run folder, a model folder, or demand: a small model that comes with the package.", metavar="MODEL"
    )

    def __post_init__(self) -> None:
        """Leave the checks to `run`, whose errors are printed as those of all commands."""

    ray: str | None = option(
        None,
        "Serve on the Ray cluster at this address: auto (the one this machine is part of), HOST:6379, or local to "
        "start one here. The store must be one that all machines share.",
        "ADDRESS",
    )
    replicas: int = option(
        1, "Processes on the Ray cluster that have streams. Run the command again to change it.", "N"
    )
    gateways: int = option(1, "Processes on the Ray cluster that clients connect to.", "N")

    def run(self) -> None:
        super().__post_init__()
        model = StreamModel.from_pretrained(folder_of(self.model))
        gaps = gaps_when_skipping(model.info, self.gaps)
        name = Path(self.model).expanduser().resolve().name  # not its path, which is nobody's business
        if self.ray is None:
            for option in ("replicas", "gateways"):
                if getattr(self, option) != 1:
                    raise ValueError(f"{option}={getattr(self, option)} is for --ray, which is not given")
            run(Sessions(model, self.missing, gaps, self.backend), self, name=name, say=partial(print, flush=True))
        else:
            fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(Settings)}
            settings = Settings(**fields | {"gaps": gaps})
            run_on_ray(model, settings, self.ray, self.replicas, self.gateways, name=name)

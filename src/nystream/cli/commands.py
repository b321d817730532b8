"""The commands: where each is, and what it is for in one line. A command is imported when it is run."""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

# Of the command itself.
OPTIONS = {
    "--completion": "print a script for TAB in bash or zsh; --completion --help says how to use it",
    "--debug": "show a traceback where an error would be one line",
    "--help": "print help",
    "--version": "print the version",
}


class Command(NamedTuple):
    module: str
    name: str
    summary: str

    def load(self) -> type:
        """The dataclass whose fields are the options and whose `run` is the job."""
        return getattr(import_module(f"nystream.cli.{self.module}"), self.name)


# In the order in which somebody new needs them.
COMMANDS = {
    "demo": Command("demo", "Demo", "learn real demand of electricity, then follow it live"),
    "train": Command("train", "Train", "train a model on data of your own"),
    "eval": Command("eval", "Eval", "score a trained model on other data"),
    "fit-landmarks": Command("landmarks", "FitLandmarks", "give a trained model fixed landmarks"),
    "stream": Command("stream", "Stream", "follow a live source with a trained model"),
    "bench": Command("bench", "Bench", "measure what a step costs on this machine"),
    "costs": Command("costs", "Costs", "count operations and memory of the nine attentions"),
    "reproduce": Command("reproduce", "Reproduce", "train and score the models of the paper's tables"),
    "report": Command("report", "Report", "make tables and plots of what reproduce has written"),
}

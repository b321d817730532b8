"""The commands, with a one-line summary each. A command is imported when it is run."""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

# Options of `nystream` itself.
OPTIONS = {
    "--completion": "print a completion script for bash or zsh",
    "--debug": "print a traceback instead of a one-line error",
    "--help": "print help",
    "--version": "print the version",
}


class Command(NamedTuple):
    module: str
    name: str
    summary: str

    def load(self) -> type:
        """The dataclass whose fields are the options, and whose `run` runs the command."""
        return getattr(import_module(f"nystream.cli.{self.module}"), self.name)


# In the order in which a new user needs them.
COMMANDS = {
    "demo": Command("demo", "Demo", "train on real electricity demand, then follow it live"),
    "train": Command("train", "Train", "train a model on your own data"),
    "eval": Command("eval", "Eval", "score a trained model on other data"),
    "fit-landmarks": Command("landmarks", "FitLandmarks", "give a trained model fixed landmarks"),
    "stream": Command("stream", "Stream", "follow a live source with a trained model"),
    "export": Command("export", "Export", "write a trained model as ONNX, to run it anywhere"),
    "serve": Command("serve", "Serve", "serve a trained model to many live streams"),
    "bench": Command("bench", "Bench", "measure the cost of a step on this machine"),
    "costs": Command("costs", "Costs", "count operations and memory of the nine variants"),
    "reproduce": Command("reproduce", "Reproduce", "train and score the models of the paper's tables"),
    "report": Command("report", "Report", "make tables and plots from the results of reproduce"),
}

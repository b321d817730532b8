"""The `nystream` command: one dataclass a subcommand, whose fields are its options and whose `run` is its job."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import nystream

DESCRIPTION = (
    "Continual low-rank attention, for streams without end. --version prints the version; --completion bash or zsh "
    "a script that completes commands and options; --debug, anywhere, shows a traceback where an error would be "
    "one line."
)
# package -> the extra that brings it
EXTRAS = {
    "ray": "ray",
    "rich": "cli",
    "sklearn": "train",
    "sounddevice": "mic",
    "soundfile": "audio",
    "soxr": "audio",
    "tensorboard": "train",
    "tyro": "cli",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0, 1 for a failure, 2 for bad input."""
    args = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in args
    args = [arg for arg in args if arg != "--debug"]
    if args == ["--version"]:
        print(f"nystream {nystream.__version__}")
        return 0
    if args[:1] == ["--completion"]:
        if args[1:] not in (["bash"], ["zsh"]):
            return _fail("--completion must be bash or zsh", 2, debug)
        args[0] = "--tyro-print-completion"
    try:
        import tyro

        command = tyro.extras.subcommand_cli_from_dict(
            _commands(),
            prog="nystream",
            description=DESCRIPTION,
            args=args or ["--help"],
            config=(tyro.conf.FlagCreatePairsOff,),
        )
        command.run()
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _fail("stopped", 130, debug)
    except BrokenPipeError:
        # The reader has left. What is still buffered must not fail a second time when Python shuts down.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except ModuleNotFoundError as error:
        extra = EXTRAS.get(str(error.name).partition(".")[0])
        hint = f"; install it with: pip install 'nystream[{extra}]'" if extra else ""
        return _fail(f"{error}{hint}", 1, debug)
    except (ValueError, OSError) as error:
        return _fail(str(error), 2, debug)
    except Exception as error:
        return _fail(f"{type(error).__name__}: {error} (--debug shows where)", 1, debug)
    return 0


def _commands() -> dict[str, Callable[..., Any]]:
    """Imported when they are needed: `--version` works without the extras."""
    from nystream.cli.bench import Bench
    from nystream.cli.costs import Costs
    from nystream.cli.demo import Demo
    from nystream.cli.eval import Eval
    from nystream.cli.landmarks import FitLandmarks
    from nystream.cli.report import Report
    from nystream.cli.reproduce import Reproduce
    from nystream.cli.stream import Stream
    from nystream.cli.train import Train

    return {
        "bench": Bench,
        "costs": Costs,
        "demo": Demo,
        "eval": Eval,
        "fit-landmarks": FitLandmarks,
        "report": Report,
        "reproduce": Reproduce,
        "stream": Stream,
        "train": Train,
    }


def _fail(message: str, code: int, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    else:
        print("nystream: error:", *message.split(), file=sys.stderr)
    return code

"""The `nystream` command: one dataclass per subcommand, with its options as fields and a method `run`.

Nothing heavy is imported before `main`, so that Ctrl-C and errors are handled from the start.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from functools import partial
from io import StringIO
from typing import Any, NoReturn

from nystream.extras import EXTRAS, INSTALL
from nystream.interrupts import STOPPED, TERMINATED, exit_code, terminable
from nystream.progress import logged_to_stderr
from nystream.version import __version__

STOPS = {STOPPED: "nystream: stopped", TERMINATED: "nystream: stopped by SIGTERM"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code.

    0 for success, 1 for a failure, 2 for bad input, 130 after Ctrl-C, 143 after SIGTERM.
    """
    # OpenMP reads this when torch is loaded. By default its threads spin while they wait for each other: on a machine
    # that does something else, too, training then takes many times as long.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    args = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in args
    try:
        with _stopped_at_once():
            job = _chosen([arg for arg in args if arg != "--debug"])
        with terminable(), logged_to_stderr(), warnings.catch_warnings():
            warnings.showwarning = _warn
            job()
            sys.stdout.flush()
    except KeyboardInterrupt as stop:
        code = exit_code(stop)
        return _fail("; ".join(filter(None, (STOPS[code], str(stop)))), code, debug)
    except BrokenPipeError:
        # The reader has closed the pipe. Flushing at exit must not fail a second time.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except ModuleNotFoundError as error:
        return _fail(f"nystream: error: {_with_hint(error)}", 1, debug)
    except (ValueError, OSError) as error:
        program = getattr(error, "program", "")
        if program:
            return _fail(f"{program}: error: {error} ({program} --help)", 2, debug)
        return _fail(f"nystream: error: {error}", 2, debug)
    except Exception as error:
        return _fail(f"nystream: error: {type(error).__name__}: {error} (--debug shows where)", 1, debug)
    return 0


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    from nystream.cli.errors import as_options

    print(f"nystream: warning: {as_options(str(message))}", file=sys.stderr)


@contextmanager
def _stopped_at_once() -> Iterator[None]:
    """Exit at once on Ctrl-C or SIGTERM: an exception raised while torch is imported can crash compiled code.

    Signals that already have another handler, or are ignored, are left alone.
    """
    defaults = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    if threading.current_thread() is not threading.main_thread():
        defaults = {}
    ours = {number: handler for number, handler in defaults.items() if signal.getsignal(number) == handler}
    for number in ours:
        signal.signal(number, _exit)
    try:
        yield
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)


def _exit(number: int, _: Any) -> NoReturn:
    code = TERMINATED if number == signal.SIGTERM else STOPPED
    os.write(2, f"{STOPS[code]}\n".encode())
    os._exit(code)


def _chosen(args: list[str]) -> Callable[[], object]:
    """The function to run, with everything that it needs imported."""
    from nystream.cli import help as helps
    from nystream.cli.commands import COMMANDS, OPTIONS
    from nystream.cli.errors import UsageError
    from nystream.variants.registry import nearest

    first, rest = (args or ["--help"])[0], args[1:]
    help_flags = {"-h", "--help"}
    if first in COMMANDS:
        before = rest[: rest.index("--")] if "--" in rest else rest
        if help_flags & set(before):
            return partial(_print, helps.of_command(first))
        return _parsed(first, rest).run
    if first == "--completion":
        return partial(_print, helps.COMPLETION) if help_flags & set(rest) else _completion(rest)
    if rest and first in {"--version", *help_flags}:
        raise UsageError(f"unexpected argument {rest[0]!r} after {first}")
    if first == "--version":
        return partial(_print, f"nystream {__version__}\n")
    if first in help_flags:
        return partial(_print, helps.general())
    if first.startswith("-"):
        raise UsageError(f"unknown option {first}{nearest(first, OPTIONS)}")
    guess = nearest(first, COMMANDS) or f"; the commands are {', '.join(COMMANDS)}"
    raise UsageError(f"unknown command {first!r}{guess}")


def _parsed(name: str, words: list[str]) -> Any:
    """Parse the options with tyro; its errors become one line."""
    import tyro

    from nystream.cli.commands import COMMANDS
    from nystream.cli.errors import UsageError, condensed, explain
    from nystream.cli.options import options_of

    command, printed = COMMANDS[name].load(), StringIO()
    try:
        with redirect_stderr(printed):
            return tyro.cli(command, prog=f"nystream {name}", args=words, config=(tyro.conf.FlagCreatePairsOff,))
    except SystemExit:
        message = explain(options_of(command), words) or condensed(printed.getvalue())
        raise UsageError(message, f"nystream {name}") from None


def _completion(shells: list[str]) -> Callable[[], object]:
    from nystream.cli.completion import SCRIPTS
    from nystream.cli.errors import UsageError

    if len(shells) != 1 or shells[0] not in SCRIPTS:
        raise UsageError("needs bash or zsh", "nystream --completion")
    script = SCRIPTS[shells[0]]()

    def show() -> None:
        _print(script)
        if sys.stdout.isatty():
            print(f"nystream: to use this script: source <(nystream --completion {shells[0]})", file=sys.stderr)

    return show


def _print(text: str) -> None:
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding))


def _with_hint(error: ModuleNotFoundError) -> str:
    extra = EXTRAS.get(str(error.name).partition(".")[0])
    if extra is None or "pip install" in str(error):
        return str(error)
    return f"{error}: {INSTALL.format(extra)}"


def _fail(message: str, code: int, debug: bool) -> int:
    if debug:
        import traceback

        traceback.print_exc()
    else:
        from nystream.cli.errors import as_options

        print(*as_options(message).split(), file=sys.stderr)
    return code

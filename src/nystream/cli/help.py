"""What `--help` prints: of the command as a whole a line for each of its parts, of a part everything."""

from __future__ import annotations

import inspect
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator

from nystream.cli.commands import COMMANDS, OPTIONS

WIDEST = 100  # longer lines are hard to read
LEFT = 24  # of what is explained; what is longer has a line of its own

GENERAL = "Continual low-rank attention, for streams without end."
COMPLETION = """usage: nystream --completion bash|zsh

Print a script for your shell that completes commands, options, their values and files with TAB.

bash, for this shell, or as a line of ~/.bashrc for all:

    source <(nystream --completion bash)

zsh, for this shell, or as a line of ~/.zshrc below compinit for all:

    source <(nystream --completion zsh)

A file is quicker, since nothing runs when a shell starts. For bash with the package bash-completion:

    nystream --completion bash > ~/.local/share/bash-completion/completions/nystream

and for zsh, in a folder of its fpath:

    nystream --completion zsh > "${fpath[1]}/_nystream"
"""


def general() -> str:
    width = _width()
    parts = [
        "usage: nystream COMMAND [options]",
        _filled(GENERAL, width),
        _rows("commands", ((name, command.summary) for name, command in COMMANDS.items()), width),
        _rows("options", OPTIONS.items(), width),
        "To begin with: nystream demo\nOptions and an example of a command: nystream COMMAND --help",
    ]
    return "\n\n".join(parts) + "\n"


def of_command(name: str) -> str:
    from nystream.cli.options import options_of  # needs tyro, which the general help does without

    command, width = COMMANDS[name].load(), _width()
    options = options_of(command)
    places = [option for option in options if not option.flags]
    words = [option.metavar if option.required else f"[{option.metavar}]" for option in places]
    words += [f"{option.label} {option.metavar}" for option in options if option.flags and option.required]
    parts = [f"usage: nystream {name} {' '.join([*words, '[options]'])}", *_paragraphs(command, width)]
    if places:
        parts.append(_rows("arguments", ((one.metavar, one.explained) for one in places), width))
    flags = ((one.usage, one.explained) for one in options if one.flags)
    parts.append(_rows("options", [*flags, ("-h, --help", "Print this.")], width))
    return "\n\n".join(parts) + "\n"


def _width() -> int:
    return min(shutil.get_terminal_size().columns, WIDEST)


def _paragraphs(command: type, width: int) -> Iterator[str]:
    """Of its docstring; lines that are indented, as examples are, stay as they are."""
    for paragraph in inspect.cleandoc(command.__doc__ or "").split("\n\n"):
        head, *indented = paragraph.split("\n    ", 1)
        yield "\n    ".join([_filled(head, width), *indented])


def _filled(text: str, width: int) -> str:
    return textwrap.fill(" ".join(text.split()), width, break_on_hyphens=False)


def _rows(title: str, rows: Iterable[tuple[str, str]], width: int) -> str:
    """Names on the left, what they mean on the right."""
    rows = list(rows)
    left = min(max(len(name) for name, _ in rows), LEFT) + 4
    lines = [f"{title}:"]
    for name, meaning in rows:
        right = textwrap.wrap(meaning, max(width - left, 20), break_on_hyphens=False)
        if len(name) > LEFT:
            lines.append(f"  {_bold(name)}")
        else:
            lines.append(f"  {_bold(name)}{' ' * (left - len(name) - 2)}{right.pop(0)}")
        lines += [" " * left + line for line in right]
    return "\n".join(lines).replace("\N{NO-BREAK SPACE}", " ")


def _bold(name: str) -> str:
    styled = sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    return f"\x1b[1m{name}\x1b[0m" if styled else name

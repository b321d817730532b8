"""The text of `--help`: an overview of all commands, or everything about one."""

from __future__ import annotations

import inspect
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator

from nystream.cli.commands import COMMANDS, OPTIONS

MAX_WIDTH = 100  # longer lines are hard to read
MAX_NAME = 24  # longer names get a line of their own

GENERAL = "Continual low-rank attention: Transformers that read a stream token by token."
COMPLETION = """usage: nystream --completion bash|zsh

Print a script with which TAB completes commands, options, values and file names.

bash, in the current shell, or as a line in ~/.bashrc for all shells:

    source <(nystream --completion bash)

zsh, in the current shell, or as a line in ~/.zshrc after compinit for all shells:

    source <(nystream --completion zsh)

A file is faster, because nothing runs when a shell starts. For bash with the package bash-completion:

    nystream --completion bash > ~/.local/share/bash-completion/completions/nystream

and for zsh, in a folder of fpath:

    nystream --completion zsh > "${fpath[1]}/_nystream"
"""


def general() -> str:
    width = _width()
    parts = [
        "usage: nystream COMMAND [options]",
        _filled(GENERAL, width),
        _rows("commands", ((name, command.summary) for name, command in COMMANDS.items()), width),
        _rows("options", OPTIONS.items(), width),
        "Start with: nystream demo. Options and examples: nystream COMMAND --help",
    ]
    return "\n\n".join(parts) + "\n"


def of_command(name: str) -> str:
    from nystream.cli.options import options_of  # needs tyro, unlike the overview

    command, width = COMMANDS[name].load(), _width()
    options = options_of(command)
    places = [option for option in options if not option.flags]
    words = [option.metavar if option.required else f"[{option.metavar}{' ...' * option.several}]" for option in places]
    words += [f"{option.label} {option.metavar}" for option in options if option.flags and option.required]
    parts = [f"usage: nystream {name} {' '.join([*words, '[options]'])}", *_paragraphs(command, width)]
    if places:
        parts.append(_rows("arguments", ((option.metavar, option.explained) for option in places), width))
    flags = ((option.usage, option.explained) for option in options if option.flags)
    parts.append(_rows("options", [*flags, ("-h, --help", "Print this help.")], width))
    return "\n\n".join(parts) + "\n"


def _width() -> int:
    return min(shutil.get_terminal_size().columns, MAX_WIDTH)


def _paragraphs(command: type, width: int) -> Iterator[str]:
    """The paragraphs of its docstring; indented lines, such as examples, are not wrapped."""
    for paragraph in inspect.cleandoc(command.__doc__ or "").split("\n\n"):
        head, *indented = paragraph.split("\n    ", 1)
        yield "\n    ".join([_filled(head, width), *indented])


def _filled(text: str, width: int) -> str:
    return textwrap.fill(" ".join(text.split()), width, break_on_hyphens=False)


def _rows(title: str, rows: Iterable[tuple[str, str]], width: int) -> str:
    """Names on the left, their meaning on the right."""
    rows = list(rows)
    left = min(max(len(name) for name, _ in rows), MAX_NAME) + 4
    lines = [f"{title}:"]
    for name, meaning in rows:
        right = textwrap.wrap(meaning, max(width - left, 20), break_on_hyphens=False)
        if len(name) > MAX_NAME:
            lines.append(f"  {_bold(name)}")
        else:
            lines.append(f"  {_bold(name)}{' ' * (left - len(name) - 2)}{right.pop(0)}")
        lines += [" " * left + line for line in right]
    return "\n".join(lines).replace("\N{NO-BREAK SPACE}", " ")


def _bold(name: str) -> str:
    styled = sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    return f"\x1b[1m{name}\x1b[0m" if styled else name

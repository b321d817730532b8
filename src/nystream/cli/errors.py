"""One-line errors for everything that can be wrong with a command line."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from nystream.variants.registry import nearest

if TYPE_CHECKING:
    from nystream.cli.options import Option  # needs tyro, without which errors must still work


class UsageError(ValueError):
    """The command line is wrong. `program` is the command whose help explains it."""

    def __init__(self, message: str, program: str = "nystream") -> None:
        super().__init__(message)
        self.program = program


def as_options(message: str) -> str:
    """A message of the library in the words of a command: `name='value'` and `name` become --name value and --name."""
    return re.sub(r"`([a-z_]{2,})(?:=(.+?))?`", _as_option, message)


def explain(options: Sequence[Option], words: Iterable[str]) -> str:
    """The first error in the words after a command; empty if there is none."""
    by_flag = {flag: option for option in options for flag in option.flags}
    places = deque(option for option in options if not option.flags)
    left, given, plain = deque(words), set(), False
    while left:
        word = left.popleft()
        if word == "--" and not plain:
            plain = True
            continue
        if plain or not _is_flag(word):
            if not places:
                return f"unexpected argument {word!r}"
            option, value = places[0] if places[0].several else places.popleft(), word
        else:
            flag, equals, value = word.partition("=")
            flag = flag.replace("_", "-")
            if flag not in by_flag:
                return f"unknown option {flag}{nearest(flag, by_flag)}"
            option = by_flag[flag]
            if equals and not option.takes_value:
                return f"{flag} takes no value, but got {value!r}"
            if option.takes_value and not equals:
                if not left or _is_flag(left[0]):
                    return f"{flag} needs {option.needs}"
                value = left.popleft()
        if option.takes_value and not option.accepts(value):
            return f"{option.label} needs {option.needs}, not {value!r}{nearest(value, option.words)}"
        given.add(option.label)
    return _missing(option for option in options if option.required and option.label not in given)


def condensed(printed: str) -> str:
    """A parser's message in a box, as one line."""
    lines = (re.sub(r"\x1b\[[0-9;]*m|[─-╿]", " ", line) for line in printed.splitlines())
    return " ".join(" ".join(lines).split())


def _as_option(parameter: re.Match[str]) -> str:
    name, value = parameter.groups()
    flag = "--" + name.replace("_", "-")
    return flag if value is None else flag + " " + re.sub(r"^'([\w.,]+)'$", r"\1", value)


def _missing(options: Iterable[Option]) -> str:
    wanted = [f"{option.label} ({option.needs})" if option.words else option.usage for option in options]
    return f"{' and '.join(wanted)} {'is' if len(wanted) == 1 else 'are'} missing" if wanted else ""


def _is_flag(word: str) -> bool:
    """Whether a word is an option: a minus alone is standard input, and a minus before a digit is a number."""
    return re.match(r"--|-[A-Za-z]", word) is not None and not re.fullmatch(r"-(inf|infinity|nan)", word, re.IGNORECASE)

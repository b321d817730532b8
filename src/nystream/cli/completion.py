"""Completion scripts for bash and zsh, generated from the options of all commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

from nystream.cli.commands import COMMANDS, OPTIONS
from nystream.cli.options import Option, options_of

SHELLS = ("bash", "zsh")
ALWAYS = ("--help", "--debug")  # of every command
FILES = "FILES"  # the shell completes file names

BASH = """\
# To use this: source <(nystream --completion bash)
_nystream() {
    local current=${COMP_WORDS[COMP_CWORD]} command= option= place=0 candidates= index word
    for ((index = 1; index < COMP_CWORD; index++)); do
        word=${COMP_WORDS[index]}
        if [[ $word == = ]]; then continue # bash splits --option=value at the sign
        elif [[ -n $option ]]; then option= # this was its value
        elif [[ $word == -?* ]]; then _nystream_values "$command" "$word" > /dev/null && option=$word
        elif [[ -z $command ]]; then command=$word
        else place=$((place + 1)); fi
    done
    [[ $current == = ]] && current=
    if [[ -n $option ]]; then candidates=$(_nystream_values "$command" "$option")
    elif [[ $current == -* ]]; then candidates=$(_nystream_options "$command")
    else candidates=$(_nystream_places "$command" $place); fi
    COMPREPLY=()
    [[ $candidates == FILES ]] && return # with no candidates, bash completes file names
    compopt +o default +o bashdefault 2> /dev/null
    COMPREPLY=($(compgen -W "$candidates" -- "$current"))
}

_nystream_options() {
    case "$1" in
%(options)s
    esac
}

_nystream_places() {
    case "$1 $2" in
%(places)s
    esac
}

_nystream_values() {
    case "$1 $2" in
%(values)s
        *) return 1 ;; # it takes no value
    esac
}

complete -o bashdefault -o default -F _nystream nystream
"""

ZSH = """\
#compdef nystream
# To use this: source <(nystream --completion zsh)
_nystream() {
    local context state state_descr line
    local -A opt_args
    local -a commands=(
%(commands)s
    )
    _arguments -C \\
%(options)s
        '1:command:->command' \\
        '*::word:->word'
    case $state in
    command) _describe command commands ;;
    word)
        case $line[1] in
%(words)s
        esac
        ;;
    esac
}

if [[ $funcstack[1] == _nystream ]]; then
    _nystream "$@"
elif (( $+functions[compdef] )); then
    compdef _nystream nystream
else
    print -u2 'nystream: completion is not set up; run first: autoload -Uz compinit && compinit'
fi
"""


def bash() -> str:
    lines: dict[str, list[str]] = {
        "options": [_case("", " ".join(OPTIONS))],
        "places": [_case(" 0", " ".join(COMMANDS))],
        "values": [_case(" --completion", " ".join(SHELLS))],
    }
    for name, command in COMMANDS.items():
        options = options_of(command.load())
        flags = [flag for option in options for flag in option.flags]
        lines["options"].append(_case(name, " ".join([*flags, *ALWAYS])))
        places = [option for option in options if not option.flags]
        lines["places"] += [_case(f"{name} {place}", _candidates(option)) for place, option in enumerate(places)]
        valued = [option for option in options if option.takes_value]
        lines["values"] += [_case(f"{name} {flag}", _candidates(option)) for option in valued for flag in option.flags]
    return BASH % {part: "\n".join(cases) for part, cases in lines.items()}


def zsh() -> str:
    words = []
    for name, command in COMMANDS.items():
        options = options_of(command.load())
        specs = [_flag_of_zsh(flag, option) for option in options for flag in option.flags]
        specs += [f"{flag}[{_plain(OPTIONS[flag])}]" for flag in ALWAYS]
        places = [option for option in options if not option.flags]
        specs += [f"{number}:{option.metavar}:{_action_of_zsh(option)}" for number, option in enumerate(places, 1)]
        words += [f"        {name}) _arguments \\"]
        words += [f"            {shlex.quote(spec)} \\" for spec in specs[:-1]]
        words += [f"            {shlex.quote(specs[-1])} ;;"]
    general = [f"{flag}[{_plain(doc)}]" for flag, doc in OPTIONS.items() if flag != "--completion"]
    general.append(f"--completion[{_plain(OPTIONS['--completion'])}]:shell:({' '.join(SHELLS)})")
    parts = {
        "commands": [f"        {shlex.quote(f'{name}:{command.summary}')}" for name, command in COMMANDS.items()],
        "options": [f"        {shlex.quote(spec)} \\" for spec in general],
        "words": words,
    }
    return ZSH % {part: "\n".join(specs) for part, specs in parts.items()}


SCRIPTS: dict[str, Callable[[], str]] = {"bash": bash, "zsh": zsh}


def _candidates(option: Option) -> str:
    """Candidates for a value: words, file names, or none."""
    if option.words:
        return " ".join(option.words)
    # Positional arguments are files, folders, or names of data in the package.
    return FILES if option.kind is Path or not option.flags else ""


def _case(pattern: str, candidates: str) -> str:
    return f'        "{pattern}") echo "{candidates}" ;;'


def _flag_of_zsh(flag: str, option: Option) -> str:
    doc = f"[{_plain(option.help)}]"
    if not option.takes_value:
        return flag + doc
    equals = "=" if flag.startswith("--") else "+"  # the value may be in the same word
    return f"{flag}{equals}{doc}:{option.metavar}:{_action_of_zsh(option)}"


def _action_of_zsh(option: Option) -> str:
    candidates = _candidates(option)
    return "_files" if candidates == FILES else f"({candidates})" if candidates else " "


def _plain(doc: str) -> str:
    """The first sentence, with the characters escaped that are special in a description."""
    return re.sub(r"([\[\]\\:])", r"\\\1", doc.split(". ")[0].rstrip("."))

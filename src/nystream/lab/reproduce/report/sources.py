"""Where the numbers of a table come from: command, commit, hardware, data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from nystream.lab.reproduce.report.records import Record


def sources(records: Iterable[Record]) -> tuple[str, ...]:
    """One line for each machine and commit that trained, scored or timed some of the records, with the commands; and
    one for each file of data."""
    found: dict[str, Counter[str]] = {}
    data: dict[str, None] = {}
    for one in records:
        raw, step = one.raw, one.raw.get("step")
        device = raw.get("training", {}).get("device")
        _count(found, "trained" if "cell" in raw else "scored", raw, device)
        if step:
            _count(found, "timed", step, None)
        known = raw["data"]
        if known.get("file"):
            # Not that of the file, which would change with how it is packed.
            digest = str(known.get("fingerprint", ""))[:12]
            data[f"data: `{known['file']}`, hash of its tokens and targets {digest}"] = None
    lines = [f"{where}: {'; '.join(map(_said, commands.items()))}" for where, commands in found.items()]
    return (*sorted(lines, key=lambda line: ("trained", "scored", "timed").index(line.partition(" ")[0])), *data)


def _count(found: dict[str, Counter[str]], verb: str, raw: Mapping[str, Any], device: str | None) -> None:
    commit = str(raw["commit"])
    short = commit[:7] + (" with changes" if commit.endswith("with changes") else "")
    command = str(raw["command"]).replace("`", "'")  # or else it would end the code
    found.setdefault(f"{verb} at {short} on {machine(raw['hardware'], device)}", Counter())[command] += 1


def _said(command: tuple[str, int]) -> str:
    text, count = command
    return f"`{text}` ({count} {'cell' if count == 1 else 'cells'})"


def machine(hardware: Mapping[str, Any], device: str | None = None) -> str:
    cpu, cores = hardware.get("cpu", "an unknown CPU"), hardware.get("cores")
    host = f"{cores} core{'s' if cores != 1 else ''} of {cpu}" if cores else str(cpu)
    where = f"{device}, {host}" if device and device.lower() not in ("cpu", str(cpu).lower()) else host
    software = ", ".join(f"{name} {hardware[name]}" for name in ("torch", "python") if hardware.get(name))
    return f"{where}, {software}" if software else where

"""Where the numbers of a table come from: command, commit, hardware, data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from nystream.reproduce.report.records import Record


def sources(records: Iterable[Record], steps: bool = False) -> tuple[str, ...]:
    """One line for each command that trained some of the records, and each file of data; `steps`: and for each that
    timed some."""
    trained: Counter[str] = Counter()
    timed: Counter[str] = Counter()
    data: Counter[str] = Counter()
    for one in records:
        raw = one.raw
        device = raw.get("training", {}).get("device")
        trained[_source("trained" if "cell" in raw else "scored", raw, device)] += 1
        if steps and raw.get("step"):
            timed[_source("timed", raw["step"], None)] += 1
        known = raw["data"]
        if known.get("file"):
            data[f"data: `{known['file']}`, sha256 {str(known.get('fingerprint', ''))[:12]}"] += 1
    lines = [f"{line} ({count} {'cell' if count == 1 else 'cells'})" for line, count in (trained + timed).items()]
    return (*lines, *data)


def _source(verb: str, raw: Mapping[str, Any], device: str | None) -> str:
    commit = str(raw["commit"])
    short = commit[:7] + (" with changes" if commit.endswith("with changes") else "")
    command = str(raw["command"]).replace("`", "'")  # or else it would end the code
    return f"{verb} by `{command}` at {short} on {machine(raw['hardware'], device)}"


def machine(hardware: Mapping[str, Any], device: str | None = None) -> str:
    cpu, cores = hardware.get("cpu", "an unknown CPU"), hardware.get("cores")
    host = f"{cores} core{'s' if cores != 1 else ''} of {cpu}" if cores else str(cpu)
    where = f"{device}, {host}" if device and device.lower() not in ("cpu", str(cpu).lower()) else host
    software = ", ".join(f"{name} {hardware[name]}" for name in ("torch", "python") if hardware.get(name))
    return f"{where}; {software}" if software else where

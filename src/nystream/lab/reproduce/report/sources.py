"""The sources of the numbers in a table: command, commit, hardware, data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from nystream.lab.reproduce.report.records import Record


def sources(records: Iterable[Record]) -> tuple[str, ...]:
    """One line for each machine and commit that trained, scored or timed some of the records, with the commands, and
    one for each data file."""
    commands: dict[str, Counter[str]] = {}
    files: dict[str, None] = {}
    for record in records:
        raw, step, data = record.raw, record.raw.get("step"), record.raw["data"]
        device = raw.get("training", {}).get("device")
        _count(commands, "trained" if "cell" in raw else "scored", raw, device)
        if step:
            # A rival is timed in another library, whose version belongs to the machine.
            other = {step["backend"]: step["version"]} if step.get("version") else {}
            _count(commands, "timed", {**step, "hardware": {**step["hardware"], **other}}, None)
        if data.get("file"):
            digest = str(data.get("fingerprint", ""))[:12]  # of the contents: the file's own depends on its compression
            files[f"data: `{data['file']}`, hash of its tokens and targets {digest}"] = None
    lines = [f"{where}: {'; '.join(map(_command, counts.items()))}" for where, counts in commands.items()]
    return (*sorted(lines, key=lambda line: ("trained", "scored", "timed").index(line.partition(" ")[0])), *files)


def _count(commands: dict[str, Counter[str]], verb: str, raw: Mapping[str, Any], device: str | None) -> None:
    commit = str(raw["commit"])
    short = commit[:7] + (" with changes" if commit.endswith("with changes") else "")
    command = str(raw["command"]).replace("`", "'")  # a backtick would end the code
    commands.setdefault(f"{verb} at {short} on {machine(raw['hardware'], device)}", Counter())[command] += 1


def _command(command: tuple[str, int]) -> str:
    text, count = command
    return f"`{text}` ({count} {'cell' if count == 1 else 'cells'})"


def machine(hardware: Mapping[str, Any], device: str | None = None) -> str:
    cpu, cores = hardware.get("cpu", "an unknown CPU"), hardware.get("cores")
    host = f"{cores} core{'s' if cores != 1 else ''} of {cpu}" if cores else str(cpu)
    where = f"{device}, {host}" if device and device.lower() not in ("cpu", str(cpu).lower()) else host
    software = ", ".join(
        f"{name} {hardware[name]}" for name in ("torch", "onnxruntime", "python") if hardware.get(name)
    )
    return f"{where}, {software}" if software else where

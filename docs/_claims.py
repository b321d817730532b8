"""What the records of experiments say, in sentences: two blocks of pages, for `render.py`.

The sentences are in claims.md.jinja. It has no digits and never says "certain": numbers and that word come from the
functions here, which compute them from the records, and raise `FalseClaimError` for a sentence that is not true. A
sentence with a word of direction, such as "ahead" or "loses", needs a function that checks it (tests/test_claims.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from _source import ROOT, source, table
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from scipy import stats

from nystream.lab.reproduce import paper
from nystream.lab.reproduce.report import compare, numbers, readme, records
from nystream.lab.reproduce.report.compare import Difference
from nystream.lab.reproduce.report.stacks import LOW_RANK, STREAMING, best_of

LEVEL = 0.05
KINDS = {  # of models, of which the one with the best validation score is named
    "best": (STREAMING, LOW_RANK),
    "one": (("one",), LOW_RANK),
    "deep": (("deep",), LOW_RANK),
    "gru": (("rival",), ("gru",)),
    "lstm": (("rival",), ("lstm",)),
}
READING = (
    "Every number here is computed from the records, and so is every *certain*: the corrected 95 % interval excludes "
    "zero, in the main claim with Holm's correction too. Differences are the first model's test score minus the "
    "second's, in points, or on electricity in 1e-3 of MSE, where lower is better. In parentheses are the plain and "
    "the [corrected interval](#how-to-read-the-differences)."
)
WORDS = {1: "one", 5: "five"}
TASKS = {"gtzan": "GTZAN", "thumos14": "THUMOS14", "electricity": "electricity"}


class FalseClaimError(ValueError):
    """A sentence needs something that the records do not say."""


class Claims:
    """Words and numbers for sentences about the records in a folder, which are named by their files."""

    def __init__(self, folder: Path = ROOT / "results") -> None:
        paths = [*sorted(folder.glob("*.json")), *sorted((folder / "search").glob("*.json"))]
        raw = {path.stem: json.loads(path.read_text("utf-8")) for path in paths}
        self.times = raw.get("runtimes", {"rows": []})
        self.records = {
            name: records.parse(one, name) for name, one in raw.items() if {"cell", "baseline"} & one.keys()
        }
        tables = readme.shown_tables(records.read(folder))
        self.names = {  # {"best": {"gtzan": "gtzan-2-…"}}
            kind: {table.group.task: found.name for table in tables if (found := best_of(table, *of))}
            for kind, of in KINDS.items()
        }
        shown = {name for kind in self.names.values() for name in kind.values()}
        for row in self.times["rows"]:
            self.require(row["cell"] in shown, f"{row['cell']} is not in README.md; run python -m lab runtimes")

    def difference(self, first: str, second: str, part: str = "metrics", metric: str = "") -> Difference:
        found = compare.difference(self.records[first], self.records[second], metric, part)
        if found is None or found.low is None:
            raise FalseClaimError(f"{first} and {second} have too few runs in common")
        return found

    def by(self, first: str, second: str, part: str = "metrics", metric: str = "") -> str:
        """+5.40 (+1.51 to +9.29; corrected +0.33 to +10.47)."""
        found, scale = self.difference(first, second, part, metric), self._metric(first, metric)
        both = (numbers.interval(found, scale, plain=plain) for plain in (True, False))
        return f"{numbers.signed(scale.scale * found.mean, scale.digits)} ({'; corrected '.join(both)})"

    def gain(self, first: str, second: str, part: str = "metrics", metric: str = "") -> str:
        """`by`, if the first is ahead."""
        gain = self._gain(first, self.difference(first, second, part, metric), metric)
        self.require(gain > 0, f"{first} is not ahead of {second}")
        return self.by(first, second, part, metric)

    def loss(self, first: str, second: str, part: str = "metrics", metric: str = "") -> str:
        """`by`, if the first is behind."""
        gain = self._gain(first, self.difference(first, second, part, metric), metric)
        self.require(gain < 0, f"{first} is not behind {second}")
        return self.by(first, second, part, metric)

    def corrected(self, first: str, second: str, part: str = "metrics") -> str:
        """+5.40 (+0.33 to +10.47)."""
        found, metric = self.difference(first, second, part), self._metric(first)
        return f"{numbers.signed(metric.scale * found.mean, metric.digits)} ({numbers.interval(found, metric)})"

    def margin(self, first: str, second: str) -> str:
        """1.36 ± 1.47: by how much the first is behind, with half the width of the corrected interval."""
        found, metric = self.difference(first, second), self._metric(first)
        self.require(self._gain(first, found) < 0, f"{first} is not behind {second}")
        return f"{metric.scale * abs(found.mean):.{metric.digits}f} ± {metric.scale * _half(found):.{metric.digits}f}"

    def score(self, name: str, part: str = "metrics") -> str:
        record = self.records[name]
        return numbers.score(getattr(record, part)[record.metric], self._metric(name)).partition(" ")[0]

    def seeds(self, *names: str) -> str:
        """ "one seed", or how many seeds of each split the records have."""
        (number,) = {
            len(runs) // len({run.split for run in runs}) for runs in (self.records[name].runs for name in names)
        }
        return f"{WORDS[number]} seed{'s' * (number > 1)}"

    def certainly(self, first: str, second: str, part: str = "metrics", metric: str = "") -> str:
        """ "certainly", if the first is: its corrected interval is on the better side of zero."""
        verdict = self._verdict(first, second, part, metric)
        self.require(verdict == "better", f"{first} is not certainly ahead of {second}, but: {verdict}")
        return "certainly"

    def uncertainly(self, first: str, second: str, part: str = "metrics", metric: str = "") -> str:
        """ "not certainly", if neither is ahead of the other: the corrected interval includes zero."""
        verdict = self._verdict(first, second, part, metric)
        self.require(verdict == "no difference found", f"{first} is certainly {verdict} than {second}")
        return "not certainly"

    def nowhere(self, *pairs: tuple[str, str], part: str = "metrics", metric: str = "") -> str:
        """ "nowhere certainly", if the first of no pair is ahead of the second."""
        for first, second in pairs:
            better = self._verdict(first, second, part, metric) == "better"
            self.require(not better, f"{first} is certainly ahead of {second}")
        return "nowhere certainly"

    def gains(self, pairs: Sequence[tuple[str, str]]) -> str:
        """The smallest and the largest difference of some pairs, if the first of each is ahead: +3.79 to +5.89."""
        for pair in pairs:
            self.gain(*pair)
        metric = self._metric(pairs[0][0])
        means = sorted(metric.scale * self.difference(*pair).mean for pair in pairs)
        return " to ".join(numbers.signed(mean, metric.digits) for mean in (means[0], means[-1]))

    def best_valid(self, *names: str) -> str:
        """ "best", if the validation score of each is better than that of all others of its kind, over common runs."""
        for name in names:
            ours = self.records[name]
            for other, record in self.records.items():
                same = "cell" in record.raw and (record.model, record.group) == (ours.model, ours.group)
                if same and other != name:
                    ahead = self._gain(name, self.difference(name, other, "valid")) > 0
                    self.require(ahead, f"{other} has a better validation score than {name}")
        return "best"

    def holm(self, kind: str = "best", **instead: str) -> dict[str, float]:
        """Adjusted p-values of "low rank is ahead of the GRU", by task, after Holm (1979).

        `kind` is a key of `names`; `instead` names the model of a task to take for it.
        """
        names = self.names[kind] | instead
        raw = {task: self.p(name, self.names["gru"][task]) for task, name in names.items()}
        adjusted, least = {}, 0.0
        for place, task in enumerate(sorted(raw, key=raw.__getitem__)):
            least = max(least, min(1.0, raw[task] * (len(raw) - place)))
            adjusted[task] = least
        for task, name in names.items():
            self.require(self._gain(name, self.difference(name, self.names["gru"][task])) > 0, f"{name} is behind")
        return adjusted

    def holds(self, adjusted: dict[str, float]) -> str:
        """The tasks on which a claim holds: GTZAN, THUMOS14 and electricity."""
        names = [name for task, name in TASKS.items() if adjusted[task] < LEVEL]
        self.require(bool(names), "the claim holds on no task")
        *most, last = names
        return f"{', '.join(most)} and {last}" if most else f"{last} alone"

    def p(self, first: str, second: str) -> float:
        """The two-sided p-value of the corrected t test."""
        found = self.difference(first, second)
        quantile = stats.t.ppf((1 + compare.CONFIDENCE) / 2, found.number - 1)
        return float(2 * stats.t.sf(abs(found.mean) / _half(found) * quantile, found.number - 1))

    def lead(self, task: str) -> str:
        """That of low rank over the GRU, which is certain but for Holm's correction: +5.40 (+0.33 to +10.47)."""
        pair = self.names["best"][task], self.names["gru"][task]
        self.certainly(*pair)
        self.require(self.holm()[task] >= LEVEL, f"with Holm's correction, {pair[0]} is ahead of {pair[1]} too")
        return self.corrected(*pair)

    def headline(self) -> str:
        """The table of the three claims."""
        adjusted = self.holm()
        rows = []
        for task, name in self.names["best"].items():
            found, metric = self.difference(name, self.names["gru"][task]), self._metric(name)
            rows.append(
                [
                    f"{TASKS[task]}, {metric.title}, {metric.change}",
                    numbers.signed(metric.scale * found.mean, metric.digits),
                    *(numbers.interval(found, metric, plain=plain) for plain in (True, False)),
                    numbers.over(found, task),
                    f"{self.p(name, self.names['gru'][task]):.3f}",
                    f"{adjusted[task]:.3f}",
                    "certainly ahead" if adjusted[task] < LEVEL else "not certain",
                ]
            )
        return table(["low rank − GRU", "mean", "95 % interval", "corrected", "over", "p", "p, Holm", ""], rows)

    def width(self, name: str) -> str:
        return str(self.records[name].cell["embed_dim"])

    def widths(self, full: str, narrower: Sequence[str]) -> str:
        """The table of narrower models minus the usual one, on test and validation data."""
        rows = [[self.width(name), self.by(name, full), self.by(name, full, "valid")] for name in narrower]
        return table(["width", "test data", "validation data"], rows)

    def with_test_videos(self, first: str, second: str) -> str:
        """1.34: half the width of the interval with n_test/n_train of the shared test videos, which must include 0."""
        found, metric = self.difference(first, second), self._metric(first)
        assert found.plain is not None
        half = found.plain * (1 + found.number * 200 / 160) ** 0.5  # videos for testing and for training
        self.require(abs(found.mean) < half, f"{first} is ahead of {second} whatever the test videos")
        return f"{metric.scale * half:.{metric.digits}f}"

    def ratio(self, task: str, model: str, runtime: str) -> str:
        """The time of a step, relative to that of the GRU in onnxruntime."""
        times = {row["model"]: row["median_microseconds"] for row in self.times["rows"] if row["task"] == task}
        return numbers.digits(times[model][runtime] / times["GRU"]["onnxruntime"], 2)

    def runtimes(self) -> str:
        """The table of times in one runtime."""
        rows = [
            [
                TASKS[row["task"]],
                row["model"],
                *(
                    numbers.digits(times[name], 3) if name in (times := row["median_microseconds"]) else "–"
                    for name in ("pool", "onnxruntime")
                ),
                self.ratio(row["task"], row["model"], "onnxruntime"),
            ]
            for row in self.times["rows"]
        ]
        head = ["task", "model", "compiled pool, µs", "onnxruntime, µs", "onnxruntime, relative to the GRU"]
        return f"{table(head, rows)}\n\n{source(self.times)}, onnxruntime {self.times['onnxruntime']}."

    def reading(self) -> str:
        return READING

    def require(self, holds: bool, otherwise: str) -> None:
        if not holds:
            raise FalseClaimError(otherwise)

    def block(self, name: str) -> str:
        """A macro of the template."""
        loader = FileSystemLoader(Path(__file__).parent)
        environment = Environment(loader=loader, undefined=StrictUndefined, trim_blocks=True)
        module = environment.get_template("claims.md.jinja").make_module({"say": self})
        # A paragraph or an item of a list is one line.
        return re.sub(r"(?<!\n)\n(?![\n|]|- )\s*", " ", getattr(module, name)().strip())

    def _metric(self, name: str, metric: str = "") -> paper.Metric:
        return paper.METRICS[metric or self.records[name].metric]

    def _gain(self, name: str, found: Difference, metric: str = "") -> float:
        return found.mean if self._metric(name, metric).higher else -found.mean

    def _verdict(self, first: str, second: str, part: str, metric: str) -> str:
        """That of a report; a baseline, which has one run for all seeds, is always subtracted."""
        higher = self._metric(first, metric).higher
        if "baseline" in self.records[first].raw:
            return self.difference(second, first, part, metric).verdict(not higher)
        return self.difference(first, second, part, metric).verdict(higher)


def _half(found: Difference) -> float:
    assert found.high is not None
    return found.high - found.mean

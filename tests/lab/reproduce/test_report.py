"""The report: the same contents in Markdown and HTML, for any subset of the results."""

import re
import runpy
from html.parser import HTMLParser
from pathlib import Path

import pytest

from nystream.lab.reproduce.report import html, markdown, plots, readme
from nystream.lab.reproduce.report.document import (
    Document,
    Figure,
    Grid,
    GridColumn,
    GridRow,
    Paragraph,
    Section,
    Sources,
)
from nystream.lab.reproduce.report.grouping import tables
from nystream.lab.reproduce.report.records import parse
from nystream.lab.reproduce.report.sections import document

fake = runpy.run_path(str(Path(__file__).with_name("fake_records.py")))
cell, baseline = fake["cell"], fake["baseline"]
FEW = {"splits": 1, "seeds": 1}


def parsed(raw):
    return [parse(one, one["name"]) for one in raw]


class Balanced(HTMLParser):
    """Check that every element is closed, in order."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links = [], [], []

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.ids += [found["id"]] if "id" in found else []
        self.links += [value for name, value in attrs if name in ("href", "src", "xlink:href")]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def checked(page):
    parser = Balanced()
    parser.feed(page)
    assert parser.open == []
    assert len(set(parser.ids)) == len(parser.ids)
    assert all(link.startswith("#") for link in parser.links)
    assert {link[1:] for link in parser.links} <= set(parser.ids)
    assert not re.search(r"<script|<link|@import|url\(['\"]?http", page)
    return page


def checked_markdown(page):
    """Check that all rows of a table have the same number of cells."""
    for block in page.split("\n\n"):
        if block.startswith("|"):
            assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.split("\n")}) == 1
    assert "None" not in page
    assert not re.search(r"\bnan\b", page, re.IGNORECASE)
    return page


PARTIAL = {
    "one cell": [cell()],
    "one run of each": [cell(model=model, **FEW, timed=False) for model in fake["MODELS"]],
    "a baseline alone": [baseline("electricity", "persistence", 0.333)],
    "an ablation without its own": [cell(learned=True, suffix="-learned")],
    "a sweep without its own": [cell(landmarks=m, suffix=f"-m{m}") for m in (2, 8)],
    "two tasks": [cell("thumos14", **FEW), cell("electricity", model="full", **FEW)],
    "only other splits": [cell(protocol="filtered", **FEW), cell(model="full", protocol="filtered", **FEW)],
    "rivals alone": [cell(model="gru", **FEW), cell(model="lstm", **FEW, timed=False)],
    "a rival beside one block": [cell(**FEW), cell(model="gru", layers=2, splits=2)],
    "full attention beside a rival": [cell(model="co-full-single", **FEW), cell(model="gru", **FEW)],
    "deep stacks alone": [cell(layers=layers, stack="deep", **FEW) for layers in (2, 4)],
    "no run in common": [cell(splits=1), cell(model="co-full-single", splits=1) | {"runs": [
        {"split": 7, "seed": seed} for seed in range(5)]}],
}  # fmt: skip


@pytest.mark.parametrize("name", PARTIAL)
def test_part_of_the_results(name):
    records = parsed(PARTIAL[name])
    pictures = {plot.name: plots.drawn(plot).inline() for plot in plots.every(tables(records))}
    page = document(records)
    assert [figure.name for figure in page.figures()] == list(pictures)
    checked(html.render(page, pictures))
    checked_markdown(markdown.render(page))
    checked_markdown(readme.results(records))


@pytest.fixture(scope="module")
def everything():
    return parsed(fake["everything"]())


def test_everything_in_markdown(everything):
    page = checked_markdown(markdown.render(document(everything), {"gtzan-costs": "plots/gtzan-costs.png"}))
    assert "| CoNy-Fix | 1 | 90.76 ± 5.52 |" in page
    assert "(plots/gtzan-costs.png)" in page
    assert "thumos14-costs" not in page
    assert "calibrated mAP" in page
    assert page.count("**chosen**") == 5 + 2  # a setting of five models, and a model of two tasks with stacks
    assert "| **better** | " in page  # the verdict stands out, not what comes after it
    trained = [line for line in page.split("\n") if line.startswith("- trained at 0123456 on Imaginary GPU, 2 cores")]
    assert len(trained) == len(tables(everything)) == page.count("<details>")
    assert "`nystream reproduce gtzan --splits 5 --seeds 5` (" in trained[0]
    assert page.count("- timed at 0123456 on 2 cores of Imaginary CPU") == len(trained)


def test_everything_in_html(everything):
    page = checked(html.render(document(everything), {"gtzan-costs": '<svg id="made-up"></svg>'}))
    assert 'href="#thumos14"' in page
    assert "prefers-color-scheme: dark" in page
    assert page.count("<table>") == markdown.render(document(everything)).count("\n| ---")
    assert '<figure id="plot-gtzan-costs">' in page


def test_the_numbers_are_those_of_the_paper_and_the_record():
    raw = cell(model="full", splits=1, seeds=2)
    raw["metrics"]["accuracy"] = fake["scores"]([0.9, 0.92])
    raw["operations"] |= {"paper": 5_568_120.0, "relative_paper": 1.0}
    page = markdown.render(document(parsed([raw]), figures=False))
    row = next(line for line in page.split("\n") if line.startswith("| Att | 1 |"))
    assert row.startswith("| Att | 1 | 93.12 ± 5.44 | 91.00 ± 1.41 | −2.12 | 5.57 | ×1 |")
    # The bytes of the stream that was timed, not those of a state in eager torch.
    assert row.endswith("| 156 |")
    assert "not run yet, 11 of 12 models" in page
    assert "2 of the counts and ratios that the paper prints do not follow" in page


def test_the_readme_is_short(everything):
    page = checked_markdown(readme.results(everything))
    assert len(page.splitlines()) <= 10
    assert "fault-filtered" not in page
    assert "#" not in page


def test_a_page_for_the_docs(everything):
    page = checked_markdown(markdown.results_page(everything, images="img/results", level=3))
    assert "](img/results/gtzan-landmarks.png)" in page
    assert "\n### GTZAN" in page
    assert "\n## " not in page
    assert "![" not in markdown.results_page(everything)


def test_what_comes_from_outside_is_escaped():
    evil = '<b a="1">|**'
    part = Grid(evil, (GridColumn(evil),), (GridRow((evil,)), GridRow((evil,), heading=True)), (evil,))
    page = Document(evil, (Paragraph(evil),), (Section(evil, "x", (part, Figure("y", evil, evil), Sources((evil,)))),))
    assert "<b a" not in checked(html.render(page, {"y": "<svg></svg>"}))
    assert '| &lt;b a="1">\\|** |' in markdown.render(page)


def test_a_plot_is_the_same_each_time_and_takes_the_pages_colours():
    (table,) = tables(parsed([cell(model=model, **FEW) for model in fake["MODELS"]]))
    plot = plots.drawable(table)["gtzan-costs"]
    one, other = plots.drawn(plot), plots.drawn(plot)
    assert one.svg == other.svg
    inline = one.inline()
    assert inline.startswith("<svg ")
    assert "currentColor" in inline
    assert "var(--blue)" in inline
    assert plots.INK not in inline
    assert one.png.startswith(b"\x89PNG")

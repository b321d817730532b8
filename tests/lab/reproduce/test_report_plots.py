"""Plots and their page are legible: labels, scales, and content that needs scrolling."""

import re
import runpy
from itertools import combinations
from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib.text import Annotation, Text

from nystream.lab.reproduce.report import html, plots
from nystream.lab.reproduce.report.document import Document
from nystream.lab.reproduce.report.grouping import tables
from nystream.lab.reproduce.report.records import parse

fake = runpy.run_path(str(Path(__file__).with_name("fake_records.py")))
cell, scores = fake["cell"], fake["scores"]
SEEDS = {"splits": 1, "seeds": 5}
# (model, blocks): score in points, µs a step, operations; of THUMOS14, whose points lie closest together.
CROWDED = {
    ("full", 1): (59.634, 8361, 8_458_304),
    ("full", 2): (58.787, 20311, 16_916_608),
    ("co-full-single", 1): (59.634, 631, 132_224),
    ("co-full-single", 2): (58.787, 16323, 589_182),
    ("nystrom", 1): (59.652, 8849, 4_709_984),
    ("nystrom", 2): (58.858, 21234, 9_419_968),
    ("nystrom-fixed", 1): (59.803, 8464, 4_212_816),
    ("nystrom-fixed", 2): (58.093, 20972, 8_425_632),
    ("co-cont-single", 1): (59.633, 671, 202_956),
    ("co-cont-single", 2): (58.829, 16298, 2_951_569),
    ("co-fixed-single", 1): (59.803, 327, 115_040),
    ("co-fixed-single", 2): (58.093, 15459, 2_280_065),
}


def only(raw):
    (table,) = tables([parse(one, one["name"]) for one in raw])
    return plots.drawable(table)


def figure(plot):
    with mpl.rc_context(plots.STYLE):
        found = plots.filled(plot)
        found.canvas.draw()
    return found


def crowded():
    for (model, layers), (score, time, operations) in CROWDED.items():
        raw = cell("thumos14", model, layers, **SEEDS)
        raw["metrics"]["map"] = scores([score / 100 + shift for shift in (-0.01, 0, 0.01, 0, 0)])
        raw["step"]["median_microseconds"] = time
        raw["operations"]["corrected"] = operations
        yield raw


def boxes_of(axis, pixels):
    """Boxes of the labels, without their lines, and of the markers of an axis."""
    renderer = axis.figure.canvas.get_renderer()
    labels = {
        text.get_text(): Text.get_window_extent(text, renderer)
        for text in axis.findobj(Annotation)
        if text.get_text() and text.get_visible()
    }
    markers = []
    for line in (line for line in axis.lines if line.get_marker() != "None"):
        x, y = axis.transData.transform(line.get_xydata())[0]
        half = (line.get_markersize() + line.get_markeredgewidth()) / 2 * pixels
        markers.append(mpl.transforms.Bbox([[x - half, y - half], [x + half, y + half]]))
    return labels, markers


@pytest.mark.parametrize("panel", [0, 1])
def test_a_label_is_on_no_marker_and_no_other_label(panel):
    axis = figure(only(crowded())["thumos14-costs"]).axes[panel]
    labels, markers = boxes_of(axis, plots.DPI / 72)
    assert len(labels) == len(markers) == len(CROWDED)
    assert [name for name, box in labels.items() if box.count_overlaps(markers)] == []
    assert [pair for pair in combinations(labels, 2) if labels[pair[0]].overlaps(labels[pair[1]])] == []
    frame = axis.get_window_extent()
    assert all(frame.x0 <= box.x0 and box.x1 <= frame.x1 for box in labels.values())


# Kind, model, blocks: score in points, µs a step; close together as in a first run of THUMOS14.
CROWDED_STACKS = {
    ("paper", "co-full-single", 1): (59.6, 631), ("paper", "co-cont-single", 1): (59.6, 671),
    ("paper", "co-fixed-single", 1): (59.8, 327), ("deep", "co-full-single", 2): (56.8, 1190),
    ("deep", "co-cont-single", 2): (57.0, 1270), ("deep", "co-fixed-single", 2): (59.3, 1145),
    ("deep", "co-full-single", 4): (55.5, 2400), ("deep", "co-cont-single", 4): (56.1, 2500),
    ("deep", "co-fixed-single", 4): (58.0, 2300), ("paper", "co-full-single", 2): (58.8, 16323),
    ("paper", "co-cont-single", 2): (58.8, 16298), ("paper", "co-fixed-single", 2): (58.1, 15459),
    ("paper", "gru", 1): (60.6, 1161), ("paper", "gru", 2): (60.4, 2200), ("paper", "lstm", 1): (60.2, 1500),
}  # fmt: skip


def crowded_stacks():
    for (stack, model, layers), (score, time) in CROWDED_STACKS.items():
        raw = cell("thumos14", model, layers, stack=stack, suffix=f"-{stack}", **SEEDS)
        raw["metrics"]["map"] = scores([score / 100 + shift for shift in (-0.01, 0, 0.012, 0, layers / 1000)])
        raw["step"]["median_microseconds"] = time
        yield raw


def test_stacks_and_rivals_are_legible():
    plot = only(crowded_stacks())["thumos14-stacks"]
    drawn = figure(plot)
    (axis,) = drawn.axes
    _, markers = boxes_of(axis, plots.DPI / 72)
    names = [text.get_text() for text in axis.findobj(Annotation)]
    assert len(names) == len(markers) == len(CROWDED_STACKS)
    assert {"GRU 1", "GRU 2", "LSTM 1", "Co 4", "CoNy-Fix 2"} <= set(names)
    boxes = [Text.get_window_extent(text, drawn.canvas.get_renderer()) for text in axis.findobj(Annotation)]
    assert [name for name, box in zip(names, boxes, strict=True) if box.count_overlaps(markers)] == []
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    # Kinds are told apart without colour, and all of the legend is on the page.
    assert {line.get_marker() for line in axis.lines} - {"None"} == {"o", "D", "s", "^"}
    (legend,) = drawn.legends
    box = legend.get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= drawn.bbox.x1
    whiskers = [line for line in axis.lines if len(set(line.get_xdata())) == 1 and len(line.get_xdata()) == 2]
    assert len(whiskers) == len(CROWDED_STACKS) - 1  # all but the chosen model's, which the others are compared with


def changed(model, suffix, shifts, **changes):
    """A cell of other settings whose scores are those of the table's own, shifted run by run."""
    raw = cell("thumos14", model, suffix=suffix, timed=False, **SEEDS, **changes)
    own = cell("thumos14", model, **SEEDS)["metrics"]["map"]["values"]
    raw["metrics"]["map"] = scores([value + shift for value, shift in zip(own, shifts, strict=True)])
    return raw


def near_zero(scale=0.003):
    return [scale * part for part in (-1, 1, 0.5, -0.5, 0.2)]


def rows(axis):
    return [text.get_text() for text in axis.get_yticklabels()]


OWN = [cell("thumos14", model, **SEEDS) for model in ("co-full-single", "co-fixed-single")]
NEAR = [
    changed("co-fixed-single", "-learned", near_zero(), learned=True),
    changed("co-fixed-single", "-exact", near_zero(0.005), pinv="exact"),
    changed("co-fixed-single", "-ridge", near_zero(0.0001), pinv="ridge"),
]
FAR_OFF = [-0.075 + shift for shift in near_zero()]


@pytest.mark.parametrize("model", ["co-full-single", "co-fixed-single"])
def test_a_far_value_has_a_panel_of_its_own(model):
    plot = only([*OWN, *NEAR, changed(model, "-n1", FAR_OFF, window=1)])["thumos14-settings"]
    far, near = sorted(figure(plot).axes, key=lambda axis: len(rows(axis)))
    name = {"co-full-single": "Co", "co-fixed-single": "CoNy-Fix"}[model]
    assert rows(far) == [f"{name}, 1 block", "n = 1"]
    assert rows(near) == ["CoNy-Fix, 1 block", "exact inverse", "learned landmarks", "ridge, λ = 0.1"]
    assert far.get_xlim()[0] < -7
    assert -2 < near.get_xlim()[0] < 0 < near.get_xlim()[1] < 2
    assert "Each panel has its own scale." in plot.caption


def test_values_of_one_scale_share_a_panel():
    plot = only([*OWN, *NEAR, changed("co-full-single", "-n32", near_zero(), window=32)])["thumos14-settings"]
    (axis,) = figure(plot).axes
    assert [row for row in rows(axis) if "block" in row] == ["Co, 1 block", "CoNy-Fix, 1 block"]
    assert "panel" not in plot.caption


def test_what_is_the_same_has_no_scale():
    same = changed("co-full-single", "-n32", [0, 1e-9, -1e-9, 0, 0], window=32)
    (axis,) = figure(only([*OWN, *NEAR, same])["thumos14-settings"]).axes
    assert len(rows(axis)) == 6
    (alone,) = figure(only([*OWN, same])["thumos14-settings"]).axes
    assert rows(alone) == ["Co, 1 block", "n = 32"]


def test_an_interval_narrower_than_its_dot_is_seen():
    axis = figure(only([*OWN, *NEAR])["thumos14-settings"]).axes[0]
    row = rows(axis).index("ridge, λ = 0.1")
    dot, ends = sorted((one for one in axis.lines if one.get_ydata()[0] == row), key=lambda one: len(one.get_xdata()))
    pixels = [axis.transData.transform((x, row))[0] for x in ends.get_xdata()]
    assert pixels[1] - pixels[0] < 2 * dot.get_markersize() * plots.DPI / 72
    assert ends.get_marker() == "|"
    assert ends.get_markersize() > dot.get_markersize()
    assert ends.get_zorder() > dot.get_zorder()


def test_a_plot_on_a_page_hides_nothing_beneath_it():
    one = plots.drawn(only([*OWN, *NEAR])["thumos14-settings"])
    assert 'id="patch_1"' in one.svg.decode()
    assert "patch_1" not in one.inline()
    # What fills the page's colour is a marker at most.
    assert "fill: var(--page)" not in one.inline()


def test_a_page_shows_what_is_out_of_sight():
    page = html.render(Document("A title", (), ()), {})
    shades = re.findall(r"--shade: (#\w+)", page)
    assert len(set(shades)) == 2  # by day and by night
    rule = re.findall(r"\.scroll, \.wide \{([^}]*)\}", page)[0]
    assert re.search(r"var\(--page\).*no-repeat local,\s.*var\(--shade\).*no-repeat scroll", rule, re.DOTALL)
    # A tint that let nothing through would hide the shade of its row.
    tints = re.findall(r"--(?:better|worse): (#\w+)", page)
    assert len(tints) == 4
    assert all(len(tint) == len("#rrggbbaa") for tint in tints)
    printed = page[page.index("@media print") :]
    assert ".scroll, .wide { overflow: visible; background: none; }" in printed

"""Cells: which are valid, and names that tell them apart."""

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nystream.lab.reproduce.cells import FIXED, FULL, MODELS, TWINS, Cell, grid
from nystream.lab.reproduce.problems import TASKS, problem

SETTINGS = [
    {**inverse, **extra}
    for inverse in (
        {},
        {"pinv": "exact"},
        {"pinv": "none", "method": "x"},
        {"method": "x"},
        *({"pinv": "ridge", "pinv_ridge": strength} for strength in (0.03, 0.1, 0.3, 1.0)),
    )
    for extra in ({}, {"learned": True}, {"distilled": True}, {"learned": True, "distilled": True}, {"stack": "deep"})
]


def every(task):
    found = problem(task)
    for protocol, tokens, window in itertools.product(found.protocols, found.tokens, (found.window, 77)):
        usual = found.usual(protocol=protocol, tokens=tokens, window=window)
        yield from grid(usual, list(MODELS), (1, 2, 3), found.sweep, SETTINGS)


@pytest.mark.parametrize("task", TASKS)
def test_names_are_unique(task):
    names = [problem(task).cell_name(one) for one in every(task)]
    assert len(names) > 500
    assert len(set(names)) == len(names)
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789.-") for name in names)


@st.composite
def cells(draw, task="gtzan"):
    found, model = problem(task), draw(st.sampled_from(list(MODELS)))
    changes = {}
    if model not in FULL:
        changes |= {"landmarks": draw(st.integers(1, 64)), "distilled": draw(st.booleans())}
    if model in FIXED:
        pinv = draw(st.sampled_from(["newton", "exact", "ridge", "none"]))
        changes |= {"pinv": pinv, "method": "x" if pinv == "none" else draw(st.sampled_from(["qk", "x"]))}
        changes["learned"] = draw(st.booleans())
        if pinv == "ridge":
            changes["pinv_ridge"] = draw(st.floats(1e-8, 1e8) | st.sampled_from([0.1, 0.1000001]))
    for name, sizes in (("window", (64, 65, 120)), ("embed_dim", (64, 192)), ("num_heads", (4, 16))):
        changes[name] = draw(st.sampled_from(sizes))
    protocol, layers = draw(st.sampled_from(found.protocols)), draw(st.integers(1, 3))
    if layers > 1 and model in TWINS.values():
        changes["stack"] = draw(st.sampled_from(["paper", "deep"]))
    return found.usual(model=model, layers=layers, protocol=protocol, **changes)


@given(cells(), cells())
def test_two_cells_have_one_name_only_if_they_are_one(a, b):
    found = problem("gtzan")
    assert (found.cell_name(a) == found.cell_name(b)) == (a == b)


@given(cells())
def test_what_a_cell_shares_with_others(one):
    assert Cell(**one.to_dict()) == one
    assert one.twin.model == TWINS.get(one.model, one.model)
    assert one.twin.twin == one.twin
    assert one.twin.phase_one == one.phase_one
    assert one.phase_one.phase_one == one.phase_one
    assert not one.phase_one.fixed
    assert one.phase_one.landmarks == one.landmarks
    assert (one.phase_one == one.twin) == (not one.fixed)
    teacher = one.teacher
    assert (teacher.model, teacher.landmarks, teacher.distilled) == ("co-full-single", None, False)
    same = ("task", "layers", "window", "embed_dim", "num_heads", "protocol", "tokens")
    for other in (one.twin, one.phase_one, teacher):
        assert all(getattr(other, name) == getattr(one, name) for name in same)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"model": "co-full-retro"}, "model"),
        ({"model": "full", "landmarks": 4}, "landmarks=4 does not fit model 'full', which has none"),
        ({"landmarks": None}, "landmarks=None does not fit model"),
        ({"landmarks": 0}, "landmarks=0 must be 1 to 120"),
        ({"landmarks": 121}, "landmarks=121 must be 1 to 120"),
        ({"layers": 0}, "layers=0"),
        ({"window": -1}, "window=-1"),
        ({"pinv": "inverse"}, "pinv='inverse'"),
        ({"pinv": "none"}, "method='x'"),
        ({"pinv": "ridge", "pinv_ridge": 0.0}, "pinv_ridge=0.0"),
        ({"pinv": "ridge", "pinv_ridge": float("nan")}, "pinv_ridge=nan"),
        ({"pinv_ridge": 0.3}, "pinv_ridge=0.3 is for pinv='ridge'"),
        ({"method": "k"}, "method='k'"),
        ({"model": "co-cont-single", "learned": True}, "no fixed landmarks"),
        ({"model": "nystrom", "pinv": "exact"}, "no fixed landmarks"),
        ({"model": "full", "landmarks": None, "distilled": True}, "the teacher"),
    ],
)
def test_refusals(changes, named):
    usual = problem("gtzan").usual(model="co-fixed-single", landmarks=4)
    with pytest.raises(ValueError, match=named):
        dataclasses.replace(usual, **changes)


def test_the_grid_has_the_table_and_no_cell_twice():
    found = problem("gtzan")
    cells = list(grid(found.usual(), list(MODELS), (1, 2), (4, 4)))
    assert len(cells) == len(set(cells)) == 12
    assert [one.model for one in cells[:6]] == [
        "full", "co-full-single", "nystrom", "co-cont-single", "nystrom-fixed", "co-fixed-single",
    ]  # fmt: skip
    assert [found.cell_name(one) for one in cells[-2:]] == ["gtzan-2-nystrom-fixed", "gtzan-2-co-fixed"]


def test_settings_go_to_the_models_that_have_them():
    usual = problem("thumos14").usual()
    learned = list(grid(usual, list(MODELS), (1,), (16,), [{"learned": True}]))
    assert {one.model for one in learned} == set(FIXED)
    taught = list(grid(usual, list(MODELS), (1,), (16,), [{"distilled": True}]))
    assert {one.model for one in taught} == set(MODELS) - set(FULL)


def test_no_landmarks_at_all_are_not_the_usual_ones():
    with pytest.raises(ValueError, match="landmarks=0"):
        list(grid(problem("gtzan").usual(), ["nystrom"], (1,), (0,)))


def test_only_continual_models_of_several_blocks_are_deep():
    usual = problem("gtzan").usual()
    found = list(grid(usual, list(MODELS), (1, 2), (4,), [{"stack": "deep"}]))
    assert {(one.model, one.layers) for one in found} == {(model, 2) for model in TWINS.values()}
    assert problem("gtzan").cell_name(found[0]) == "gtzan-2-co-full-deep"
    assert all(one.phase_one.stack == one.teacher.stack == "deep" for one in found)
    for model, layers in (("full", 2), ("co-full-single", 1)):
        with pytest.raises(ValueError, match="stack='deep' is for continual models of several blocks"):
            problem("gtzan").usual(model=model, layers=layers, stack="deep")

"""Cells: which are valid, and names that tell them apart."""

import dataclasses
import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nystream.lab.reproduce import store
from nystream.lab.reproduce.cells import FIXED, FULL, LATER, MODELS, RIVALS, TWINS, Cell, grid
from nystream.lab.reproduce.problems import TASKS, problem

RESULTS = Path(__file__).parents[3] / "results"

SETTINGS = [
    {**inverse, **extra}
    for inverse in (
        {},
        {"pinv": "exact"},
        {"pinv": "none", "method": "x"},
        {"method": "x"},
        *({"pinv": "ridge", "pinv_ridge": strength} for strength in (0.03, 0.1, 0.3, 1.0)),
    )
    for extra in (
        {},
        {"learned": True},
        {"distilled": True},
        {"learned": True, "distilled": True},
        {"stack": "deep"},
        {"decay": True},
        {"at_once": True},
        {"stack": "deep", "decay": True, "at_once": True, "transferred": True, "dropout": 0.5, "one_scale": True},
    )
]


def every(task):
    found = problem(task)
    for protocol, tokens, window in itertools.product(found.protocols, found.tokens, (found.window, 77)):
        usual = found.usual(protocol=protocol, tokens=tokens, window=window)
        yield from grid(usual, [*MODELS, *RIVALS], (1, 2, 3), found.sweep, SETTINGS).cells


@pytest.mark.parametrize("task", TASKS)
def test_names_are_unique(task):
    names = [problem(task).cell_name(one) for one in every(task)]
    assert len(names) > 500
    assert len(set(names)) == len(names)
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789.-") for name in names)


@st.composite
def cells(draw, task="gtzan"):
    found, model = problem(task), draw(st.sampled_from([*MODELS, *RIVALS]))
    changes = {"distilled": draw(st.booleans()), "dropout": draw(st.none() | st.floats(0, 1, exclude_max=True))}
    if model not in FULL and model not in RIVALS:
        changes["landmarks"] = draw(st.integers(1, 64))
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
    if model in TWINS.values() and (layers == 1 or changes["stack"] == "deep"):
        changes["decay"] = draw(st.booleans())
    if model in FIXED and (layers == 1 or changes.get("stack") == "deep"):
        changes["at_once"] = draw(st.booleans())
        changes["transferred"] = changes["at_once"] and draw(st.booleans())
    if changes.get("stack") == "deep" and draw(st.booleans()):
        changes["windows"] = draw(st.permutations([64, 65, 120][:layers]))
        changes["window"] = max(changes["windows"])
    return found.usual(model=model, layers=layers, protocol=protocol, **changes)


@given(cells(), cells())
def test_two_cells_have_one_name_only_if_they_are_one(a, b):
    found = problem("gtzan")
    assert (found.cell_name(a) == found.cell_name(b)) == (a == b)


@given(cells())
def test_what_a_cell_shares_with_others(one):
    assert Cell(**json.loads(json.dumps(one.to_dict()))) == one
    assert all(
        one.to_dict().get(name, value) == getattr(one, name) for name, value in LATER.items() if name != "windows"
    )
    assert one.twin.model == TWINS.get(one.model, one.model)
    assert one.twin.twin == one.twin
    assert one.twin.phase_one == one.phase_one
    assert one.phase_one.phase_one == one.phase_one
    assert not one.phase_one.fixed
    assert one.phase_one.landmarks == (None if one.at_once else one.landmarks)
    assert (one.phase_one == one.twin) == (not one.fixed)
    teacher = one.teacher
    assert (teacher.model, teacher.landmarks, teacher.distilled) == ("co-full-single", None, False)
    same = ("task", "window", "embed_dim", "num_heads", "protocol", "tokens", "stack", "decay", "windows")
    for other in (one.twin, one.phase_one, teacher):
        assert all(getattr(other, name) == getattr(one, name) for name in same)
    assert one.twin.layers == one.phase_one.layers == one.layers
    assert teacher.layers == (1 if one.model in RIVALS else one.layers)
    assert not one.phase_one.at_once
    assert not one.phase_one.transferred


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
        (
            {"model": "co-cont-single", "learned": True},
            "pinv and learned are for fixed landmarks, not for 1 block of 'co-cont-single'",
        ),
        ({"model": "nystrom", "pinv": "exact"}, "are for fixed landmarks"),
        ({"model": "gru"}, "landmarks=4 does not fit model 'gru', which has none"),
        ({"model": "gru", "landmarks": None, "learned": True}, "are for fixed landmarks"),
        ({"model": "lstm", "landmarks": None, "layers": 2, "stack": "deep"}, "stack='deep' is for continual models"),
        ({"model": "gru", "landmarks": None, "decay": True}, "decay is for continual models of one block"),
        ({"model": "nystrom", "decay": True}, "decay is for continual models"),
        ({"layers": 2, "decay": True}, "or of several with stack='deep', not for 2 blocks"),
        (
            {"layers": 2, "at_once": True},
            "at_once is for fixed landmarks in one block or a deep stack, not for 2 blocks",
        ),
        ({"model": "co-cont-single", "at_once": True}, "at_once is for fixed landmarks"),
        ({"transferred": True}, "transferred=True is for at_once=True"),
        ({"layers": 2, "windows": (60, 120)}, "is for stack='deep', but stack is 'paper'"),
        ({"layers": 3, "stack": "deep", "windows": (60, 120)}, "is for 2 blocks, not for 3 blocks"),
        ({"layers": 2, "stack": "deep", "windows": (60, 100)}, "window=120 must be the largest"),
        ({"layers": 2, "stack": "deep", "windows": (3, 120)}, "landmarks=4 must be at most 3"),
        ({"layers": 2, "stack": "deep", "windows": (120, 120)}, "all the same"),
        ({"dropout": 1.0}, "dropout=1.0 must be at least 0 and less than 1"),
    ],
)
def test_refusals(changes, named):
    usual = problem("gtzan").usual(model="co-fixed-single", landmarks=4)
    with pytest.raises(ValueError, match=named):
        dataclasses.replace(usual, **changes)


def test_the_grid_has_the_table_and_no_cell_twice():
    found = problem("gtzan")
    cells = grid(found.usual(), list(MODELS), (1, 2), (4, 4)).cells
    assert len(cells) == len(set(cells)) == 12
    assert [one.model for one in cells[:6]] == [
        "full", "co-full-single", "nystrom", "co-cont-single", "nystrom-fixed", "co-fixed-single",
    ]  # fmt: skip
    assert [found.cell_name(one) for one in cells[-2:]] == ["gtzan-2-nystrom-fixed", "gtzan-2-co-fixed"]


def test_settings_go_to_the_models_that_have_them():
    usual, models = problem("thumos14").usual(), [*MODELS, *RIVALS]

    def ran(layers=(1,), **setting):
        return grid(usual, models, layers, (16,), [setting])

    assert {one.model for one in ran(learned=True).cells} == set(FIXED)
    assert {one.model for one in ran(distilled=True).cells} == set(models)
    assert {one.model for one in ran(decay=True).cells} == set(TWINS.values())
    deep = ran((1, 2), stack="deep")
    assert {(one.model, one.layers) for one in deep.cells} == {(model, 2) for model in TWINS.values()}
    assert list(deep.left_out) == ["stack='deep' is for continual models of several blocks"]
    (left_out,) = deep.left_out.values()
    assert len(left_out) == len(set(left_out)) == 2 * len(models) - 3
    at_once = ran((1, 2), at_once=True)
    assert {(one.model, one.layers) for one in at_once.cells} == {(model, 1) for model in FIXED}
    both = grid(usual, ["full", "co-fixed-single"], (1,), (16,), [{}, {"pinv": "exact"}])
    assert len(both.cells) == 3
    assert both.left_out == {}  # each model has a cell


def test_names_of_new_cells():
    usual = problem("thumos14").usual(model="co-fixed-single", landmarks=16)
    name = problem("thumos14").cell_name
    pyramid = dataclasses.replace(usual, layers=3, stack="deep", window=256, windows=(16, 64, 256))
    assert name(pyramid) == "thumos14-3-co-fixed-n16-64-256-deep"
    assert name(dataclasses.replace(pyramid, decay=True, at_once=True, dropout=0.5)) == (
        "thumos14-3-co-fixed-n16-64-256-deep-decay-at-once-dropout0.5"
    )
    gru = problem("thumos14").usual(model="gru", layers=2, distilled=True)
    assert name(gru) == "thumos14-2-gru-distilled"
    assert name(gru.teacher) == "thumos14-1-co-full"
    assert name(problem("thumos14").usual(model="full", distilled=True).teacher) == "thumos14-1-co-full"


def test_records_of_earlier_versions_are_of_the_same_cells():
    found = 0
    for path in sorted(RESULTS.glob("*.json")):
        record = store.read(RESULTS, path.stem)
        if record is None or "cell" not in record or record["cell"].get("stack") == "deep":
            continue
        cell = Cell(**record["cell"])
        wanted = {
            "cell": cell.to_dict(),
            "name": problem(cell.task).cell_name(cell),
            "budget": problem(cell.task).training(cell).to_dict(),
            **{part: record[part] for part in ("data", "runs")},
        }
        if cell.recurrent or set(record["cell"]) & set(LATER):
            continue
        assert store.finished(RESULTS, wanted) == record, path
        found += 1
    assert found > 100


def test_no_landmarks_at_all_are_not_the_usual_ones():
    with pytest.raises(ValueError, match="landmarks=0"):
        grid(problem("gtzan").usual(), ["nystrom"], (1,), (0,))


def test_only_continual_models_of_several_blocks_are_deep():
    usual = problem("gtzan").usual()
    found = grid(usual, list(MODELS), (1, 2), (4,), [{"stack": "deep"}]).cells
    assert {(one.model, one.layers) for one in found} == {(model, 2) for model in TWINS.values()}
    assert problem("gtzan").cell_name(found[0]) == "gtzan-2-co-full-deep"
    assert all(one.phase_one.stack == one.teacher.stack == "deep" for one in found)
    for model, layers in (("full", 2), ("co-full-single", 1)):
        with pytest.raises(ValueError, match="stack='deep' is for continual models of several blocks"):
            problem("gtzan").usual(model=model, layers=layers, stack="deep")

"""The numbers printed in the paper's tables."""

import pytest

from nystream.costs import tables
from nystream.lab.reproduce import paper


@pytest.mark.parametrize("task", paper.TASKS)
def test_the_rows_are_those_of_the_printed_costs(task):
    assert paper.rows(task) == list(tables.PRINTED[task])
    assert {model for model, _ in paper.rows(task)} == set(paper.MODELS)


def test_each_column_is_its_own():
    assert str(paper.score("gtzan", "co-fixed-single", 1)) == "90.76 ± 5.52"
    assert str(paper.score("electricity", "full", 1)) == "9.69 ± 1.10"
    row = ("thumos14", "co-cont-single", 2)
    found = [
        str(paper.score(*row, metric, column))
        for column in ("Kinetics-400", "ActivityNet")
        for metric in ("map", "cmap")
    ]
    assert found == ["59.30 ± 0.39", "97.64 ± 0.07", "50.68 ± 0.38", "96.64 ± 0.04"]
    assert paper.score("electricity", "full", 2) is None


def test_what_the_paper_says_of_fixed_landmarks_follows():
    def lost(task):
        full, fixed = (paper.score(task, model, 1) for model in ("co-full-single", "co-fixed-single"))
        return float(full.mean) - float(fixed.mean)

    assert lost("gtzan") == pytest.approx(2.4)
    assert lost("thumos14") == pytest.approx(8.41)


def test_an_unknown_task_is_named():
    with pytest.raises(ValueError, match="task must be one of gtzan, thumos14, electricity, got 'mnist'"):
        paper.score("mnist", "full", 1)


def test_every_task_says_what_differs():
    assert all(task.differs and task.metric in paper.METRICS for task in paper.TASKS.values())
    assert "0.00969" in " ".join(paper.TASKS["electricity"].differs)

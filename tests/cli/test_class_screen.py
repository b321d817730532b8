"""Scores of classes on a terminal."""

import io

import pytest
import torch
from rich.console import Console

from nystream.cli.class_screen import print_classes
from nystream.data.class_scores import class_scores


def printed(classes, name="class", width=80, wrong=0.3):
    torch.manual_seed(0)
    y = torch.arange(40 * classes) % classes
    guess = torch.where(torch.rand(len(y)) < wrong, torch.randint(classes, (len(y),)), y)
    names = tuple(f"{name} {i}" for i in range(classes))
    hot, likely = (torch.nn.functional.one_hot(x, classes).float() for x in (y, guess))
    found = class_scores(names, "frames", hot, likely, single=True, ranked=True)
    console = Console(file=io.StringIO(), width=width)
    print_classes(console, found, "scores.json has all")
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= width
    return text


def test_a_few_classes():
    text = printed(3, "[red] $x$")
    assert text.count("[red] $x$ 2") == 3  # as written: it is no markup
    assert "Confusion matrix: rows are true classes, columns predicted ones" in text
    assert "scores.json" not in text  # nothing is left out


@pytest.mark.parametrize(
    ("name", "width"), [("class", 80), ("a class with a name that is far too long", 80), ("c", 60)]
)
def test_many_classes(name, width):
    text = printed(60, name, width)
    assert "The 15 classes with the lowest F1, of 60; scores.json has all." in " ".join(text.split())
    assert "Classes that are confused most" in text
    assert "These are 10 of" in text


def test_no_errors():
    assert "No classes are confused" in printed(40, wrong=0.0)

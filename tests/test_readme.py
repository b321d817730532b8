"""The examples of the documentation run and print the output shown below them."""

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PACKAGE = ROOT / "src" / "nystream"
FENCE = re.compile(r"^ *```\w*\n(?P<code>.*?)^ *```$", re.S | re.M)
EXAMPLE = re.compile(r"```python\n(?P<code>.*?)```\n+```text\n(?P<output>.*?)```", re.S)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_print_what_follows_them(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for example in EXAMPLE.finditer(page.read_text()):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(example["code"], page.name, "exec"), {})
        assert out.getvalue().strip() == example["output"].strip()


def test_the_readme_has_an_example():
    assert EXAMPLE.search(PAGES[0].read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_is_no_wider_than_the_page(page):
    for fence in FENCE.finditer(page.read_text()):
        assert [line for line in fence["code"].splitlines() if len(line) > 92] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_are_called_by_what_they_lead_to(page):
    assert re.findall(r"\[[^\]`]*\.md\]\([^)]*\)", page.read_text()) == []


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", FENCE.sub("", page.read_text())):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_are_named_exist(page):
    """A path of Python code, or a folder; `test_architecture` checks every path of the architecture page."""
    folders = {path.name for path in (*ROOT.iterdir(), *PACKAGE.iterdir()) if path.is_dir()}
    for name in re.findall(r"`(?:src/nystream/)?([\w-]+/[\w/.-]*)`", page.read_text()):
        if name.split("/")[0] in folders and name.endswith((".py", "/")):
            assert (ROOT / name).exists() or (PACKAGE / name).exists(), name


def test_the_readme_is_short():
    assert len(PAGES[0].read_text().splitlines()) <= 150


def test_numbers_are_those_of_the_results():
    done = subprocess.run([sys.executable, ROOT / "docs" / "render.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

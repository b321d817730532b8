"""Every path and name on the architecture page and in CONTRIBUTING exists."""

import re
from pathlib import Path

import pytest

import nystream as ns

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "nystream"
PAGES = ("docs/architecture.md", "CONTRIBUTING.md")
CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
DEFINITION = re.compile(r"`(\w+)(?:\.(\w+))?` in\s+\[?`([\w./]+\.py)`")


def text(page: str) -> str:
    return re.sub(r"^```.*?^```$", "", (ROOT / page).read_text("utf-8"), flags=re.M | re.S)


def exists(path: str) -> bool:
    return any((folder / path).exists() for folder in (PACKAGE, ROOT))


@pytest.mark.parametrize("page", PAGES)
def test_paths(page):
    words = {word for code in CODE.findall(text(page)) for word in code.split()}
    paths = {word for word in words if re.fullmatch(r"[\w./-]+(\.(py|md|toml|txt)|/)", word)}
    assert len(paths) > 10
    built = {path for path in paths if path.startswith((".venv", "site"))}
    assert [path for path in sorted(paths - built) if not exists(path)] == []


@pytest.mark.parametrize("page", PAGES)
def test_names_in_files(page):
    found = DEFINITION.findall(text(page))
    assert found
    for name, attribute, path in found:
        file = PACKAGE / path if (PACKAGE / path).exists() else ROOT / path
        source = file.read_text("utf-8")
        for part in filter(None, (name, attribute)):
            assert re.search(rf"^\s*(def|class) {part}\b|^\s*{part}\b.*[:=]", source, re.M), f"{part} in {path}"


@pytest.mark.parametrize("page", PAGES)
def test_public_names(page):
    for name in re.findall(r"\b(?:ns|nystream)((?:\.[A-Za-z_]\w*)+)", " ".join(CODE.findall(text(page)))):
        value = ns
        for part in name[1:].split("."):
            value = getattr(value, part)


def test_every_package_is_on_the_map():
    page = text("docs/architecture.md")
    packages = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()} - {"lab"}
    packages |= {f"lab/{path.name}" for path in (PACKAGE / "lab").iterdir() if (path / "__init__.py").exists()}
    assert [name for name in sorted(packages) if f"[`{name}/`]" not in page] == []


@pytest.mark.parametrize("variant", ns.VARIANTS)
def test_every_variant_is_on_the_map(variant):
    """The row of a variant names the files of its functions, kernel and costs."""
    record = ns.variants.get(variant)
    (row,) = re.findall(rf"^\| `{variant}` \|.*$", text("docs/architecture.md"), re.M)
    assert f"`{record.ops.removeprefix('nystream.').replace('.', '/')}.py`" in row
    costs, _, constant = record.costs.partition(":")
    assert constant == variant.upper().replace("-", "_")
    assert row.endswith(f"| `{costs.removeprefix('nystream.').replace('.', '/')}.py` |")
    assert (f"`_{record.kernel}` in" in row) == (record.kernel is not None)

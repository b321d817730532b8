"""The site's own code, the docstrings that its API pages show, and the citation; `make docs` builds the site itself."""

import doctest
import importlib
import importlib.util
import inspect
import re
import tomllib
import types
from pathlib import Path

import griffe
import pytest
import yaml

import nystream

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
WITH_EXAMPLES = [path for path in sorted(SOURCE.rglob("*.py")) if ">>> " in path.read_text("utf-8")]
API = "\n".join(page.read_text("utf-8") for page in sorted((ROOT / "docs" / "api").glob("*.md")))
SHOWN = re.findall(r"^::: (\S+)", API, re.M)
INSIDE = {"nystream.lab.reproduce.problems"}  # packages whose names are for the commands alone
PACKAGES = [
    name
    for path in sorted((SOURCE / "nystream").rglob("__init__.py"))
    if "__all__" in path.read_text("utf-8") and (name := ".".join(path.parent.relative_to(SOURCE).parts)) not in INSIDE
]


def load(name):
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hooks = load("hooks")


@pytest.fixture(scope="module")
def package():
    return griffe.load("nystream", search_paths=[SOURCE], docstring_parser="google")


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: path.stem)
def test_examples_of_docstrings(path):
    name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted
    assert result.failed == 0


def test_every_public_name_is_in_the_reference():
    # Modules have a page of their own, and two names are plain values that the index explains.
    documented = set(SHOWN) | {"nystream.VARIANTS", "nystream.__version__"}
    modules = {name for name in nystream.__all__ if (SOURCE / "nystream" / name).is_dir()} | {"state"}
    missing = {f"nystream.{name}" for name in nystream.__all__ if name not in modules} - documented
    assert not missing
    index = (ROOT / "docs" / "api" / "index.md").read_text("utf-8")
    assert [name for name in nystream.__all__ if f"ns.{name}" not in index and name != "stream"] == []


def found(name):
    """The object of a dotted name, where a function may hide the module of its name."""
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(module), last)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_of_a_package_is_in_the_reference(package):
    shown = [found(name) for name in SHOWN]
    module = importlib.import_module(package)
    for name in module.__all__:
        one = getattr(module, name)
        if isinstance(one, types.ModuleType) or any(one is other for other in shown):
            continue
        # What is neither a class nor a function is explained in words.
        assert not inspect.isroutine(one), f"{package}.{name}"
        assert not inspect.isclass(one), f"{package}.{name}"
        assert f"`{name}`" in API or f"{name}`" in API or f"::: {package}.{name}" in API, f"{package}.{name}"


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: path.stem)
def test_examples_of_docstrings_are_no_wider_than_the_page(path):
    lines = (line.strip() for line in path.read_text("utf-8").splitlines())
    assert [line for line in lines if line.startswith((">>> ", "... ")) and len(line) > 90] == []


def test_options_are_shown_with_plain_defaults_and_their_meaning():
    extensions = griffe.load_extensions(load("docstrings").Options)
    package = griffe.load("nystream", search_paths=[SOURCE], docstring_parser="google", extensions=extensions)
    for shown in (package["estimators.forecaster.Forecaster"], package["serve.settings.Settings"]):
        assert [one.name for one in shown.parameters if "option(" in str(one.default)] == []
        (said,) = (one for one in shown.docstring.parsed if one.kind is griffe.DocstringSectionKind.parameters)
        assert {one.name for one in said.value} == {one.name for one in shown.parameters} - {"self"}


@pytest.mark.parametrize("name", SHOWN)
def test_documented_parameters_exist(package, name):
    shown = package[name.removeprefix("nystream.")]
    shown = shown.final_target if shown.is_alias else shown
    members = [member for member in shown.members.values() if not member.is_alias]
    for one in [shown, *members]:
        if not (one.is_function or one.is_class) or one.docstring is None:
            continue
        known = {parameter.name for parameter in one.parameters} if hasattr(one, "parameters") else set()
        for section in one.docstring.parse("google", warnings=False):
            if section.kind is griffe.DocstringSectionKind.parameters:
                words = [word for parameter in section.value for word in parameter.name.split(", ")]
                assert [word for word in words if word not in known] == [], one.path


@pytest.mark.parametrize(
    ("markdown", "source", "page", "expected"),
    [
        ("[a](derivation.md#x)", "docs/data.md", "data.md", "[a](derivation.md#x)"),
        ("[a](../README.md#x)", "docs/data.md", "data.md", "[a](index.md#x)"),
        ("[a](../CHANGELOG.md)", "docs/data.md", "data.md", "[a](changelog.md)"),
        ("[a](docs/data.md)", "README.md", "api/index.md", "[a](../data.md)"),
        ("![a](docs/img/drift.png)", "README.md", "index.md", "![a](img/drift.png)"),
        ("[a](https://example.org/b)", "README.md", "index.md", "[a](https://example.org/b)"),
        ("[a](#here)", "docs/data.md", "data.md", "[a](#here)"),
        ("[`ops/ring.py`](../src/nystream/ops/ring.py)", "docs/data.md", "data.md", "`ops/ring.py`"),
        ("[the judge](../src/nystream/state.py)", "docs/data.md", "data.md", "the judge (`src/nystream/state.py`)"),
        ("```\n[a](../LICENSE)\n```", "docs/data.md", "data.md", "```\n[a](../LICENSE)\n```"),
    ],
)
def test_links_on_the_site(markdown, source, page, expected):
    assert hooks.with_links(markdown, source, page, None) == expected


def test_links_into_a_repository():
    linked = hooks.with_links("[a](../src/nystream/state.py)", "docs/data.md", "data.md", "https://example.org/r/")
    assert linked == "[a](https://example.org/r/blob/HEAD/src/nystream/state.py)"


def test_broken_links_and_missing_sections_warn(caplog):
    hooks.with_links("[a](../src/nowhere.py)", "docs/data.md", "data.md", None)
    assert "docs/data.md links to src/nowhere.py, which does not exist" in caplog.text
    hooks.readme_section("No such heading")
    assert "no section 'No such heading'" in caplog.text


@pytest.mark.parametrize(
    ("html", "fetched"),
    [
        ('<script src="https://example.org/a.js"></script>', True),
        ('<link rel="stylesheet" href="https://example.org/a.css">', True),
        ('<a href="https://example.org">there</a> <script src="a.js"></script>', False),
    ],
)
def test_nothing_is_fetched_from_elsewhere(html, fetched):
    assert bool(hooks.FETCHED.search(html)) == fetched


@pytest.mark.parametrize(
    ("link", "folder"),
    [
        ("index.html", False),
        ("../api/index.html#nystream.StreamPool", False),
        ("#here", False),
        ("https://example.org/", False),
        (".", True),
        ("../..", True),
        ("api/", True),
        ("../#here", True),
    ],
)
def test_links_to_folders(link, folder):
    assert bool(hooks.FOLDER.search(f'<a class="logo" href="{link}">there</a>')) == folder


def test_fields_are_shown_with_what_their_comments_say():
    extensions = griffe.load_extensions(ROOT / "docs" / "docstrings.py")
    token = griffe.load("nystream.data.reader", search_paths=[SOURCE], extensions=extensions)["Token"]
    assert [parameter.name for parameter in token.parameters] == ["x", "time", "filled", "gap", "base", "scale"]
    assert "Args:\n    x: [input_dim], in the user's units\n" in token.docstring.value


def test_scores_of_lighter_pools(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    experiments = load("_experiments")
    cell = {"layers": 2, "stack": "deep", "window": 120, "embed_dim": 192, "landmarks": 4, "protocol": "seeds"}
    usual = {"weights": "float32", "ring_dtype": "float32", "weight_bytes": 2_000_000, "bytes_per_stream": 482_000}
    light = usual | {"weights": "int8", "weight_bytes": 500_000}
    other = {"other_class": 0.012, "mean_of_probabilities": 2e-4}
    tracks = [
        usual | {"score": 0.828},
        light | {"score": 0.826, "difference": -0.002, "interval": [-0.006, 0.001], "changes": other},
    ]
    hours = [
        usual | {"score": 2e-4},
        light | {"score": 2.01e-4, "difference": 1e-6, "interval": [0.0, 2e-6], "changes": {"rms_over_rms_error": 0.1}},
    ]
    record = {
        "command": "python benchmarks/narrow.py",
        "hardware": {"cpu": "CPU", "cores": 2, "torch": "2"},
        "tasks": [
            {"task": "gtzan", "model": cell | {"protocol": "filtered"}, "metric": "accuracy", "pools": tracks},
            {"task": "electricity", "model": cell, "metric": "mse", "pools": hours},
        ],
    }
    monkeypatch.setattr(experiments, "results", {"narrow": record}.get)
    page = experiments.narrow()
    assert "`python benchmarks/narrow.py` on 2 cores" in page
    assert "| gtzan | float32 | float32 | 82.80 |  |  | 2.00 | 482 |" in page
    assert "| 82.60 | −0.20 (−0.60 to +0.10) | another class 1.20 %, probabilities by 2.0e-04 | 0.50 | 482 |" in page
    assert "| 0.2010e-3 | +0.50 % (+0.00 to +1.00) | by 10.0 % of the error | 0.50 |" in page
    assert "gtzan, 2 deep blocks, n = 120, d = 192, m = 4, on the fault-filtered split; electricity, 2 deep" in page


def test_blocks_of_the_service(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    serving = load("_serving")
    case = {"case": "log", "streams": 1000, "p50_ms": 4.6, "p99_ms": 18.6, "p99.9_ms": 129.5, "records_per_batch": 12.8}
    case |= {
        "unanswered": 0,
        "service_cores": 0.79,
        "client_cores": 0.18,
        "service_memory_mb": 608.2,
        "store_mb": 398.3,
    }
    record = {"command": "python a.py", "hardware": {"cpu": "CPU", "cores": 2, "torch": "2"}, "cases": [case]}
    monkeypatch.setattr(serving, "results", lambda _: record)
    assert "| `log` | 4.6 ms | 18.6 ms | 129.5 ms | 12.8 | 0.79 | 0.18 | 608 MB | 398 MB |" in serving.load()
    assert "largest number" not in serving.load()
    assert serving.migration() == ""
    case |= {"refusals": 0, "records_per_second": 4005}
    overloaded = {"case": "log, max-batch 1", "unanswered": 9, "refusals": 1200, "records_per_second": 812}
    record["cases"] = [case, case | overloaded]
    record["held"] = case | {"limit_ms": 50.0, "streams": 2500}
    record |= {"memory_per_stream": 171_000, "store_per_stream": 380_000}
    record["migrate"] = {"streams": 1000, "seconds": 7.25, "streams_per_second": 138, "records": 150_000}
    page = serving.load()
    assert "| memory | store | answers per second | refused |" in page
    assert "| 398 MB | 812 | 1,200 |" in page
    assert "a p99 of at most 50 ms was 2,500" in page
    assert "Each stream more took 171 kB of memory and 380 kB of the store." in page
    assert "1,000 streams of GTZAN's size in 7.2 s (138 per second), in which it read 150,000" in serving.migration()


def test_citation():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert citation["cff-version"] == "1.2.0"
    assert citation["message"]
    assert (citation["title"], citation["type"]) == (project["name"], "software")
    assert citation["version"] == nystream.__version__
    assert citation["license"] == project["license"]
    assert citation["authors"] == project["authors"]
    assert citation["keywords"] == project["keywords"]
    (paper,) = citation["references"]
    assert {"type", "title", "authors"} <= set(paper)
    names = [f"{author['given-names']} {author['family-names']}" for author in paper["authors"]]
    assert names[0] == "Ginés Carreto Picón"
    assert len(names) == 5

"""A digest of the code that runs on a GPU: a record that holds it says whether its figures are older than the code."""

from __future__ import annotations

import ast
import hashlib
import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
GPU = (  # the kernels, what launches them, and packages that they import as a whole
    "nystream/ops/**/*.py",
    "nystream/stream/gpu/**/*.py",
    "nystream/stream/backends/triton.py",
    "nystream/config/*.py",
    "nystream/variants/*.py",
)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def digest(source: Path = SOURCE) -> str:
    """Of the sources for a GPU and the modules that they import, without imports, docstrings and comments.

    So files may move, and words may change.
    """
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for pattern in GPU for path in source.glob(pattern)}
    imported = {path for tree in trees.values() for path in _imports(tree, source)}
    trees |= {path: ast.parse(path.read_text(encoding="utf-8")) for path in imported - set(trees)}
    parts = sorted(hashlib.sha256(repr(_code(tree)).encode()).hexdigest() for tree in trees.values())
    return hashlib.sha256("".join(parts).encode()).hexdigest()[:16]


def age(record: Path) -> str:
    """When a record was measured, and whether the code has changed since; "" if it is up to date."""
    if not record.exists():
        return f"there is no {record.name}: nothing of this code was run on a GPU"
    content = json.loads(record.read_text(encoding="utf-8"))
    if content.get("sources") == digest():
        return ""
    return f"{record.name} is of commit {content['commit'][:7]}: the code for GPUs has changed since"


def _imports(tree: ast.Module, source: Path) -> set[Path]:
    """The modules of the package that a module imports; of packages, the file that is named."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    files = (source / f"{name.replace('.', '/')}.py" for name in names if name.startswith("nystream."))
    return {file for file in files if file.exists()}


def _code(node: Any) -> Any:
    """A tree as nested lists, the same for all versions of Python: they differ in which fields are empty or missing."""
    if isinstance(node, list):
        return [_code(one) for one in node if not isinstance(one, ast.Import | ast.ImportFrom)]
    if not isinstance(node, ast.AST):
        return node
    fields = dict(ast.iter_fields(node))
    if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
        fields["body"] = fields["body"][1:]
    return [type(node).__name__, *([name, _code(x)] for name, x in fields.items() if x is not None and x != [])]

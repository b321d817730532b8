"""Changes to the pages of the repository that the site needs; mkdocs.yml refers to this file.

- CHANGELOG.md and CONTRIBUTING.md, which lie outside docs/, become pages.
- A block `<!-- readme: Heading --> … <!-- /readme -->` becomes that section of the README.
- The page in examples/browser, if it was built, becomes demo/, and `<!-- demo -->` a link to it.
- A link to a file that the site does not hold becomes a link into the repository where `repo_url` is set, and the
  name of the file otherwise.

A link to a file that does not exist is a warning; so is one to a folder, which is no page when the site is opened from
the disk, and anything that a page would fetch from elsewhere. Warnings fail the build.
"""

from __future__ import annotations

import logging
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}  # file -> page

FENCE = re.compile(r"^( *```.*?^ *```)", re.M | re.S)
LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")
DEMO = ROOT / "examples" / "browser" / "dist"
DEMO_MARK = "<!-- demo -->"
DEMO_LINK = "[Open the demo](demo/index.html){ .md-button .md-button--primary }"
NO_DEMO = "This copy of the documentation was built without the demo; see below for how to build it."

README_BLOCK = re.compile(r"<!-- readme: (?P<heading>.+?) -->.*?<!-- /readme -->", re.S)

# Resources that a browser fetches when it opens a page.
FETCHED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\ssrc=["']?(https?:[^"'\s>]+)"""
    r"""|<link\b(?=[^>]*\srel=["']?(?:stylesheet|preload|icon))[^>]*\shref=["']?(https?:[^"'\s>]+)"""
)

FOLDER = re.compile(r"""<a\b[^>]*\shref=["'](\.{1,2}(?:/\.{1,2})*|[^"'#:]*/)(?:#[^"']*)?["']""")

log = logging.getLogger("mkdocs.hooks.nystream")


def on_files(files: Any, config: Any) -> Any:
    for name in ("CHANGELOG.md", "CONTRIBUTING.md"):
        files.append(File.generated(config, PAGES[name], abs_src_path=str(ROOT / name)))
    for path in sorted(DEMO.rglob("*")):
        if path.is_file():
            files.append(File.generated(config, f"demo/{path.relative_to(DEMO).as_posix()}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    site_path = page.file.src_uri
    source = next((name for name, target in PAGES.items() if target == site_path and name != "README.md"), None)
    markdown = with_links(markdown, source or f"docs/{site_path}", site_path, config.repo_url)
    markdown = markdown.replace(DEMO_MARK, DEMO_LINK if files.get_file_from_path("demo/index.html") else NO_DEMO)
    return README_BLOCK.sub(
        lambda block: with_links(readme_section(block["heading"]), "README.md", site_path, config.repo_url), markdown
    )


def on_post_page(output: str, page: Any, config: Any) -> str:
    for folder in FOLDER.finditer(output):
        log.warning("%s links to the folder '%s'; name a page in it", page.file.src_uri, folder[1])
    for fetched in FETCHED.finditer(output):
        log.warning(
            "%s would fetch %s; the site must do without a network", page.file.src_uri, fetched[1] or fetched[2]
        )
    return output


def readme_section(heading: str) -> str:
    """The text below a second-level heading of the README."""
    found = re.search(
        rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", (ROOT / "README.md").read_text("utf-8"), re.M | re.S
    )
    if not found:
        log.warning("README.md has no section '%s'", heading)
        return ""
    return found[1].strip()


def with_links(markdown: str, source: str, site_path: str, repository: str | None) -> str:
    """The text of the file `source` with links as the page `site_path` needs them; code stays as it is."""

    def rewritten(link: re.Match[str]) -> str:
        return _link(link, source, site_path, repository)

    parts = FENCE.split(markdown)
    parts[::2] = [LINK.sub(rewritten, prose) for prose in parts[::2]]
    return "".join(parts)


def _link(link: re.Match[str], source: str, site_path: str, repository: str | None) -> str:
    target, anchor = link["target"], link["anchor"] or ""
    if re.match(r"[a-z]+:", target):
        return link[0]
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    if not (ROOT / path).exists():
        log.warning("%s links to %s, which does not exist", source, path)
        return link[0]
    inside = PAGES.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
    if inside:
        relative = posixpath.relpath(inside, posixpath.dirname(site_path) or ".")
        return f"{link['image']}[{link['text']}]({relative}{anchor})"
    if repository:
        return f"[{link['text']}]({repository.rstrip('/')}/blob/HEAD/{path}{anchor})"
    named = link["text"].strip("`") in path
    return link["text"] if named else f"{link['text']} (`{path}`)"

"""What mkdocs does besides: the version in the title, and pages of the repository that lie outside docs/.

README is the home page; CHANGELOG, CONTRIBUTING and results/ are pages as they are. Their links, and links to them, are
written for the repository; they are changed on the way to the site.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
REPOSITORY = {"README.md": "index.md", **{name: name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff")}}
LINK = re.compile(r"(\]\()([^)\s#:]+)((?:#[^)\s]*)?\))")
SHOWN = (".md", ".png", ".json", ".svg")


def version() -> str:
    """The package's version, read without importing it."""
    found = re.search(r'__version__ = "([^"]+)"', (ROOT / "src" / "untwine" / "_version.py").read_text())
    assert found
    return found[1]


def on_config(config: Any) -> Any:
    """Put the package's version into the title."""
    config.site_name = f"{config.site_name} {version()}"
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages outside docs/, and what they show."""
    results = [path.relative_to(ROOT) for path in sorted((ROOT / "results").rglob("*")) if path.suffix in SHOWN]
    sources = {**REPOSITORY, **{path.as_posix(): path.as_posix() for path in results}}
    for source, page in sources.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Any, files: Files, **_: Any) -> str:
    """Turn links between files of the repository into links between pages of the site."""
    here = place_of(page.file.src_uri)

    def changed(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(here), link[2]))
        uri = uri_of(target)
        if files.get_file_from_path(uri) is None:
            return link[0]
        return link[1] + posixpath.relpath(uri, posixpath.dirname(page.file.src_uri) or ".") + link[3]

    return LINK.sub(changed, markdown)


def place_of(uri: str) -> str:
    """Where a page of the site lies in the repository."""
    pages = {page: source for source, page in REPOSITORY.items()}
    return pages.get(uri, uri if uri.startswith("results/") else f"docs/{uri}")


def uri_of(place: str) -> str:
    """The page of the site that shows a file of the repository."""
    return REPOSITORY.get(place, place.removeprefix("docs/"))

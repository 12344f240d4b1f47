"""The pages say what the code says, their links lead somewhere, and the site is built from them."""

import importlib.util
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_the_tables_are_those_of_the_code() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "docs" / "tables.py"), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_readme_is_short_and_its_links_lead_somewhere() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 90
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    assert len(links) >= 10 and [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.parametrize("folder", ["docs", "results"])
def test_links_of_pages_lead_somewhere(folder: str) -> None:
    pages = sorted((ROOT / folder).rglob("*.md"))
    links = [page.parent / link for page in pages for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text())]
    assert len(links) >= 5 and [link for link in links if not link.exists()] == []


def test_every_key_of_the_literature_is_in_the_bibliography() -> None:
    listed = (ROOT / "docs" / "bibliography.md").read_text()
    cited = set()
    for path in (*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").glob("*.md"), *(ROOT / "results").glob("*.md")):
        text = " ".join(path.read_text().split())
        cited |= set(re.findall(r"\b[a-z]+(?:19|20)\d\d\b", text)) - {"nips2015"}  # a file's name
        cited |= set(re.findall(r"\b[A-Z][a-z]+ (?:et al\.|& [A-Z][a-z]+) (?:19|20)\d\d", text))
    full = {"Rhodes & Lee 2021", "Mathieu et al. 2019", "Rolinek et al. 2019", "Michlo et al. 2023"}
    assert len(cited) > 25
    assert sorted(name for name in cited - full if name not in listed) == []


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documentation site, built strictly: a link or a name that leads nowhere is an error."""
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("mkdocs is not installed: pip install 'untwine[docs]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_site_has_the_version_of_the_package_and_every_page(site: Path) -> None:
    import untwine

    assert f"Untwine {untwine.__version__}" in (site / "index.html").read_text()
    sources = [path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")]
    results = [Path("results") / f"{name}.html" for name in ("index", "findings", "quality", "speed")]
    assert [page for page in (*sources, *results) if not (site / page).exists()] == []


def test_nothing_of_the_site_comes_from_elsewhere(site: Path) -> None:
    loaded = re.compile(
        r"""<(?:script|img|iframe|source)[^>]+src=["'](?:https?:)?//|<link[^>]+href=["'](?:https?:)?//"""
    )
    assert [page.name for page in site.rglob("*.html") if loaded.search(page.read_text())] == []


def test_examples_in_docstrings_are_code_on_the_site(site: Path) -> None:
    page = (site / "api" / "scoring.html").read_text()
    assert '<span class="gp">&gt;&gt;&gt; </span>' in page and "<blockquote>" not in page
    assert "passive_below" in page and "uw.metrics.mig" in page


def test_every_metric_and_method_has_its_section_and_its_picture() -> None:
    import untwine as uw

    pages = {"metric": ("metrics.md", uw.metrics), "method": ("choosing-a-method.md", uw.methods)}
    for kind, (page, room) in pages.items():
        # Other tests in this process may have registered parts of their own.
        names = [name for name in room.names() if room.get(name).__module__.startswith("untwine.")]
        assert len(names) > 10
        text = (ROOT / "docs" / page).read_text()
        pictures = [f"pictures/{kind}-{name.replace('_', '-')}.png" for name in names]
        assert [picture for picture in pictures if picture not in text or not (ROOT / "docs" / picture).exists()] == []
        assert [name for name in names if f"<!-- table: about {name} -->" not in text] == []


def test_the_names_given_to_users_of_other_libraries_are_ours() -> None:
    import untwine as uw

    text = (ROOT / "docs" / "coming-from.md").read_text()
    ours = [line.split("|")[2] for line in text.splitlines() if line.startswith("| ")]
    calls = re.findall(r"\b(\w+)\(((?:\w+=[^()]*?)(?:\([^()]*\))?[^()]*)\)", " ".join(ours))
    known = {name: uw.methods.get(name) for name in uw.methods.names()}
    known |= {name: uw.datasets.get(name) for name in uw.datasets.names()} | {"Run": uw.Run}
    checked = 0
    for name, given in calls:
        for argument in re.findall(r"(\w+)=", re.sub(r'"[^"]*"', "", given)):
            if name in known:
                assert argument in inspect.signature(known[name]).parameters, f"{name} has no {argument}"
                checked += 1
    assert checked > 20
    names = set(re.findall(r"`(\w+)`", " ".join(ours)))
    everything = {*uw.methods.names(), *uw.metrics.names(), *uw.datasets.names()}
    assert len(names & everything) >= 20 and names <= everything | {"Untwine"}


@pytest.mark.parametrize("metric", ["mig", "modularity", "irs", "hoyer", "udr", "dto", "delta_kl"])
def test_the_pictures_of_metrics_show_what_they_score_now(metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that take no second or more; the numbers were stored when the pictures were drawn."""
    monkeypatch.syspath_prepend(ROOT / "docs" / "pictures")
    drawing = importlib.import_module("metrics")
    stored = json.loads((ROOT / "docs" / "pictures" / "metrics.json").read_text())[metric]
    scores = drawing.OTHERS[metric]()[1] if metric in drawing.OTHERS else drawing.of_codes(metric)
    assert scores.keys() == stored.keys()
    for toy, score in scores.items():
        assert score == pytest.approx(stored[toy], abs=0.005), toy


def test_pictures_are_small() -> None:
    assert sum(path.stat().st_size for path in (ROOT / "docs").rglob("*.png")) < 3_000_000

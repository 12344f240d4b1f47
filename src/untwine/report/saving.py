"""Write figures to files."""

from __future__ import annotations

import io
from io import BufferedIOBase
from pathlib import Path
from typing import TYPE_CHECKING

from untwine import files
from untwine.arguments import checked
from untwine.errors import UntwineError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("png", "pdf", "svg")


@checked()
def save(figure: Figure, path: str | Path | BufferedIOBase, dpi: int = 160) -> None:
    """Write a figure to a file. The same figure gives the same bytes.

    Args:
        figure: A matplotlib figure.
        path: A `.png`, `.pdf` or `.svg` file, or an open binary file, which gets a PNG.
        dpi: Dots per inch of pixels.

    >>> import io
    >>> from untwine.report.charts import scores
    >>> file = io.BytesIO()
    >>> save(scores({"vae": [0.1, 0.2]}), file)
    >>> file.getvalue()[1:4]
    b'PNG'
    """
    import matplotlib

    kind = picture_format(path) if isinstance(path, str | Path) else "png"
    undated = {"png": None, "pdf": {"CreationDate": None}, "svg": {"Date": None}}[kind]
    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "untwine"}):
        figure.savefig(buffer, format=kind, dpi=dpi, bbox_inches="tight", pad_inches=0.05, metadata=undated)
    if isinstance(path, str | Path):
        files.write(Path(path), buffer.getvalue())
    else:
        path.write(buffer.getvalue())


def picture_format(path: str | Path) -> str:
    """The format that a file's name asks for; one that cannot be written is refused.

    >>> picture_format("columns.svg")
    'svg'
    """
    suffix = Path(path).suffix.lstrip(".").lower()
    if suffix not in FORMATS:
        endings = ", ".join(f".{name}" for name in FORMATS)
        raise UntwineError(f"a picture is a file that ends in {endings}, unlike {str(path)!r}")
    return suffix

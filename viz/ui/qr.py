"""QR code of a link, as the path of an SVG."""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import lru_cache

BORDER = 4  # modules of quiet zone around it (ISO/IEC 18004)


@dataclass(frozen=True)
class QrCode:
    """size: modules of a side, with the quiet zone. path: of the dark ones, one unit each."""

    size: int
    path: str

    @property
    def svg(self) -> str:
        """A whole picture: black on white, whatever the page's colours are, for cameras."""
        box = f'viewBox="0 0 {self.size} {self.size}" shape-rendering="crispEdges" xmlns="http://www.w3.org/2000/svg"'
        return f'<svg {box}><rect width="100%" height="100%" fill="white"/><path d="{self.path}" fill="black"/></svg>'


@lru_cache(maxsize=64)
def qr_code(text: str) -> QrCode:
    """QR code of a text; a sixth of it may be covered and it is still read.

    Raises:
        ValueError: it is longer than a QR code can be.
    """
    import segno

    code = segno.make(text, error="m", micro=False)
    rows = io.StringIO()
    code.save(rows, kind="txt", border=BORDER)
    parts = []
    lines = rows.getvalue().split()
    for y, line in enumerate(lines):
        x = 0
        while (x := line.find("1", x)) >= 0:
            end = line.find("0", x)
            parts.append(f"M{x} {y}h{end - x}v1h{x - end}z")
            x = end
    return QrCode(len(lines), "".join(parts))

"""QR code of a link, as the path of an SVG."""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

BORDER = 4  # modules of quiet zone around it (ISO/IEC 18004)


@dataclass(frozen=True)
class QrCode:
    """size: modules of a side, with the quiet zone. path: of the dark ones, one unit each."""

    size: int
    path: str


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


def code_data(address: str) -> dict[str, Any] | None:
    """QR code of an address for the browser; None where there is none, or it is longer than a code can be."""
    try:
        code = qr_code(address) if address.startswith(("http://", "https://")) else None
    except ValueError:
        return None
    return None if code is None else {"href": address, "size": code.size, "path": code.path}

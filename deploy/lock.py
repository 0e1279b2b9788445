"""Write requirements.lock from reports of pip, one for each machine: docs/deploying.md has the commands."""

from __future__ import annotations

import json
import sys
from pathlib import Path

HEAD = """# What deploy/Containerfile installs, on Python 3.12 and Linux, x86_64 and aarch64: every package, with the
# hashes of its wheels. torch is of PyTorch's own index for CPUs, all others of PyPI. Made by deploy/lock.py.
"""


def lock(reports: list[Path]) -> str:
    """The lock of pip's reports, one for each machine.

    Raises:
        ValueError: machines would get different versions of a package.
    """
    hashes: dict[str, set[str]] = {}
    for report in reports:
        for found in json.loads(report.read_text(encoding="utf-8"))["install"]:
            name = found["metadata"]["name"].lower().replace("_", "-").replace(".", "-")
            pin = f"{name}=={found['metadata']['version']}"
            hashes.setdefault(pin, set()).add(found["download_info"]["archive_info"]["hashes"]["sha256"])
    names = [pin.partition("==")[0] for pin in hashes]
    if different := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"the reports differ in the versions of {', '.join(different)}: make them at the same time")
    pins = (
        " \\\n    ".join([pin, *(f"--hash=sha256:{each}" for each in sorted(hashes[pin]))]) for pin in sorted(hashes)
    )
    return HEAD + "\n".join(pins) + "\n"


if __name__ == "__main__":
    (Path(__file__).parent / "requirements.lock").write_text(
        lock([Path(name) for name in sys.argv[1:]]), encoding="utf-8"
    )

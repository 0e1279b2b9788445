"""A Streamlit server for the browser tests and benchmarks, on a free port of this machine."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
CHROMIUM_OPTIONS: dict[str, object] = {
    "executable_path": CHROMIUM,
    "args": [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ],
}


@contextmanager
def serve(script: str, *options: str) -> Iterator[str]:
    """The address of `script` served from the project's root; the server ends with the block."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", script, "--server.headless", "true"]
    command += ["--server.port", str(port), *options]
    environment = {**os.environ, "OMP_WAIT_POLICY": "PASSIVE"}
    # What it says goes into a file: a pipe nobody reads fills up, and then the server waits for ever.
    with tempfile.TemporaryFile() as said:
        server = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=said, stderr=subprocess.STDOUT)
        try:
            for _ in range(600):
                if server.poll() is not None:
                    said.seek(0)
                    raise RuntimeError(f"the server ended: {said.read().decode()[-2000:]}")
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=1).close()
                    break
                except OSError:
                    time.sleep(0.1)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait()
            said.seek(0)
            print(said.read().decode(errors="replace")[-4000:])  # pytest shows it where a test failed

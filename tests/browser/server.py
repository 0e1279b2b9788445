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
PATIENCE = 120_000  # milliseconds: these machines are shared
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
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",  # no other machine is found
    ],
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def answers(address: str) -> bool:
    """Whether there is a server at this address."""
    try:
        urllib.request.urlopen(f"{address}/_stcore/health", timeout=PATIENCE / 1000).close()
    except OSError:
        return False
    return True


LOGS: list[int] = []  # files that the servers of this process write what they say to


def said(log: int) -> str:
    """The last of what a server has said. By its place: the server goes on to write where this file stands."""
    size = os.fstat(log).st_size
    return os.pread(log, 4000, max(0, size - 4000)).decode(errors="replace")


@contextmanager
def serve(script: str, *options: str, port: int = 0, **environment: str) -> Iterator[str]:
    """The address of `script` served from the project's root; the server ends with the block.

    port: 0 for any that is free. environment: of the server, beside that of this process; where neither says where
    checkpoints are saved, they go with the server.
    """
    port = port or free_port()
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "streamlit", "run", script, "--server.headless", "true"]
    command += ["--server.port", str(port), *options]
    # What it says goes into a file: a pipe nobody reads fills up, and then the server waits for ever.
    with tempfile.TemporaryFile() as file, tempfile.TemporaryDirectory() as saved:
        log = file.fileno()
        environment = {"VITRINE_SAVED": saved, **os.environ, "OMP_WAIT_POLICY": "PASSIVE", **environment}
        server = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT)
        LOGS.append(log)
        try:
            end = time.monotonic() + PATIENCE / 1000
            while not answers(address):
                if server.poll() is not None:
                    raise RuntimeError(f"the server ended: {said(log)}")
                if time.monotonic() > end:
                    raise RuntimeError("the server does not answer")
                time.sleep(0.1)
            yield address
        finally:
            server.terminate()
            server.wait()
            LOGS.remove(log)
            print(said(log))  # pytest shows it where a test failed

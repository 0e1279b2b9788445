"""Two replicas behind Debian's nginx with the configuration that is shipped, on ports of this machine."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError

import psutil

from tests.browser.server import PATIENCE, ROOT, free_port, serve

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
LATE = Path(__file__).parent / "late"
CONFIGURATION = ROOT / "deploy" / "nginx.conf"


@dataclass
class Replicas:
    """address: of nginx. own: of each replica."""

    address: str
    own: list[str]

    def windows(self) -> list[int]:
        """How many windows each replica has; of one that is gone, 0."""
        return [windows_of(each) for each in self.own]

    def kill(self, number: int) -> None:
        """As the machine's end would: no farewell."""
        port = int(self.own[number].rpartition(":")[2])
        listening = (each for each in psutil.net_connections("tcp") if each.status == "LISTEN")
        process = psutil.Process(next(each.pid for each in listening if each.laddr.port == port))
        process.kill()
        process.wait(60)


def windows_of(address: str) -> int:
    try:
        with urllib.request.urlopen(f"{address}/ready", timeout=10) as answer:
            return int(json.load(answer)["windows"])
    except URLError:
        return 0


def configuration(port: int, replicas: list[int], folder: Path) -> str:
    """The shipped one, with the ports of this machine in place of the names of containers, and files in a folder."""
    text = CONFIGURATION.read_text(encoding="utf-8").replace("listen 8080", f"listen 127.0.0.1:{port}")
    for number, own in enumerate(replicas, 1):
        text = text.replace(f"vitrine-{number}:8501", f"127.0.0.1:{own}")
    return re.sub(r"/tmp/nginx", f"{folder}/nginx", text)


@contextmanager
def replicas(folder: Path, count: int = 2, **environment: str) -> Iterator[Replicas]:
    """So many of them, at most two, all ready, until the end of the block. The second one's clock is an hour late."""
    ports = [free_port() for _ in range(count)]
    with ExitStack() as stack:
        different = [{"VITRINE_REPLICA": "1"}, {"VITRINE_REPLICA": "2", "PYTHONPATH": str(LATE)}]
        told = [environment | each for each in different[:count]]
        own = [stack.enter_context(serve("app.py", port=each, **more)) for each, more in zip(ports, told, strict=True)]
        end = time.monotonic() + PATIENCE / 1000
        while not all(map(is_ready, own)):
            assert time.monotonic() < end, "a replica does not answer"
            time.sleep(0.2)
        yield Replicas(stack.enter_context(before(folder, ports[0], ports[-1])), own)


@contextmanager
def before(folder: Path, *replicas: int) -> Iterator[str]:
    """The address of nginx before replicas at these ports, until the end of the block."""
    assert NGINX
    port, file = free_port(), folder / "nginx.conf"
    file.write_text(configuration(port, list(replicas), folder), encoding="utf-8")
    user = "user root;" if os.geteuid() == 0 else ""  # who may write into the folder
    nginx = subprocess.Popen([NGINX, "-e", "stderr", "-c", str(file), "-g", f"daemon off; {user}"])
    try:
        end = time.monotonic() + PATIENCE / 1000
        while not listens(port):
            assert time.monotonic() < end, "nginx does not answer"
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        nginx.terminate()
        nginx.wait(60)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def is_ready(address: str) -> bool:
    try:
        return bool(urllib.request.urlopen(f"{address}/ready", timeout=10).status == 200)
    except URLError:
        return False

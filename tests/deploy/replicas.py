"""Two replicas behind Debian's nginx with the configuration that is shipped, on ports of this machine."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError

import psutil

from tests.browser.server import PATIENCE, ROOT, answers, free_port, serve

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
    assert NGINX
    ports, port = [free_port() for _ in range(count)], free_port()
    with ExitStack() as stack:
        clocks: list[dict[str, str]] = [{}, {"PYTHONPATH": str(LATE)}]
        told = [environment | clock for clock in clocks[:count]]
        own = [stack.enter_context(serve("app.py", port=each, **more)) for each, more in zip(ports, told, strict=True)]
        file = folder / "nginx.conf"
        text = configuration(port, ports, folder)
        if count == 1:
            text = re.sub(r"\n *server vitrine-2.*", "", text)
        file.write_text(text, encoding="utf-8")
        nginx = subprocess.Popen([NGINX, "-c", str(file), "-g", "daemon off;"])
        stack.callback(nginx.wait, 60)
        stack.callback(nginx.terminate)
        end = time.monotonic() + PATIENCE / 1000
        while not answers(f"http://127.0.0.1:{port}") or not all(map(is_ready, own)):
            assert time.monotonic() < end, "nginx or a replica does not answer"
            time.sleep(0.2)
        yield Replicas(f"http://127.0.0.1:{port}", own)


def is_ready(address: str) -> bool:
    try:
        return bool(urllib.request.urlopen(f"{address}/ready", timeout=10).status == 200)
    except URLError:
        return False

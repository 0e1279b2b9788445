"""The names under which a server is known, as deploy/ writes them into its environment."""

from __future__ import annotations

import re
import urllib.request
from urllib.error import HTTPError

import pytest

from tests.browser.server import ROOT, serve

pytestmark = [pytest.mark.slow, pytest.mark.browser]
NAMES = "STREAMLIT_SERVER_ALLOWED_HOSTS"


def written(file: str) -> str:
    (found,) = re.findall(rf'{NAMES}(?:, value)?: "([^"]*)"', (ROOT / "deploy" / file).read_text(encoding="utf-8"))
    return str(found)


@pytest.mark.parametrize("file", ["compose.yaml", "kubernetes.yaml"])
def test_the_names_that_are_shipped_are_read_as_names(file):
    names = written(file)
    with serve("app.py", **{NAMES: f"{names} other.example"}) as address:
        for name in (*names.split(), "other.example"):
            request = urllib.request.Request(address, headers={"Host": name})
            with urllib.request.urlopen(request, timeout=60) as answer:
                assert answer.status == 200
        with pytest.raises(HTTPError, match="403"):
            urllib.request.urlopen(urllib.request.Request(address, headers={"Host": "attacker.example"}), timeout=60)

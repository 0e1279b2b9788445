"""What docs/ and deploy/ say of settings is what the code reads."""

from __future__ import annotations

import re

import pytest

from tests.test_rooms import ROOT
from viz.state.permissions import LIMITS, Permission, Quota

DEPLOYING = (ROOT / "docs" / "deploying.md").read_text(encoding="utf-8")
ROWS = {
    name: [cell.strip() for cell in line.split("|")[2:4]]
    for line in DEPLOYING.splitlines()
    if line.startswith("| `VITRINE_")
    for name in re.findall(r"`(VITRINE_\w+)`", line.split("|")[1])
}


def read_by_code() -> set[str]:
    """Every variable that is named in the code, by a constant or in an enumeration."""
    files = [*(ROOT / "model").rglob("*.py"), *(ROOT / "viz").rglob("*.py")]
    return {name for file in files for name in re.findall(r"\"(VITRINE_[A-Z_]+)\"", file.read_text(encoding="utf-8"))}


def test_the_table_has_every_setting_and_no_other():
    assert set(ROWS) == read_by_code() - {"VITRINE_PUBLIC"}
    assert "`VITRINE_PUBLIC=1`" in DEPLOYING


@pytest.mark.parametrize("quota", [each for each in Quota if each != Quota.FILM_SIZE])
def test_the_limits_are_those_of_the_code(quota):
    public, usual = LIMITS[quota]
    told = [None if cell == "no limit" else float(cell.replace(",", "")) for cell in ROWS[quota]]
    assert told == [usual, public]


@pytest.mark.parametrize("permission", [each for each in Permission if each != Permission.PATHS])
def test_a_public_server_permits_what_the_table_says(permission):
    assert ROWS[permission] == ["1", "0"]


@pytest.mark.parametrize("file", ["Containerfile", "compose.yaml", "kubernetes.yaml", "nginx.conf"])
def test_what_is_shipped_names_no_setting_that_nobody_reads(file):
    text = (ROOT / "deploy" / file).read_text(encoding="utf-8")
    assert set(re.findall(r"VITRINE_[A-Z_]+", text)) <= {*ROWS, "VITRINE_PUBLIC"}

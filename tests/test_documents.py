"""What docs/ and deploy/ say of settings, locks and finalizers is what the code has."""

from __future__ import annotations

import html
import re

import pytest
import yaml

from model.experiments.index import experiments
from model.experiments.rule import Verdict
from model.runtime.locks import ORDER
from tests.browser.test_gallery import STATES
from tests.test_rooms import ROOT, files
from viz.state.permissions import LIMITS, Permission, Quota

DOCS = ROOT / "docs"
DEPLOYING = (DOCS / "deploying.md").read_text(encoding="utf-8")
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


def test_every_statement_of_the_lab_is_on_its_page_with_a_verdict():
    lines = (DOCS / "statements.md").read_text(encoding="utf-8").splitlines()
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines if re.match(r"\| \d", line)]
    found = {re.findall(r"`([\w-]+)`", cells[1])[-1]: [cell.strip() for cell in cells] for cells in rows}
    assert len(rows) == len(found)
    assert found.keys() == experiments().keys()
    for name, (row, statement, verdict, reason) in found.items():
        experiment = experiments()[name]
        plain = re.sub(r"\\(.)", r"\1", html.unescape(statement))
        assert (int(row), plain) == (experiment.row, f"{experiment.statement} `{name}`")
        assert verdict in {f"**{each}**" for each in Verdict}
        assert reason


@pytest.mark.parametrize(
    "file", ["README.md", "tests/SKIPS.md", *sorted(f"docs/{each.name}" for each in DOCS.glob("*.md"))]
)
def test_every_link_to_a_file_of_ours_leads_to_one(file):
    targets = re.findall(r"\]\((?!http)([^)#]+)", (ROOT / file).read_text(encoding="utf-8"))
    assert targets or file != "README.md"
    assert [each for each in targets if not (ROOT / file).parent.joinpath(each).exists()] == []


def test_the_first_steps_of_a_contributor_find_what_they_name():
    steps = (ROOT / "docs" / "CONTRIBUTING.md").read_text(encoding="utf-8")
    test, word = re.search(r"-q (tests/\S+\.py) -k (\w+)", steps).groups()
    assert re.search(rf"^def test_\w*{word}\w*\(", (ROOT / test).read_text(encoding="utf-8"), re.MULTILINE)
    function, file = re.search(r"in `(\w+)` of `(viz/\S+\.py)`", steps).groups()
    source = (ROOT / file).read_text(encoding="utf-8").partition(f"def {function}(")[2].partition("\ndef ")[0]
    for line in ('Message("Loss per token"), Message("loss −ln p (nats)")', 'subject.at_places(own), LOSS, "bars")'):
        assert line in source
    assert re.search(r"^from viz\.ui\.prediction import .*\bBITS\b", (ROOT / file).read_text(), re.MULTILINE)


def test_the_workflow_and_the_hooks_run_what_ci_runs():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8"))
    assert [step.get("run") for step in workflow["jobs"]["ci"]["steps"]] == [None, ".ci/run"]
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    entries = [hook["entry"].removeprefix(".venv/bin/").replace(" --force-exclude", "") for hook in hooks[0]["hooks"]]
    stages = re.findall(r"^stage \w+ in_copy (.+)$", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE)
    assert [stage.removesuffix(" .") for stage in stages] == entries


# docs/threads.md

THREADS = (ROOT / "docs" / "threads.md").read_text(encoding="utf-8")
OURS = {file: (ROOT / file).read_text(encoding="utf-8") for file in files("model", "viz")}


def test_the_locks_stand_on_the_page_in_their_order_each_with_its_file():
    rows = re.findall(r"^\| ([\w ]+) \| `([\w/]+\.py)` \|", THREADS, re.MULTILINE)
    assert [name for name, _file in rows] == list(ORDER)
    new = re.compile(r"\b(?:Lock|RLock|NotifyingLock|condition)(?:\(|, )\"([\w ]+)\"")  # called, or given to partial
    assert sorted((name, file) for file, text in OURS.items() for name in new.findall(text)) == sorted(rows)


def test_no_lock_is_made_that_has_no_place_in_the_order():
    threadings = re.compile(r"\bthreading\.(?:R?Lock|Condition|(?:Bounded)?Semaphore|Barrier)\b|from threading import")
    assert {file for file, text in OURS.items() if threadings.search(text)} == {"model/runtime/locks.py"}


def test_finalizers_are_those_of_which_the_page_says_that_they_wait_for_nothing():
    found = [(file, found) for file, text in OURS.items() for found in re.findall(r"finalize\(self, ([\w.]+)", text)]
    assert sorted(found) == [
        ("model/checkpoints/bridge/load.py", "rmtree"),
        ("model/checkpoints/formats/safetensors.py", "close_read_files"),
        ("model/checkpoints/uploads.py", "_gone"),
        ("model/fast/packed_weights.py", "_sizes.pop"),
        ("model/inference/pass_memory.py", "self.reservation.release"),
    ]
    count = sum(text.count("weakref.finalize(") + text.count("__del__") for text in OURS.values())
    assert count == len(found)


# docs/gallery.md


def test_every_picture_of_the_documents_is_photographed_by_a_test():
    pictures = re.compile(r"\]\((?:docs/)?pictures/(\w+)\.png\)")
    gallery, readme = (pictures.findall(file.read_text("utf-8")) for file in (DOCS / "gallery.md", ROOT / "README.md"))
    assert gallery == [*STATES]
    assert {*readme} <= {*STATES}
    assert {each.stem for each in (DOCS / "pictures").glob("*.png")} == {*STATES}

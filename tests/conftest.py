"""Every test runs with one torch thread, a fixed seed, on the CPU and without a network; shapes are checked in all that
neither run the application nor are marked as unchecked.
"""

from __future__ import annotations

import functools
import os
import random
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

# Before torch and transformers are imported: they read these once.
os.environ.setdefault("VITRINE_DEVICE", "cpu")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ["HF_HUB_OFFLINE"] = "1"

import hypothesis
import jaxtyping
import numpy as np
import pytest
import torch
from streamlit.components.v2 import manifest_scanner

# Before anything goes backwards: torch's autograd counts devices when it first runs.
from tests.pretended_device import pretending
from tests.shape_checks import of_shapes_alone

# Before `model` and these figures are imported, so before any test module is.
jaxtyping.jaxtyped = of_shapes_alone(jaxtyping.jaxtyped)
jaxtyping.install_import_hook(["model", "viz.pages.positions.figures"], "beartype.beartype")

from model.fast import install  # noqa: E402
from model.runtime import locks  # noqa: E402

torch.set_num_threads(1)
install()  # as whoever opens or trains a model has it

# Every AppTest reads what all installed packages say of themselves, for a third of a second: once is enough.
manifest_scanner.scan_component_manifests = functools.cache(manifest_scanner.scan_component_manifests)

TESTS = Path(__file__).parent

# Examples are the same in every run, and no test fails for being slow.
hypothesis.settings.register_profile("vitrine", deadline=None, derandomize=True)
hypothesis.settings.load_profile("vitrine")


def pytest_configure(config: pytest.Config) -> None:
    """Files by their folders, the browser's first: of the quick ones at the end none keeps one process waiting."""
    config.option.loadscopereorder = False  # pytest-xdist would begin with those that have the most tests


@pytest.fixture(autouse=True, scope="session")
def nothing_saved(tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test sees the checkpoints that a user of this machine has saved, or saves among them."""
    os.environ["VITRINE_SAVED"] = str(tmp_path_factory.mktemp("saved"))


@pytest.fixture(autouse=True)
def as_users_run_it(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests of the application do not check shapes, which takes a third of their time, and of the model's those that
    repeat thousands of calls, which would take twice theirs: the others do. And no model that is opened has all objects
    of the tests collected first.
    """
    where = request.path.relative_to(TESTS)
    application = (where.parts[0] == "viz" and where.name != "test_figures.py") or where.name.startswith("test_app")
    if application or request.node.get_closest_marker("unchecked"):
        monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    if application:
        monkeypatch.setattr("viz.state.checkpoints.spare_collections", lambda: None)


@pytest.fixture(params=[True, False], ids=["as-cuda", "as-mps"])
def pretended(request: pytest.FixtureRequest) -> Iterator[torch.device]:
    """A device that is not the CPU, with float64 and without."""
    with pretending(float64=request.param) as device:
        yield device


@pytest.fixture(autouse=True, scope="session")
def lock_reports() -> Iterator[list[tuple[str, ...]]]:
    """Reports of `locks` which no test has failed for yet: threads that outlive their tests make some between two."""
    found: list[tuple[str, ...]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(locks, "report", lambda *names: found.append((*names, threading.current_thread().name)))
        yield found
    assert not found, "(waited for, held, thread) after the last test"


@pytest.fixture(autouse=True)
def locks_in_order(lock_reports: list[tuple[str, ...]]) -> Iterator[None]:
    """No thread waits for a lock under one that stands behind it in `locks.ORDER`, which would only be logged."""
    yield
    found = [lock_reports.pop(0) for _ in range(len(lock_reports))]
    assert not found, "(waited for, held, thread): here, or since an earlier test"


@pytest.fixture(autouse=True)
def no_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """The application is started without words on its command line, whatever pytest was."""
    monkeypatch.setattr(sys, "argv", sys.argv[:1])


@pytest.fixture(autouse=True)
def same_seed() -> None:
    """The same random numbers in a test, whatever ran before it."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)

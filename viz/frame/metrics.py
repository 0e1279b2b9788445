"""Figures of this server in Prometheus' form: visitors, turns, memory, trainings, uploads."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import get_args

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from viz.frame import channel
from viz.state import uploading
from viz.state.class_sessions import CLASS_SESSIONS
from viz.state.session import all_sessions

FORM = "text/plain; version=0.0.4; charset=utf-8"


class Figures(Collector):
    """Figures that are counted at the moment when they are asked for."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Visitors and turns; memory and trainings too, once a page has been drawn."""
        sessions = all_sessions()
        yield gauge("sessions", "Sessions that are kept, with a window or without.", len(sessions))
        yield gauge("windows", "Windows whose channel is open.", sum(len(each.channels) for each in sessions))
        yield gauge("typing", "Windows in which something was typed of late.", channel.typing())
        yield gauge("turns_waiting", "Turns of windows that no thread has begun.", len(channel.Window.queue))
        classes, visitors = CLASS_SESSIONS.counts()
        yield gauge("class_sessions", "Class sessions that go on.", classes)
        yield gauge("class_visitors", "Windows that have joined a class session.", visitors)
        yield gauge("uploads_bytes", "Files of visitors in memory, in bytes.", uploading.held())
        if "torch" in sys.modules:
            yield from memory()
            yield from trainings()


def gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"vitrine_{name}", text, value=value)


def memory() -> Iterator[GaugeMetricFamily]:
    """The ledger of main memory."""
    from model.runtime.memory import ledger

    book = ledger()
    family = GaugeMetricFamily("vitrine_memory_bytes", "Main memory of this process, in bytes.", labels=["of"])
    family.add_metric(["limit"], book.limit)
    family.add_metric(["promised"], sum(each.size for each in book.promises))
    family.add_metric(["left"], book.left())
    yield family


def trainings() -> Iterator[GaugeMetricFamily]:
    """Live trainings by their state."""
    from model.training.live.snapshot import Status
    from viz.state.training import trainings as registry

    counts = Counter(each.snapshot.status for each in registry().all())
    family = GaugeMetricFamily("vitrine_trainings", "Live trainings by their state.", labels=["state"])
    for state in get_args(Status):
        family.add_metric([state], counts[state])
    yield family


REGISTRY = CollectorRegistry()
REGISTRY.register(Figures())
ProcessCollector(registry=REGISTRY)
PlatformCollector(registry=REGISTRY)
for measured in (channel.WAITED, channel.TOOK):
    REGISTRY.register(measured)


async def metrics(_request: Request) -> Response:
    """Answer with all figures; the guard says who may ask."""
    return Response(generate_latest(REGISTRY), media_type=FORM)

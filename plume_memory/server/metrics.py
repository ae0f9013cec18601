"""What is counted, in Prometheus' form. Labels are few and say nothing of memories or users."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from plume_memory.records import Answer

if TYPE_CHECKING:  # torch's side
    from plume_memory.scheduling.scheduler import Counters

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_TENTHS = tuple(n / 10 for n in range(1, 11))


class Metrics:
    """The counters of one server.

    Args:
        counters: of the scheduler; None while no model is loaded.
    """

    def __init__(self, counters: "Callable[[], Counters | None]") -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter("plume_requests", "Requests answered.", ["route", "status"], registry=self.registry)
        self.first_token_s = Histogram(
            "plume_ttft_seconds", "From a question to its first word.", buckets=_SECONDS, registry=self.registry
        )
        self.stage_s = Histogram(
            "plume_stage_seconds", "Of a stage.", ["stage"], buckets=_SECONDS, registry=self.registry
        )
        self.derivations = Counter(
            "plume_derivations", "Updates derived while their caller waited.", ["outcome"], registry=self.registry
        )
        self.answers = Counter("plume_answers", "Answers, by their evidence.", ["evidence"], registry=self.registry)
        self.confidence = Histogram(
            "plume_confidence", "Of answers with evidence.", buckets=_TENTHS, registry=self.registry
        )
        self.store_errors = Counter(
            "plume_store_errors", "Requests that failed in the store.", ["type"], registry=self.registry
        )
        self.draining = Gauge("plume_draining", "Whether no more work is taken.", registry=self.registry)
        self.registry.register(_Scheduler(counters))

    def count_answer(self, answer: Answer) -> None:
        """Count one that was given."""
        units = len(answer.evidence_units)
        self.answers.labels("none" if units == 0 else "one" if units == 1 else "many").inc()
        if units:
            self.confidence.observe(answer.confidence)

    def text(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return generate_latest(self.registry)


class _Scheduler(Collector):
    """What the scheduler counts itself, read when it is asked for."""

    def __init__(self, counters: "Callable[[], Counters | None]") -> None:
        self._counters = counters

    def collect(self) -> Iterator[Metric]:
        """See `Collector`."""
        found = self._counters()
        waiting, running, steps, seconds = (
            (found.waiting, found.running, found.steps, found.seconds) if found else (0, 0, 0, 0.0)
        )
        yield GaugeMetricFamily("plume_queue_rows", "Questions that wait to be decoded.", value=waiting)
        yield GaugeMetricFamily("plume_running_rows", "Questions that are decoded now.", value=running)
        yield SummaryMetricFamily("plume_step_seconds", "Steps of the batch.", count_value=steps, sum_value=seconds)

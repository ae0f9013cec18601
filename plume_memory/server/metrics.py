"""What is counted, in Prometheus' form. Labels are few and say nothing of memories or users."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from plume_memory.records import Answer
from plume_memory.store.artifacts import ArtifactStore

if TYPE_CHECKING:  # torch's side
    from plume_memory.engine import Engine

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_TENTHS = tuple(n / 10 for n in range(1, 11))


class Metrics:
    """The counters of one server.

    Args:
        engine: gives what decodes; None while no model is loaded.
        artifacts: where what is derived is kept.
    """

    def __init__(self, engine: "Callable[[], Engine | None]", artifacts: ArtifactStore) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter("plume_requests", "Requests answered.", ["route", "status"], registry=self.registry)
        self.first_token_s = Histogram(
            "plume_ttft_seconds", "From a question to its first word.", buckets=_SECONDS, registry=self.registry
        )
        self.derivation_s = Histogram(
            "plume_derivation_seconds", "Deriving while a caller waited.", buckets=_SECONDS, registry=self.registry
        )
        self.derivations = Counter(
            "plume_derivations", "Updates derived while their caller waited.", ["outcome"], registry=self.registry
        )
        help_text = "Answers, by their evidence and whether they were decoded a second time."
        self.answers = Counter("plume_answers", help_text, ["evidence", "retried"], registry=self.registry)
        self.confidence = Histogram(
            "plume_confidence", "Of answers with evidence.", buckets=_TENTHS, registry=self.registry
        )
        self.store_errors = Counter(
            "plume_store_errors", "Requests that failed in the store.", ["type"], registry=self.registry
        )
        self.draining = Gauge("plume_draining", "Whether no more work is taken.", registry=self.registry)
        self.registry.register(_Decoding(engine))
        self.registry.register(_Caches(engine, artifacts))

    def count_answer(self, answer: Answer) -> None:
        """Count one that was given."""
        units = len(answer.evidence_units)
        evidence = "none" if units == 0 else "one" if units == 1 else "many"
        self.answers.labels(evidence, str(answer.retried).lower()).inc()
        if units:
            self.confidence.observe(answer.confidence)

    def text(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return generate_latest(self.registry)


class _Decoding(Collector):
    """What the engine counts itself, read when it is asked for."""

    def __init__(self, engine: "Callable[[], Engine | None]") -> None:
        self._engine = engine

    def collect(self) -> Iterator[Metric]:
        """See `Collector`."""
        engine = self._engine()
        found = None if engine is None else engine.scheduler.counters()
        waiting, running, steps, seconds = (
            (found.waiting_rows, found.running_rows, found.steps, found.seconds) if found else (0, 0, 0, 0.0)
        )
        yield GaugeMetricFamily("plume_queue_rows", "Rows that wait to be decoded.", value=waiting)
        yield GaugeMetricFamily("plume_running_rows", "Rows that are decoded now.", value=running)
        yield SummaryMetricFamily("plume_step_seconds", "Steps of the batch.", count_value=steps, sum_value=seconds)
        stages = SummaryMetricFamily(
            "plume_stage_seconds", "The model's work by its kind, in passes.", labels=["stage"]
        )
        for stage, (passes, spent) in ({} if engine is None else engine.work()).items():
            stages.add_metric([stage], count_value=passes, sum_value=spent)
        yield stages


class _Caches(Collector):
    """What was kept and found again, in this process and in the artifacts."""

    def __init__(self, engine: "Callable[[], Engine | None]", artifacts: ArtifactStore) -> None:
        self._engine, self._artifacts = engine, artifacts

    def collect(self) -> Iterator[Metric]:
        """See `Collector`."""
        engine, artifacts = self._engine(), self._artifacts
        counted = {"artifacts": (artifacts.hits, artifacts.misses)}
        if engine is not None:
            counted |= {name: (kept.hits, kept.misses) for name, kept in engine.caches().items()}
        hits = CounterMetricFamily("plume_cache_hits", "Found where it is kept.", labels=["cache"])
        misses = CounterMetricFamily("plume_cache_misses", "Made anew.", labels=["cache"])
        for name, (found, missed) in counted.items():
            hits.add_metric([name], found)
            misses.add_metric([name], missed)
        yield hits
        yield misses
        help_text = "Calls that a place of artifacts elsewhere did not answer, or refused."
        yield CounterMetricFamily("plume_artifacts_unavailable", help_text, value=artifacts.failures)

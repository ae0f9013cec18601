"""How many replicas: as many as the rows that are decoded or wait need. Runs in Ray Serve's controller."""

from collections.abc import Sequence
from typing import Any

from plume_memory.server.pinning import ROWS
from plume_memory.server.state import Serving

STAT = "rows"


def load_of(serving: Serving) -> dict[str, float]:
    """Return what a replica reports: rows of the questions it has taken, and one for each other request."""
    questions = len(serving.answers)
    others = max(serving.condition.in_flight - questions, 0)
    return {STAT: float(ROWS * questions + others)}


def replicas_for_rows(context: Any) -> tuple[float, dict[str, Any]]:
    """Return how many replicas the rows of a deployment need. Bounds and delays are Ray Serve's, and applied by it.

    Args:
        context: Ray Serve's `AutoscalingContext`; `target_ongoing_requests` of its settings is in rows.
    """
    reported: Sequence[float] = list(context.aggregated_metrics.get(STAT, {}).values())
    rows = sum(reported) + ROWS * context.total_queued_requests
    return rows / context.config.get_target_ongoing_requests(), {}

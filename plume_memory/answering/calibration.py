"""How sure an answer is. Knows signals, and the trace of a decode; no words."""

import math
from collections.abc import Sequence

from plume_memory.model.repetition import repeated
from plume_memory.policy import Calibration
from plume_memory.records import Signals, TokenTrace


def mean_log_probability(trace: Sequence[TokenTrace]) -> float:
    """Return the mean log p of an answer's tokens (`TokenTrace.log_prob`), in nats, below 0.

    Without those that only say again what was said before them: a model is ever surer of a loop.

    Args:
        trace: at least one token.
    """
    said = trace[: len(trace) - repeated([t.token_id for t in trace])]
    return min(sum(t.log_prob for t in said) / len(said), -1e-9)


def confidence(signals: Signals, calibration: Calibration) -> float:
    """Return how sure an answer from evidence is, in [0, 1].

        log-odds = slope · logit(exp(mean log p)) + offset + per_nat · gain + answerable · a + support · s

    Where a signal that the calibration weighs is missing, as nobody read the evidence or there is no judge, it was not
    calibrated for this: the geometric mean probability of the tokens is given.
    """
    mean = signals.mean_log_prob
    weighed = (
        (calibration.per_nat, signals.gain),
        (calibration.answerable, signals.answerable),
        (calibration.support, signals.support),
    )
    if any(weight and signal is None for weight, signal in weighed):
        return math.exp(mean)
    odds = calibration.slope * (mean - math.log(-math.expm1(mean))) + calibration.offset
    odds += sum(weight * (signal or 0.0) for weight, signal in weighed)
    return 1 / (1 + math.exp(-odds)) if odds > -700 else 0.0

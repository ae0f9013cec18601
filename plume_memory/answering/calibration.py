"""How sure an answer is. Knows the trace of a decode and the gain of its evidence; no words."""

import math
from collections.abc import Sequence

from plume_memory.model.repetition import repeated
from plume_memory.policy import Calibration
from plume_memory.records import ScoredUnit, TokenTrace, best_gain


def mean_log_probability(trace: Sequence[TokenTrace]) -> float:
    """Return the mean log p of an answer's tokens (`TokenTrace.log_prob`), in nats, below 0.

    Without those that only say again what was said before them: a model is ever surer of a loop.

    Args:
        trace: at least one token.
    """
    said = trace[: len(trace) - repeated([t.token_id for t in trace])]
    return min(sum(t.log_prob for t in said) / len(said), -1e-9)


def confidence(trace: Sequence[TokenTrace], evidence: Sequence[ScoredUnit], calibration: Calibration) -> float:
    """Return how sure an answer is, in [0, 1]; 0.0 for an answer without a token.

        log-odds = slope · logit(exp(mean log p)) + offset + per_nat · gain

    with the best gain of the evidence's units, 0 where there is none. Evidence whose gain is unknown, as nobody read
    it, was not calibrated for where gains count: the geometric mean probability is given.
    """
    if not trace:
        return 0.0
    mean = mean_log_probability(trace)
    gain = best_gain(evidence)
    if calibration.per_nat and evidence and gain is None:
        calibration = Calibration()
    odds = calibration.slope * (mean - math.log(-math.expm1(mean))) + calibration.offset
    odds += calibration.per_nat * (gain or 0.0)
    return 1 / (1 + math.exp(-odds)) if odds > -700 else 0.0

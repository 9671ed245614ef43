"""Confidence intervals for ratios measured round by round."""

import numpy as np
import scipy.stats


def ratio_interval(ratios, confidence: float = 0.95) -> tuple[float, float, float]:
    """(median, low, high) of the ratios of single rounds; the interval is a percentile bootstrap of the median."""
    ratios = np.asarray(ratios, dtype=float)
    median = float(np.median(ratios))
    if len(ratios) < 2:
        return median, median, median
    found = scipy.stats.bootstrap(
        (ratios,), np.median, confidence_level=confidence, n_resamples=2000, method="percentile", rng=0
    )
    return median, float(found.confidence_interval.low), float(found.confidence_interval.high)

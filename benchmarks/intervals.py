"""Confidence intervals for ratios measured round by round."""

import numpy as np

RESAMPLES = 2000


def ratio_interval(ratios, confidence: float = 0.95) -> tuple[float, float, float]:
    """(median, low, high) of the ratios of single rounds; the interval is a percentile bootstrap of the median."""
    ratios = np.asarray(ratios, dtype=float)
    drawn = np.random.default_rng(0).integers(len(ratios), size=(RESAMPLES, len(ratios)))
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.median(ratios[drawn], axis=1), [tail, 1 - tail])
    return float(np.median(ratios)), float(low), float(high)

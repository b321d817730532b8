"""The number of segments of a sliding window. Imports no torch: costs and kernels need it, too."""

from __future__ import annotations

import math


def segment_count(groups: int) -> int:
    """K ≈ √N / 2 segments for a window of N groups: fewer need more memory for suffixes, more need more merges."""
    return max(min(groups, 2), round(math.sqrt(groups) / 2))

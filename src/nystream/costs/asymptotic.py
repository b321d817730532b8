"""How costs grow: the paper's table, and what it should say where that differs.

The paper's first column is the cost of a step that renews a landmark. Over a stream, renewals come at m steps out of n,
so that the mean cost with continual landmarks has m/n of it.
"""

from collections.abc import Mapping

from nystream.costs.model import Growth, formula
from nystream.variants import VARIANTS

PAPER: Mapping[str, Growth] = {variant: formula(variant, "growth") for variant in VARIANTS}

# A mean over the steps of a stream, and with what will leave the window. As m <= n, nd covers dm and nm covers m².
CORRECTED: Mapping[str, Growth] = {variant: formula(variant, "corrected_growth", "growth") for variant in VARIANTS}

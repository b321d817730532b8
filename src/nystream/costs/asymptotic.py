"""How costs grow: the paper's table, and what it should say where that differs.

The paper's first column is the cost of a step that renews a landmark. Over a stream, renewals come at m steps out of n,
so that the mean cost with continual landmarks has m/n of it.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Growth(NamedTuple):
    """Orders of growth: operations of a step, numbers held between two steps and within one."""

    operations: str
    valley: str
    peak: str


PAPER: Mapping[str, Growth] = {
    "full": Growth("n²d", "nd", "n² + nd"),
    "co-full-single": Growth("nd", "nd", "nd"),
    "co-full-retro": Growth("nd", "nd", "nd"),
    "nystrom": Growth("ndm + nm² + m³", "nd", "nd + nm + m²"),
    "nystrom-fixed": Growth("ndm + nm²", "nd + m²", "nd + nm + m²"),
    "co-cont-single": Growth("ndm + m³", "nd + m²", "nd + m²"),
    "co-cont-retro": Growth("ndm + nm² + m³", "nd + m²", "nd + nm + m²"),
    "co-fixed-single": Growth("dm + m²", "dm + m²", "dm + m²"),
    "co-fixed-retro": Growth("ndm + m²", "nm + m²", "nd + nm + m²"),
}

# A mean over the steps of a stream, and with what will leave the window. As m <= n, nd covers dm and nm covers m².
CORRECTED: Mapping[str, Growth] = {
    **PAPER,
    "co-cont-single": Growth("dm + m² + m⁴/n", "nd + m²", "nd + m²"),
    "co-cont-retro": Growth("ndm + m³", "nd + nm + m²", "nd + nm + m²"),
    "co-fixed-single": Growth("dm + m²", "nd + nm + m²", "nd + nm + m²"),
    "co-fixed-retro": Growth("ndm + m²", "nd + nm + m²", "nd + nm + m²"),
}

"""What attention costs: the paper's counts of operations and of memory, the corrected ones, and the library's own.

Plain arithmetic on n (window), d (width) and m (landmarks): nothing here needs a model or a tensor.
"""

from nystream.costs.executed import dense, executed
from nystream.costs.flops import flops
from nystream.costs.memory import memory
from nystream.costs.model import CostModel, Executed, Growth, Memory, Sizes, Stored
from nystream.costs.state import pool_bytes, state_bytes

__all__ = [
    "CostModel",
    "Executed",
    "Growth",
    "Memory",
    "Sizes",
    "Stored",
    "dense",
    "executed",
    "flops",
    "memory",
    "pool_bytes",
    "state_bytes",
]

"""The cost of attention: the paper's counts of operations and memory, corrected counts, and what the library executes.

All functions are plain arithmetic on n (window), d (width) and m (landmarks). They need neither a model nor torch.
"""

from nystream.costs.executed import dense, executed
from nystream.costs.flops import flops
from nystream.costs.linear import LinearCosts, linear
from nystream.costs.memory import memory
from nystream.costs.model import CostModel, Executed, Growth, Memory, Sizes, Stored, growth
from nystream.costs.state import pool_bytes, state_bytes

__all__ = [
    "CostModel",
    "Executed",
    "Growth",
    "LinearCosts",
    "Memory",
    "Sizes",
    "Stored",
    "dense",
    "executed",
    "flops",
    "growth",
    "linear",
    "memory",
    "pool_bytes",
    "state_bytes",
]

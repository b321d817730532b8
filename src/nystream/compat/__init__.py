"""Conversion from torch's encoders, and from and to the package continual-inference."""

from nystream.compat.continual import continual, from_continual, to_continual
from nystream.compat.stateful import Continual
from nystream.compat.torch_encoder import from_torch

# The function `continual` shadows the module of that name; `from nystream.compat.continual import ...` still works.

__all__ = ["Continual", "continual", "from_continual", "from_torch", "to_continual"]

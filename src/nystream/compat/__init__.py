"""To and from other libraries: torch's own encoders, and the package continual-inference."""

from nystream.compat.continual import continual, from_continual, to_continual
from nystream.compat.stateful import Continual
from nystream.compat.torch_encoder import from_torch

# The function `continual` hides the module of that name; `from nystream.compat.continual import ...` still finds it.

__all__ = ["Continual", "continual", "from_continual", "from_torch", "to_continual"]

"""The cost of a model's linear path."""

from typing import NamedTuple

from nystream.config import LinearConfig
from nystream.costs.model import positive_integer
from nystream.costs.state import padded


class LinearCosts(NamedTuple):
    """The cost of a linear path: per step, and per stream."""

    products: int
    additions: int
    state_bytes: int
    pool_bytes: int


def linear(
    path: LinearConfig, input_dim: int, output_dim: int, embed_dim: int | None = None, *, token_bytes: int = 4
) -> LinearCosts:
    """Count what a linear path adds to a model.

    With P tokens, of which c numbers are read after the newest, F features and o outputs:

        products       F o, and o d if the outputs are embedded
        additions      c per token of a segment of more than one
        state_bytes    (P − 1) c numbers, the ring of the last inputs
        pool_bytes     the same in float32, in whole cache lines

    The bytes are what `init_state` and a pool with `backend="numba"` need in addition to those of the encoder.

    Args:
        path: The config of the path.
        input_dim, output_dim: The widths of a token and of an output.
        embed_dim: The width d of the model. Needed if the outputs are embedded.
        token_bytes: The bytes of one number of the state, which has the dtype of the model.

    Example:
        >>> import nystream as ns
        >>> path = ns.LinearConfig(segments=(1, 1, 6), inputs=2)
        >>> ns.costs.linear(path, input_dim=5, output_dim=3)
        LinearCosts(products=27, additions=12, state_bytes=56, pool_bytes=64)
    """
    if not isinstance(path, LinearConfig):
        raise TypeError(f"path is a {type(path).__name__}, but must be a LinearConfig")
    inputs, outputs = positive_integer("input_dim", input_dim), positive_integer("output_dim", output_dim)
    width = path.width(inputs)
    products = path.features(inputs) * outputs
    if path.embedded:
        products += outputs * positive_integer("embed_dim", embed_dim)
    additions = sum(run.length * run.repeats * width for run in path.runs if run.length > 1)
    ring = (path.tokens - 1) * width
    return LinearCosts(products, additions, ring * token_bytes, 4 * padded(ring))

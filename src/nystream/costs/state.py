"""Bytes of state that the library stores per stream."""

import math

import nystream.variants as variants
from nystream.costs.model import (
    Sizes,
    Stored,
    check_arguments,
    check_form,
    formula,
    positive_integer,
    require_stack,
    roles_of,
)


def state_bytes(
    variant: str,
    n: int,
    d: int,
    m: int | None = None,
    heads: int = 1,
    *,
    update_size: int = 1,
    form: str = "recompute",
    token_bytes: int = 4,
    sum_bytes: int = 4,
    layers: int = 1,
    stack: str = "paper",
) -> int:
    """Return the bytes of the state of one stream.

    The state consists of these numbers, where h is the number of heads and S the number of partial sums:

        full, nystrom, nystrom-fixed   3nd tokens
        co-full-single                 2nd tokens
        co-full-retro                  3nd tokens,  n(d + 5h) sums
        co-fixed-single                 nd tokens,  nhm + S m(d + 2h) sums
        co-fixed-retro                  nd tokens, 2nhm + S m(d + 2h) sums
        co-cont-single                 2nd tokens,  nhm + S m(d + 2h) + 2d(m + 1) + hm² sums
        co-cont-retro                  3nd tokens, 3nhm + S m(d + 2h) + 2d(m + 1) + hm² sums

    Tokens have the dtype of the model, sums at least float32. S is 0 for "recompute", 1 for "subtract", and 2 + T for
    "partials", where T is the number of totals: none for small windows, then about n / 3m (see `nystream.ops.cut`). The
    token count takes 8 bytes.

    Args:
        variant, n, m, heads: As in `flops`.
        d: The total width of all heads.
        update_size: The number of tokens r that arrive together.
        form: How the sums over the window are computed, as in `AttentionConfig.form`.
        token_bytes, sum_bytes: The bytes of one number.
        layers: The number of blocks. 1 is the attention alone, more are an encoder.
        stack: A "paper" stack stores the state of its first attention and nd numbers for the residual around it,
            because later blocks read n new rows at every step. A "deep" stack stores the state of every block.

    Example:
        >>> import nystream as ns
        >>> cfg = ns.AttentionConfig(
        ...     "co-fixed-single", embed_dim=64, num_heads=4, window=500, landmarks=8
        ... )
        >>> ns.costs.state_bytes("co-fixed-single", 500, 64, 8, heads=4, form=cfg.form)
        254216
        >>> ns.state.nbytes(ns.MultiheadAttention(cfg).init_state(1))
        254216
    """
    n, d, landmarks = check_arguments(variant, n, d, m)
    check_form(form)
    deep = stack == "deep"
    if positive_integer("layers", layers) > 1:
        require_stack(variant, stack)
        variant = variant if deep else roles_of(variant).first
    stored: Stored = formula(variant, "state")(Sizes(n, d, landmarks, heads, form, update_size))
    block = 8 + stored.tokens * token_bytes + stored.sums * sum_bytes
    if layers == 1:
        return block
    return layers * block if deep else block + n * d * token_bytes


def pool_bytes(
    variant: str,
    n: int,
    d: int,
    m: int | None = None,
    heads: int = 1,
    *,
    update_size: int = 1,
    ring_dtype: str = "float32",
) -> int:
    """Return the bytes of one block of one stream in a pool with `backend="numba"`.

    The numbers are those of `state_bytes` with `form="partials"`, with one partial sum less, and h m L numbers for the
    weights of the L tokens that are edges of a landmark. All are float32, but tokens have the `ring_dtype` of the pool.
    Every array starts at a cache line; if a row of tokens has a multiple of 1,024 bytes, so that rows would share a few
    sets of the cache, each has one cache line more. Heads are padded to tiles of T = lcm(h, 8) lanes: d becomes the
    next multiple of T, and h becomes T. With 8 or 16 heads neither changes.

    Example:
        >>> import nystream as ns
        >>> attention = ns.AttentionConfig(
        ...     "co-cont-single", embed_dim=64, num_heads=8, window=500, landmarks=8
        ... )
        >>> pool = ns.StreamPool(ns.MultiheadAttention(attention))
        >>> ns.costs.pool_bytes("co-cont-single", 500, 64, 8, heads=8) == pool.bytes_per_stream
        True
    """
    kernel = variants.get(variant).kernel
    if kernel is None:
        supported = ", ".join(name for name in variants.names() if variants.get(name).kernel)
        raise ValueError(f"variant {variant!r} has no kernel; the variants with a kernel are {supported}")
    n, d, landmarks = check_arguments(variant, n, d, m)
    if ring_dtype not in _PER_WORD:
        raise ValueError(f"ring_dtype must be one of {', '.join(_PER_WORD)}, got {ring_dtype!r}")
    tile = math.lcm(heads, 8)
    d = -(-d // tile) * tile
    words = d // _PER_WORD[ring_dtype]  # of a row of tokens
    ring = n * (words + (_CACHE_LINE if words % 256 == 0 else 0))
    arrays = [ring] if kernel == "fixed" else [ring, ring]
    if kernel != "full":
        window = Sizes(n, d, landmarks, heads, "partials", update_size).cut
        arrays += [n * landmarks * tile, (1 + window.totals) * padded(landmarks * (d + 2 * tile))]
        arrays += [window.longest_edges * update_size * landmarks * tile]
    if kernel == "continual":
        arrays += [landmarks * d, landmarks * d, 2 * d, landmarks**2 * tile]
    return 4 * (_CACHE_LINE + sum(map(padded, arrays)))  # the token count has a cache line of its own


_CACHE_LINE = 16  # float32 numbers
_PER_WORD = {"float32": 1, "bfloat16": 2}  # numbers in the memory of a float32


def padded(size: int) -> int:
    """The size of an array in float32 numbers, in whole cache lines."""
    return -(-size // _CACHE_LINE) * _CACHE_LINE

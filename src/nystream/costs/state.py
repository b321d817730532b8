"""Bytes of the state that the library keeps for one stream: what is stored, not what the paper's formulas ask for."""

import math
from functools import partial

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
    """Bytes of one stream's state. d is the width of all heads; `form` is `AttentionConfig.form`.

    With n the window, h the heads, m the landmarks and S the partials of the window, in numbers:

        full, nystrom, nystrom-fixed   3nd tokens
        co-full-single                 2nd tokens
        co-full-retro                  3nd tokens,  n(d + 5h) sums
        co-fixed-single                 nd tokens,  nhm + S m(d + 2h) sums
        co-fixed-retro                  nd tokens, 2nhm + S m(d + 2h) sums
        co-cont-single                 2nd tokens,  nhm + S m(d + 2h) + 2d(m + 1) + hm² sums
        co-cont-retro                  3nd tokens, 3nhm + S m(d + 2h) + 2d(m + 1) + hm² sums

    Tokens are kept in the dtype of the model, sums in float32 at least. S is 0 for "recompute", 1 for "subtract" and
    4 + K + ⌈N/K⌉ for "partials", with N = n / r groups of tokens and K = max(2, √N / 2), rounded. 8 bytes hold the
    time.

    One layer is the attention alone; more of them are the encoder's state. A paper stack keeps the state of its first
    attention, and nd tokens for the residual around it: what later blocks see is new at every step. A deep stack keeps
    the state of every block.

    Example:
        >>> import nystream as ns
        >>> cfg = ns.AttentionConfig(
        ...     "co-fixed-single", embed_dim=64, num_heads=4, window=500, landmarks=8
        ... )
        >>> ns.costs.state_bytes("co-fixed-single", 500, 64, 8, heads=4, form=cfg.form)
        332552
        >>> ns.state.nbytes(ns.MultiheadAttention(cfg).init_state(1))
        332552
    """
    if positive_integer("layers", layers) > 1:
        require_stack(variant, stack)
        first = variant if stack == "deep" else roles_of(variant).first
        one = partial(state_bytes, update_size=update_size, form=form, token_bytes=token_bytes, sum_bytes=sum_bytes)
        block = one(first, n, d, m, heads)
        return layers * block if stack == "deep" else block + n * d * token_bytes
    n, d, landmarks = check_arguments(variant, n, d, m)
    check_form(form)
    stored: Stored = formula(variant, "state")(Sizes(n, d, landmarks, heads, form, update_size))
    return 8 + stored.tokens * token_bytes + stored.sums * sum_bytes


def pool_bytes(variant: str, n: int, d: int, m: int | None = None, heads: int = 1, *, update_size: int = 1) -> int:
    """Bytes of one block of one stream in a pool with `backend="numba"`; every array begins at a cache line.

    The numbers are those of `state_bytes` in float32, always with partials. Heads are laid out in tiles of
    T = lcm(h, 8) lanes, so d becomes the next multiple of T and h becomes T where T > h; with 8 or 16 heads neither
    changes.

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
        have = ", ".join(name for name in variants.names() if variants.get(name).kernel)
        raise ValueError(f"variant {variant!r} has no kernel; those that have one are {have}")
    n, d, landmarks = check_arguments(variant, n, d, m)
    tile = math.lcm(heads, 8)
    d = -(-d // tile) * tile
    arrays = [n * d] if kernel == "fixed" else [n * d, n * d]
    if kernel != "full":
        slots = Sizes(n, d, landmarks, heads, "partials", update_size).partials
        arrays += [n * landmarks * tile, slots * _lines(landmarks * (d + 2 * tile))]
    if kernel == "continual":
        arrays += [landmarks * d, landmarks * d, 2 * d, landmarks**2 * tile]
    return 4 * (_LINE + sum(map(_lines, arrays)))


_LINE = 16  # float32 of a cache line; the time has one to itself


def _lines(size: int) -> int:
    return -(-size // _LINE) * _LINE

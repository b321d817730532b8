"""One row of attention through landmarks: the middle, the edges, and the new group of tokens.

Streams that enter a block need a new middle first, which takes much longer than the step. So the first programs of the
launch take them, from a list, and the others step the rest meanwhile.
"""

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_wait

from nystream.stream.gpu.kernels.memory import (
    columns,
    head_stride,
    landmark_rows,
    logits,
    partials,
    read,
    ring,
    row_at,
    store_logits,
    tokens,
    width,
    write,
)
from nystream.stream.gpu.kernels.middle import listed_rows, pairs, per_pair, renew
from nystream.stream.gpu.kernels.sums import exp, of_columns, of_means, of_tokens, wrapped


@triton.jit(do_not_specialize=["rows", "renewers"], do_not_specialize_on_alignment=["places", "entering", "count"])
def step(
    out,
    logit,
    query,
    value,
    gamma_pinv,
    rate,
    slots,
    places,
    entering,
    count,
    ring_logit,
    ring_value,
    part_lse,
    part_mean,
    rows,
    renewers,
    N: tl.constexpr,
    R: tl.constexpr,
    H: tl.constexpr,
    M: tl.constexpr,
    D: tl.constexpr,
    L: tl.constexpr,
    C: tl.constexpr,
    EDGES: tl.constexpr,
    TIER: tl.constexpr,
    PARTIALS: tl.constexpr,
    P: tl.constexpr,
    M_: tl.constexpr,
    S_: tl.constexpr,
    C_: tl.constexpr,
    E_: tl.constexpr,
    R_: tl.constexpr,
    RENEWED: tl.constexpr,
    CHUNK: tl.constexpr,
    EARLY: tl.constexpr,
):
    """Write out [rows, r, H, D] = softmax(query) Γ† Δ_φ V, and the new tokens into the rings.

    logit and query, rows of m columns per head, are the scaled products of the new keys and queries with the landmarks,
    `value` is [rows, r, H, D]. gamma_pinv is m rows of m columns for each stream; if it is None, `query` is
    softmax(query) Γ† already. Programs below `renewers` loop over the pairs of the rows in `entering`; each of the
    others computes one group of P pairs. `rate` is None if logits do not fall with the age of their tokens.
    """
    if EARLY:
        gdc_wait()  # for the end of the kernel before this one
    window = (ring_logit, ring_value, part_lse, part_mean)
    strip = tl.program_id(1) * S_ + tl.arange(0, S_)
    renewing = tl.program_id(0) < renewers
    if renewing:
        listed = tl.load(count) * H
        group, groups = tl.program_id(0), tl.cdiv(listed, P)
    else:
        listed = 0
        group = tl.program_id(0) - renewers
        groups = group + 1
    while group < groups:
        if renewing:
            row, h, exists = listed_rows(entering, listed, group, H, P)
        else:
            pair = pairs(group, P)
            row, h = (pair // H).to(tl.int64), pair % H
            exists = row < rows
        # Neither load waits for the other, nor do the inputs wait for them.
        place, slot = tl.load(places + row, exists, -1), tl.load(slots + row, exists, 0)
        row, h, exists = per_pair(row, P), per_pair(h, P), per_pair(exists, P)
        inputs = _inputs(logit, query, gamma_pinv, value, row, h, strip, exists, R, H, M, D, L, C, M_, C_, R_)
        place, slot = per_pair(place, P), per_pair(slot.to(tl.int64), P)
        live = (place >= 0) & ((place % EDGES == 0) == renewing)
        written = exists & (live | (place < 0))
        slot = tl.where(live, slot, 0)
        if rate is None:
            fall = None
        else:
            fall = tl.load(rate + h)
        if renewing:
            for part in range(0, S_, RENEWED):
                renew(
                    window, fall, slot, place, h, tl.program_id(1) * S_ + part + tl.arange(0, RENEWED), live,
                    N, H, M, D, L, C, EDGES, TIER, PARTIALS, M_, C_, CHUNK,
                )  # fmt: skip
            tl.debug_barrier()  # other threads of the program read what was stored
        _attend(
            out, inputs, query, gamma_pinv, window, fall, row, slot, place, h, strip, live, written,
            N, R, H, M, D, L, C, EDGES, PARTIALS, M_, C_, E_, R_,
        )  # fmt: skip
        group += renewers


@triton.jit
def _inputs(
    logit, query, gamma_pinv, value, row, h, strip, exists, R: tl.constexpr, H: tl.constexpr, M: tl.constexpr,
    D: tl.constexpr, L: tl.constexpr, C: tl.constexpr, M_: tl.constexpr, C_: tl.constexpr, R_: tl.constexpr,
):  # fmt: skip
    """The new logits [P, R, m] and values [P, R, S, C], and the first query [P, m]."""
    k = tl.arange(0, R_)
    new = exists[:, None] & (k < R)[None, :]  # [P, R]
    token = row[:, None] * R + k[None, :]
    column = strip[:, None] * C + tl.arange(0, C_)[None, :]  # [S, C]
    stored = (column < D) & (tl.arange(0, C_) < C)[None, :]
    new_value = read(
        value + (token * (H * D) + h[:, None] * D)[:, :, None, None] + column[None, None],
        new[:, :, None, None] & stored[None, None],
        0.0,
    )
    new_logit = _products(logit, row * R, k, h, new, float("-inf"), H, M, L, M_)
    return new_logit, new_value, _query(query, gamma_pinv, row * R, h, exists, H, M, L, M_)


@triton.jit
def _query(
    query, gamma_pinv, token, h, exists, H: tl.constexpr, M: tl.constexpr, L: tl.constexpr, M_: tl.constexpr
):  # fmt: skip
    other: tl.constexpr = 0.0 if gamma_pinv is None else -1e30  # of landmarks that do not exist
    g = _products(query, token, tl.arange(0, 1), h, exists[:, None], other, H, M, L, M_)
    return tl.reshape(g, [token.shape[0], M_])


@triton.jit
def _products(
    x, token, k, h, there, other, H: tl.constexpr, M: tl.constexpr, L: tl.constexpr, M_: tl.constexpr
):  # fmt: skip
    """Rows `token` + k of products with landmarks, [P, K, m]."""
    of_pair = x + (token * width(H, M, L) + h * head_stride(M, L, 1, token.shape[0] > 1))
    row = tl.zeros([token.shape[0], 1], tl.int32) + (k * width(H, M, L))[None, :]
    return logits(of_pair, row, there, other, H, M, L, M_)


@triton.jit
def _attend(
    out,
    inputs,
    query,
    gamma_pinv,
    window,
    fall,
    row,
    slot,
    place,
    h,
    strip,
    live,
    written,
    N: tl.constexpr,
    R: tl.constexpr,
    H: tl.constexpr,
    M: tl.constexpr,
    D: tl.constexpr,
    L: tl.constexpr,
    C: tl.constexpr,
    EDGES: tl.constexpr,
    PARTIALS: tl.constexpr,
    M_: tl.constexpr,
    C_: tl.constexpr,
    E_: tl.constexpr,
    R_: tl.constexpr,
):
    """The step of P pairs whose middles are known. Rows [P] that are `written` but not `live` are zero."""
    P: tl.constexpr = slot.shape[0]
    LANE: tl.constexpr = P > 1
    z, k = tl.arange(0, E_), tl.arange(0, R_)
    middle, mean = partials(window, slot * PARTIALS, h, strip, live, H, M, D, L, C, M_, C_)

    at = (place // EDGES * EDGES)[:, None] + z[None, :]  # [P, E]
    old = live[:, None] & (z < EDGES)[None, :] & ((at < place[:, None]) | (at >= (place + R)[:, None]))
    if N % EDGES != 0:
        old = old & (at < N)
    old_logit, old_value = tokens(window, slot, at, h, strip, old, N, H, M, D, L, C, EDGES, M_, C_)

    new_logit, new_value, g = inputs
    new = live[:, None] & (k < R)[None, :]  # [P, R]
    # Nobody may have written the inputs of rows that are skipped.
    new_logit, g = tl.where(new[:, :, None], new_logit, float("-inf")), tl.where(live[:, None], g, 0.0)
    into = place[:, None] + k[None, :]
    of_ring, at_row = ring(window[0], slot, h, N, H, M, L, EDGES), row_at(into, H, M, L, EDGES, LANE)
    store_logits(of_ring, at_row, new, new_logit, H, M, L, M_)
    of_ring, at_row = ring(window[1], slot, h, N, H, D, C, EDGES), row_at(into, H, D, C, EDGES, LANE)
    pointers, inside = columns(of_ring, at_row, new, strip, H, D, C, C_)
    write(pointers, new_value, inside)

    if fall is not None:  # logits fall with their age; the middle ends just before the block
        old_logit -= (wrapped((place + (R - 1))[:, None] - at, N) * fall[:, None])[:, :, None]
        new_logit -= ((R - 1 - k)[None, :] * fall[:, None])[:, :, None]
        middle -= ((place % EDGES + R) * fall)[:, None]

    largest = tl.maximum(middle, tl.maximum(tl.max(old_logit, 1), tl.max(new_logit, 1)))
    shift = of_tokens(largest)
    old_share, new_share, share = exp(old_logit - shift), exp(new_logit - shift), exp(middle - largest)
    total = share + tl.sum(old_share, 1) + tl.sum(new_share, 1)  # [P, m]

    column = strip[:, None] * C + tl.arange(0, C_)[None, :]  # [S, C]
    stored = (column < D) & (tl.arange(0, C_) < C)[None, :]
    if gamma_pinv is not None:
        line, exists = landmark_rows(P, H, M, M, L, M_)
        of_inverse = gamma_pinv + (slot * (M * width(H, M, L)) + h * head_stride(M, L, M, LANE))
        inverse = logits(of_inverse, line, live[:, None] & exists, 0.0, H, M, L, M_)  # [P, m, m]
    for which in range(R):
        if which > 0:
            g = _query(query, gamma_pinv, row * R + which, h, live, H, M, L, M_)
        if gamma_pinv is None:
            weight = g / total
        else:
            share_of = exp(g - tl.max(g, 1)[:, None])
            weight = tl.sum(of_columns(share_of) * inverse, 1) / (total * tl.sum(share_of, 1)[:, None])  # [P, m]
        each = of_tokens(weight)
        y = tl.sum(of_means(weight * share) * mean, 1)  # [P, S, C]
        y += tl.sum(of_means(tl.sum(each * old_share, 2)) * old_value.to(tl.float32), 1)
        y += tl.sum(of_means(tl.sum(each * new_share, 2)) * new_value.to(tl.float32), 1)
        write(
            out + (((row * R + which) * H + h) * D)[:, None, None] + column[None],
            tl.where(live[:, None, None], y, 0.0),
            written[:, None, None] & stored[None],
        )

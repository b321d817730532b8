"""One row of attention through landmarks: the middle, the edges, and the new group of tokens.

Streams that enter a block need a new middle first, which takes much longer than the step. So the first programs of the
launch take them, from a list, and the others step the rest meanwhile.
"""

import triton
import triton.language as tl

from nystream.stream.gpu.kernels.memory import (
    columns,
    head_stride,
    landmark_rows,
    logits,
    partials,
    ring,
    row_at,
    store_logits,
    tokens,
)
from nystream.stream.gpu.kernels.middle import listed_pairs, pairs, per_pair, renew
from nystream.stream.gpu.kernels.sums import FLOOR, exp, of_columns, of_means, of_tokens, wrapped


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
    logit_stride,
    value_stride,
    pinv_stride,
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
):
    """Write out [rows, r, H, D] = softmax(query) Γ† Δ_φ V, and the new tokens into the rings.

    logit and query, rows of m columns per head, are the scaled products of the new keys and queries with the
    landmarks, `value` is [rows, r, H, D]; each may be a part of wider rows, `..._stride` apart. gamma_pinv is m rows of
    m columns, for all streams or for each, `pinv_stride` apart. Programs below `renewers` take pairs of the rows in
    `entering`, any number of them, the others one group of P pairs each.
    """
    window = (ring_logit, ring_value, part_lse, part_mean)
    first_strip = tl.program_id(1) * S_
    renewing = tl.program_id(0) < renewers
    if renewing:
        group = tl.program_id(0)
        groups = tl.cdiv(tl.load(count) * H, P)
    else:
        group = tl.program_id(0) - renewers
        groups = group + 1
    while group < groups:
        if renewing:
            row, slot, place, h, live = listed_pairs(slots, places, entering, count, group, H, P)
            written = live
        else:
            pair = pairs(group, P)
            row, h = (pair // H).to(tl.int64), pair % H
            place = tl.load(places + row, row < rows, -1)
            live = (place >= 0) & (place % EDGES != 0)
            written = (row < rows) & (live | (place < 0))
            slot = tl.load(slots + row, live, 0).to(tl.int64)
        fall = per_pair(tl.load(rate + h), P)
        row, slot, place, h = per_pair(row, P), per_pair(slot, P), per_pair(place, P), per_pair(h, P)
        live, written = per_pair(live, P), per_pair(written, P)
        if renewing:
            for part in range(0, S_, RENEWED):
                renew(
                    window, fall, slot, place, h, first_strip + part + tl.arange(0, RENEWED), live,
                    N, H, M, D, L, C, EDGES, TIER, PARTIALS, M_, C_, CHUNK,
                )  # fmt: skip
            tl.debug_barrier()  # other threads of the program read what was stored
        _attend(
            out, logit, query, value, gamma_pinv, window, fall, row, slot, place, h, first_strip + tl.arange(0, S_),
            live, written, logit_stride, value_stride, pinv_stride,
            N, R, H, M, D, L, C, EDGES, PARTIALS, M_, C_, E_, R_,
        )  # fmt: skip
        group += renewers


@triton.jit
def _attend(
    out,
    logit,
    query,
    value,
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
    logit_stride,
    value_stride,
    pinv_stride,
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
    old = live[:, None] & (z < EDGES)[None, :] & (at < N) & ((at < place[:, None]) | (at >= (place + R)[:, None]))
    old_logit, old_value = tokens(window, slot, at, h, strip, old, N, H, M, D, L, C, EDGES, M_, C_)

    new = live[:, None] & (k < R)[None, :]  # [P, R]
    zero = tl.zeros([P, 1], tl.int32)
    new_logit = logits(
        logit + (row * R * logit_stride + h * L), zero + (k * logit_stride)[None, :], new, float("-inf"), H, M, L, M_
    )
    into = place[:, None] + k[None, :]
    of_ring, at_row = ring(window[0], slot, h, N, H, M, L, EDGES), row_at(into, H, M, L, EDGES, LANE)
    store_logits(of_ring, at_row, new, new_logit, H, M, L, M_)
    column = strip[:, None] * C + tl.arange(0, C_)[None, :]  # [S, C]
    stored = (column < D) & (tl.arange(0, C_) < C)[None, :]
    new_value = tl.load(
        value
        + ((row[:, None] * R + k[None, :]) * value_stride + h[:, None] * D)[:, :, None, None]
        + column[None, None],
        new[:, :, None, None] & stored[None, None],
        0.0,
    )
    of_ring, at_row = ring(window[1], slot, h, N, H, D, C, EDGES), row_at(into, H, D, C, EDGES, LANE)
    pointers, inside = columns(of_ring, at_row, new, strip, H, D, C, C_)
    tl.store(pointers, new_value, inside)

    # Logits fall with their age; the middle ends just before the block.
    old_logit -= (wrapped((place + (R - 1))[:, None] - at, N) * fall[:, None])[:, :, None]
    new_logit -= ((R - 1 - k)[None, :] * fall[:, None])[:, :, None]
    middle -= ((place % EDGES + R) * fall)[:, None]

    largest = tl.maximum(middle, tl.maximum(tl.max(old_logit, 1), tl.max(new_logit, 1)))
    shift = of_tokens(largest)
    old_share, new_share, share = exp(old_logit - shift), exp(new_logit - shift), exp(middle - largest)
    total = share + tl.sum(old_share, 1) + tl.sum(new_share, 1)  # [P, m]

    line, exists = landmark_rows(P, H, M, M, L, M_)
    of_inverse = gamma_pinv + (slot * pinv_stride + h * head_stride(M, L, M, LANE))
    inverse = logits(of_inverse, line, live[:, None] & exists, 0.0, H, M, L, M_)  # [P, m, m]
    for which in range(R):
        of = row * R + which
        g = logits(query + (of * logit_stride + h * L), zero, live[:, None], FLOOR, H, M, L, M_)
        g = exp(tl.reshape(g, [P, M_]) - tl.max(g, 2))
        weight = tl.sum(of_columns(g) * inverse, 1) / (total * tl.sum(g, 1)[:, None])  # [P, m]
        each = of_tokens(weight)
        y = tl.sum(of_means(weight * share) * mean, 1)  # [P, S, C]
        y += tl.sum(of_means(tl.sum(each * old_share, 2)) * old_value.to(tl.float32), 1)
        y += tl.sum(of_means(tl.sum(each * new_share, 2)) * new_value.to(tl.float32), 1)
        tl.store(
            out + ((of * H + h) * D)[:, None, None] + column[None],
            tl.where(live[:, None, None], y, 0.0),
            written[:, None, None] & stored[None],
        )

"""One row of attention through landmarks: the edges, the middle, and the new group of tokens."""

import triton
import triton.language as tl

from nystream.stream.gpu.kernels.sums import FLOOR, wrapped


@triton.jit
def step(
    out,
    logit,
    query,
    value,
    gamma_pinv,
    rate,
    slots,
    places,
    ring_logit,
    ring_value,
    part_lse,
    part_mean,
    rows,
    logit_stride,
    value_stride,
    pinv_stride,
    N: tl.constexpr,
    R: tl.constexpr,
    H: tl.constexpr,
    M: tl.constexpr,
    D: tl.constexpr,
    EDGES: tl.constexpr,
    PARTIALS: tl.constexpr,
    P: tl.constexpr,
    M_: tl.constexpr,
    D_: tl.constexpr,
    EDGES_: tl.constexpr,
    PIECES: tl.constexpr,
):
    """Write out [rows, r, H, D] = softmax(query) Γ† Δ_φ V, and the new tokens into the rings.

    logit and query [rows, r, H, m] are the scaled products of the new keys and queries with the landmarks, `value` is
    [rows, r, H, D]; each may be a part of wider rows, `..._stride` apart. One program for P pairs, one query of the
    group, and D_ columns. All programs of a pair take the new tokens from the arguments, so the one that writes them
    does not disturb the others.
    """
    pair = tl.program_id(0) * P + tl.arange(0, P)
    row, h = (pair // H).to(tl.int64), pair % H
    which, piece = tl.program_id(1) // PIECES, tl.program_id(1) % PIECES
    place = tl.load(places + row, row < rows, -1)
    live = place >= 0
    slot = tl.load(slots + row, live, 0).to(tl.int64)
    i, d, z = tl.arange(0, M_), piece * D_ + tl.arange(0, D_), tl.arange(0, EDGES_)

    part_at = slot * (PARTIALS * M * H)
    middle = tl.load(part_lse + (part_at + h * M)[None, :] + i[:, None], live[None, :] & (i < M)[:, None], FLOOR)
    mean = tl.load(
        part_mean + ((part_at + h)[None, :, None] * D + i[:, None, None] * (H * D)) + d[None, None, :],
        live[None, :, None] & (i < M)[:, None, None] & (d < D)[None, None, :],
        0.0,
    )  # [m, P, D]

    at = (place // EDGES * EDGES)[None, :] + z[:, None]  # [E, P]
    edge = live[None, :] & (z < EDGES)[:, None] & (at < N)
    new = edge & (at >= place[None, :]) & (at < place[None, :] + R)
    token = row[None, :] * R + at - place[None, :]  # of the arguments, if it is new
    ring_at = (slot[None, :] * N + at) * H + h[None, :]
    l_mask = (i < M)[None, :, None]
    old_logit = tl.load(
        ring_logit + ring_at[:, None, :] * M + i[None, :, None], (edge & ~new)[:, None, :] & l_mask, 0.0
    )
    new_logit = tl.load(
        logit + token[:, None, :] * logit_stride + (h[None, None, :] * M + i[None, :, None]),
        new[:, None, :] & l_mask,
        0.0,
    )
    v_mask = (d < D)[None, None, :]
    old_value = tl.load(
        ring_value + ring_at[:, :, None] * D + d[None, None, :], (edge & ~new)[:, :, None] & v_mask, 0.0
    )
    new_value = tl.load(
        value + token[:, :, None] * value_stride + (h[None, :, None] * D + d[None, None, :]),
        new[:, :, None] & v_mask,
        0.0,
    )
    if which == 0:
        tl.store(ring_value + ring_at[:, :, None] * D + d[None, None, :], new_value, new[:, :, None] & v_mask)
        tl.store(ring_logit + ring_at[:, None, :] * M + i[None, :, None], new_logit, new[:, None, :] & l_mask)

    # Logits fall with their age; the middle ends just before the block.
    fall = tl.load(rate + h)
    age = wrapped((place + (R - 1))[None, :] - at, N)
    edge_logit = tl.where(new[:, None, :], new_logit, old_logit) - (age * fall[None, :])[:, None, :]
    edge_logit = tl.where(edge[:, None, :] & l_mask, edge_logit, float("-inf"))
    middle -= ((place % EDGES + R) * fall)[None, :]

    g_at = (row * R + which)[None, :] * logit_stride + h[None, :] * M + i[:, None]
    g = tl.load(query + g_at, live[None, :] & (i < M)[:, None], 0.0)
    g = tl.where((i < M)[:, None], g, float("-inf"))
    g = tl.exp(g - tl.max(g, 0)[None, :])
    g = g / tl.sum(g, 0)[None, :]
    inverse = tl.load(
        gamma_pinv
        + slot[None, None, :] * pinv_stride
        + ((h[None, None, :] * M + i[:, None, None]) * M + i[None, :, None]),
        live[None, None, :] & (i < M)[:, None, None] & (i < M)[None, :, None],
        0.0,
    )
    weight = tl.sum(g[:, None, :] * inverse, 0)  # [m, P]

    largest = tl.maximum(middle, tl.max(edge_logit, 0))
    share = tl.exp(edge_logit - largest[None, :, :])  # [E, m, P]
    share_middle = tl.exp(middle - largest)
    weight = weight / (share_middle + tl.sum(share, 0))
    y = tl.sum((weight * share_middle)[:, :, None] * mean, 0)  # [P, D]
    edge_weight = tl.sum(weight[None, :, :] * share, 1)  # [E, P]
    edge_value = tl.where(new[:, :, None], new_value, old_value).to(tl.float32)
    y += tl.sum(edge_weight[:, :, None] * edge_value, 0)
    out_at = ((row * R + which) * H + h)[:, None] * D + d[None, :]
    tl.store(out + out_at, tl.where(live[:, None], y, 0.0), (row < rows)[:, None] & (d < D)[None, :])

"""The nine attention variants, one file each, and their float64 reference; `nystream.variants` declares them.

Every file has the same four functions:

    forward(q, k, v, cfg, fixed, lengths)   one window, [B, H, n, D] each -> [B, H, rows, D]
    init_state(cfg, batch, dtype, device)   a NamedTuple of tensors, batch first
    step(q, k, v, state, cfg, fixed)        one group, [B, H, r, D] each -> [B, H, rows, D]; writes into `state`
    steps(q, k, v, state, cfg, fixed, when) a piece of a stream, [B, H, T, D] each

`forward` also takes `dropout=` or `mask=` if the record's `options` list them. A variant whose landmarks lag behind the
window also has `windows(q, k, v, state, cfg, when, lengths)`: all rows after every group of a piece.
"""

"""Pure functions on tensors: the mathematics, without modules or parameters.

In this package tensors are `[B, H, T, D]` (batch, head, time, head width), as in torch's own
`scaled_dot_product_attention`; rings and other state leaves are batch and slot first, `[B, slot, H, ...]`.
"""

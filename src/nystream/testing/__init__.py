"""Test suites for your own variants, modules and pool backends.

ns.testing.check_stream_module(module)   any module with `forward`, `init_state`, `step` and `steps`
ns.testing.check_stream_pool(model)      a pool of a model's streams, with any backend
"""

from nystream.testing.case import TOLERANCE, Case, Reference, reference_outputs, registered, relative_error
from nystream.testing.module import (
    CHECKS,
    check_any_chunking,
    check_degenerate_rows,
    check_dtypes,
    check_forward_is_step,
    check_gradients,
    check_lengths_and_resets,
    check_nan_stays_in_its_row,
    check_receptive_field,
    check_reset,
    check_rows_are_independent,
    check_save_and_resume,
    check_step_is_pure,
    check_step_is_reference,
    check_stream_module,
    check_weights_are_current,
)
from nystream.testing.pool import check_stream_pool

__all__ = [
    "CHECKS",
    "TOLERANCE",
    "Case",
    "Reference",
    "check_any_chunking",
    "check_degenerate_rows",
    "check_dtypes",
    "check_forward_is_step",
    "check_gradients",
    "check_lengths_and_resets",
    "check_nan_stays_in_its_row",
    "check_receptive_field",
    "check_reset",
    "check_rows_are_independent",
    "check_save_and_resume",
    "check_step_is_pure",
    "check_step_is_reference",
    "check_stream_module",
    "check_stream_pool",
    "check_weights_are_current",
    "reference_outputs",
    "registered",
    "relative_error",
]

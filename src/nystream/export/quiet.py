"""Exporters of torch without their own messages."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr

LOGGERS = ("torch.onnx", "torch.fx.experimental.symbolic_shapes", "onnx_ir", "onnxscript")


@contextmanager
def quiet() -> Iterator[None]:
    """Hide the exporters' own deprecation warnings, notes about packages that they do not need, and printed graphs."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)

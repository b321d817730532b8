"""Detection of hooks, parametrizations and custom `forward` methods, which a conversion would silently lose."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from torch import nn
from torch.nn.utils import parametrize

HOOKS = {
    "_forward_pre_hooks": "forward pre-hook",  # used by the old weight_norm and spectral_norm, and by pruning
    "_forward_hooks": "forward hook",
    "_backward_pre_hooks": "backward pre-hook",
    "_backward_hooks": "backward hook",
}
TENSOR_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")


def require_untouched(module: nn.Module, where: str, packages: tuple[str, ...] = ()) -> None:
    """Raise if a module, or a part of it, does more than its type and weights determine.

    Args:
        module: The module.
        where: Its name in error messages.
        packages: Packages whose custom `forward` methods are known to be harmless.
    """
    for path, part in module.named_modules():
        name = re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", f"{where}.{path}" if path else where)
        for addition, remedy in _additions(part, packages):
            raise ValueError(f"{name} has {addition}, which the conversion would lose; {remedy}")


def _additions(part: nn.Module, packages: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if parametrize.is_parametrized(part):
        parametrized: Any = part.parametrizations
        tensor, functions = next(iter(parametrized.items()))
        yield (
            f"a parametrization of {tensor} ({', '.join(type(function).__name__ for function in functions)})",
            f"torch.nn.utils.parametrize.remove_parametrizations(module, {tensor!r}) makes it a plain weight",
        )
    for kind, called in HOOKS.items():
        for hook in getattr(part, kind).values():
            yield f"a {called}, {_named(hook)}", "remove it first, and register it on the new encoder"
    for tensor, x in part.named_parameters(recurse=False):
        for kind in TENSOR_HOOKS:
            for hook in (getattr(x, kind, None) or {}).values():
                yield f"a hook on the gradient of {tensor}, {_named(hook)}", "remove it first"
    own = vars(part).get("forward")
    if own is not None and str(getattr(own, "__module__", "")).partition(".")[0] not in packages:
        yield "a custom forward() set on the object", "delete it first"


def _named(hook: Any) -> str:
    return str(getattr(hook, "__qualname__", type(hook).__name__))

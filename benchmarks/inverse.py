"""The accuracy of Γ† in a float32 model: the error of a stream against the float64 reference, by kind of inverse.

    python benchmarks/inverse.py   # about two minutes on two cores

Three streams of `co-cont-single`, whose landmarks are renewed as it goes: ordinary tokens; tokens that switch between
two levels, so that landmarks are alike in pairs; and a constant with a little noise, so that all of them are nearly
alike and Γ is nearly singular. Errors are relative to the largest output.
"""

from __future__ import annotations

from typing import Any

import torch
from _common import build, write_results
from torch import Tensor

import nystream as ns
from nystream.testing import reference_outputs, relative_error

N, D, HEADS, M = 64, 32, 4, 16
LENGTH = 3 * N
SAMPLED = range(N, LENGTH + 1, 7)  # times at which outputs are compared
LAMBDAS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
ITERATIONS = (6, 12, 16, 20, 24, 30)


def streams() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    ordinary = torch.randn(1, LENGTH, D, generator=generator)
    switch = torch.rand(1, LENGTH, 1, generator=generator) < 0.5
    return {
        "ordinary": ordinary,
        "two levels": torch.where(switch, ordinary[:, :1], ordinary[:, 1:2]),
        "nearly constant": ordinary[:, :1] + 1e-3 * torch.randn(1, LENGTH, D, generator=generator),
    }


@torch.no_grad()
def errors(dtype: torch.dtype, **options: Any) -> dict[str, float]:
    """The largest error of `steps`, and in float32 of a compiled pool too, for every stream."""
    attn = build("co-cont-single", N, D, HEADS, M, **options).to(dtype)
    places = [t - 1 for t in SAMPLED]
    largest = {}
    for name, tokens in streams().items():
        x = tokens.to(dtype)
        outputs = [attn.steps(x, attn.init_state(1))[0][:, places]]
        if dtype == torch.float32:
            pool = ns.StreamPool(attn, 1, "numba")
            sid = pool.open()
            outputs.append(torch.stack([torch.from_numpy(pool.push(sid, token)) for token in x[0]])[None, places])
        expected = reference_outputs(attn, x, times=SAMPLED)
        largest[name] = max(relative_error(y, expected) for y in outputs)
    return largest


def main() -> None:
    ridge = [("ridge", lam, "float32", {"pinv": "ridge", "pinv_ridge": lam}) for lam in LAMBDAS]
    newton = [("newton", k, dtype, {"pinv_iters": k}) for k in ITERATIONS for dtype in ("float32", "float64")]
    rows = [
        {"pinv": kind, "value": value, "dtype": dtype, "errors": errors(getattr(torch, dtype), **options)}
        for kind, value, dtype, options in (*ridge, *newton)
    ]
    for row in rows:
        print(row)
    figures = {"n": N, "d": D, "heads": HEADS, "m": M, "rows": rows}
    print(f"written to {write_results('inverse', figures).name}")


if __name__ == "__main__":
    main()

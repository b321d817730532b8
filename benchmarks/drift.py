"""The error that an outlier leaves behind: the add-and-subtract update, and sums that never subtract, in float32.

    python benchmarks/drift.py           # both parts, about two minutes on two cores
    python benchmarks/drift.py outlier   # or one: outlier, million

outlier  One token whose logit with the landmarks is 15, 20 or 10,000 enters a stream of ordinary tokens. The error
         against the float64 reference, token by token, for sums="subtract" and for the default. docs/img/drift.png
million  A million tokens through `steps`, in pieces, with outliers of logits up to 10,000 in size again and again;
         then a stretch by `step`. The error of every output against `steps` in float64, and that of sampled outputs
         against the reference. docs/img/million.png

The projections are the identity, so q, k and v are what the stream gives and logits are known. Queries have a common
mean μ and vary across it only; an outlier is a key along μ: its logit with every landmark is the wanted one. Values
are ordinary throughout.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from _common import write_results
from _drift_figures import draw_million, draw_outlier
from torch import Tensor, nn

import nystream as ns
from nystream.ops.attention import reference

N, M, HEADS, WIDTH = 128, 4, 2, 16
D = WIDTH // HEADS
VARIANTS = ("co-fixed-single", "co-cont-single")
LIMIT = 1e-4
LENGTH_OF_MEAN = 2.0  # |μ| of the queries in every head


class Stream(NamedTuple):
    """q, k and v [1, T, E] of one stream."""

    q: Tensor
    k: Tensor
    v: Tensor

    def piece(self, a: int, b: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
        return self.q[:, a:b].to(dtype), self.k[:, a:b].to(dtype), self.v[:, a:b].to(dtype)


def direction() -> Tensor:
    """μ / |μ| in every head, [E]."""
    mu = torch.randn(HEADS, D, generator=torch.Generator().manual_seed(3))
    return (mu / mu.norm(dim=-1, keepdim=True)).flatten()


def ordinary(tokens: int, seed: int) -> Stream:
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(1, tokens, WIDTH, generator=generator) for _ in range(3))
    return Stream(around_mean(q), k, v)


def around_mean(noise: Tensor) -> Tensor:
    """Queries μ + noise [..., E], the noise across μ: every query's product with μ, and any mean's, is |μ|²."""
    heads, unit = noise.unflatten(-1, (HEADS, D)), direction().reshape(HEADS, D)
    across = heads - (heads * unit).sum(-1, keepdim=True) * unit
    return (0.5 * across + LENGTH_OF_MEAN * unit).flatten(-2)


def outlier_key(logit: Tensor | float) -> Tensor:
    """A key whose logit with every query, and so with every landmark, is `logit`."""
    return torch.as_tensor(logit)[..., None] * D**0.5 / LENGTH_OF_MEAN * direction()


def attention(variant: str, sums: str = "auto", dtype: torch.dtype = torch.float32) -> ns.MultiheadAttention:
    cfg = ns.AttentionConfig(variant, WIDTH, HEADS, N, M, sums=sums, bias=False)  # type: ignore[arg-type]
    attn = ns.MultiheadAttention(cfg, dtype=dtype).eval()
    for layer in (attn.q_proj, attn.k_proj, attn.v_proj, attn.out_proj):
        nn.init.eye_(layer.weight)
    if cfg.fixed:
        generator = torch.Generator().manual_seed(5)
        q, k = (torch.randn(M, WIDTH, generator=generator) for _ in range(2))
        attn.set_landmarks(*(y.unflatten(-1, (HEADS, D)).transpose(0, 1) for y in (around_mean(q), k)))
    return attn


def expected(attn: ns.MultiheadAttention, stream: Stream, t: int) -> Tensor:
    """The float64 reference [1, E] at time t, from the last three windows: the phase of landmarks repeats every n."""
    first = max(t // N - 2, 0) * N
    q, k, v = (y.unflatten(-1, (HEADS, D)).transpose(1, 2) for y in stream.piece(first, t, torch.float64))
    fixed = (attn.q_tilde.double(), attn.k_tilde.double()) if attn.config.fixed else (None, None)
    return reference.attend(attn.config, q, k, v, t - first, *fixed).transpose(1, 2).flatten(2)[:, 0]


def by_step(attn: ns.MultiheadAttention, stream: Stream, state: Any, a: int, b: int) -> Tensor:
    """Outputs [b − a, E] of tokens a to b, one at a time, in place."""
    outs = []
    for t in range(a, b):
        q, k, v = (y[:, t] for y in stream)
        y, state = attn.step(q, state, key=k, value=v, inplace=True)
        outs.append(y.clone())
    return torch.cat(outs)


def outlier() -> dict[str, Any]:
    """Errors from 40 tokens before the outlier to four windows after it."""
    enters, before, after = 2 * N + 40, 40, 4 * N  # in the middle of a segment
    total = enters + after
    curves = []
    for variant in VARIANTS:
        for logit in (15.0, 20.0, 1e4):
            plain = ordinary(total, seed=1)
            key = plain.k.clone()
            key[:, enters] = outlier_key(logit)
            stream = plain._replace(k=key)
            want = torch.cat([expected(attention(variant), stream, t) for t in range(enters - before + 1, total + 1)])
            for sums in ("subtract", "auto"):
                attn = attention(variant, sums)
                got = by_step(attn, stream, attn.init_state(1), 0, total)[enters - before :]
                error = (got.double() - want).abs().amax(-1) / want.abs().max()
                curves.append({"variant": variant, "logit": logit, "sums": sums, "form": attn.config.form})
                curves[-1] |= {"since": list(range(-before, after)), "error": error.tolist()}
                left, name = error[before + N :], f"{variant:<16} logit {logit:>8,.0f}  {sums:<8}"
                print(f"  {name}  {describe(error)}, after it left {describe(left)}")
    draw_outlier(curves, N)
    return {"n": N, "m": M, "d": WIDTH, "heads": HEADS, "curves": [summary(curve) for curve in curves]}


def describe(error: Tensor) -> str:
    return f"largest {float(error.max()):.1e}" if bool(error.isfinite().all()) else "not finite"


def summary(curve: dict[str, Any]) -> dict[str, Any]:
    """A curve's largest error, while the outlier is in the window and after it left; None where not finite."""
    error, since = torch.tensor(curve["error"]), torch.tensor(curve["since"])
    head = {name: curve[name] for name in ("variant", "logit", "sums", "form")}
    parts = {"inside": (since >= 0) & (since < N), "after": since >= N, "end": since == since.max()}
    return head | {name: finite_max(error[part]) for name, part in parts.items()}


def finite_max(error: Tensor) -> float | None:
    return float(error.max()) if bool(error.isfinite().all()) else None


def million(total: int = 1_000_000, piece: int = 1 << 14, final: int = 2_000) -> dict[str, Any]:
    """Errors over a long stream; the last `final` tokens go through `step`."""
    generator = torch.Generator().manual_seed(11)
    stream = ordinary(total, seed=2)
    # Every 500 tokens on average, so that some windows hold several; sizes from 10 to 10,000, of either sign.
    places = (torch.rand(total, generator=generator) < 1 / 500).nonzero()[:, 0]
    sizes = 10 ** (1 + 3 * torch.rand(len(places), generator=generator))
    signs = (torch.rand(len(places), generator=generator) < 0.5) * 2.0 - 1.0
    stream.k[0, places] = outlier_key(sizes * signs)
    print(f"  {total:,} tokens, {len(places):,} outliers with logits up to {float(sizes.max()):,.0f} in size")
    runs = []
    for variant in VARIANTS:
        attn, double = attention(variant), attention(variant, dtype=torch.float64)
        outputs, exact, state = through_steps(attn, double, stream, total - final, piece)
        outputs = torch.cat([outputs, by_step(attn, stream, state, total - final, total)])
        scale = exact.abs().amax(-1).median()
        error = (outputs[: total - final] - exact).abs().amax(-1) / exact.abs().amax(-1).clamp(min=scale)
        runs.append(sampled(attn, stream, outputs, places, float(scale), total - final, generator) | {"every": error})
        run = runs[-1]
        print(
            f"  {variant:<16} every output against float64 `steps`: {describe(error)}; "
            f"{len(run['times'])} against the reference: {describe(torch.tensor(run['errors']))}"
        )
    draw_million(runs, places, sizes, LIMIT)
    return {
        "n": N,
        "m": M,
        "d": WIDTH,
        "heads": HEADS,
        "tokens": total,
        "piece": piece,
        "by_step_at_the_end": final,
        "outliers": len(places),
        "largest_logit": float(sizes.max()),
        "limit": LIMIT,
        "runs": [
            {
                "variant": run["variant"],
                "largest_error_of_all_against_float64_steps": finite_max(run["every"]),
                "largest_error_of_sampled_against_reference": finite_max(torch.tensor(run["errors"])),
                "sampled": len(run["times"]),
            }
            for run in runs
        ],
    }


def through_steps(
    attn: ns.MultiheadAttention, double: ns.MultiheadAttention, stream: Stream, tokens: int, piece: int
) -> tuple[Tensor, Tensor, Any]:
    """Outputs [tokens, E] in float32 and float64, piece by piece, and the float32 state after them."""
    state, double_state = attn.init_state(1), double.init_state(1)
    outputs, exact = [], []
    for a in range(0, tokens, piece):
        b = min(a + piece, tokens)
        for module, held, kept in ((attn, state, outputs), (double, double_state, exact)):
            q, k, v = stream.piece(a, b, module.q_proj.weight.dtype)
            y, held = module.steps(q, held, key=k, value=v)
            kept.append(y[0].double())
            if module is attn:
                state = held
            else:
                double_state = held
    return torch.cat(outputs), torch.cat(exact), state


def sampled(
    attn: ns.MultiheadAttention,
    stream: Stream,
    outputs: Tensor,
    places: Tensor,
    scale: float,
    stepped: int,
    generator: torch.Generator,
) -> dict[str, Any]:
    """Errors against the reference at 240 times: anywhere, soon after an outlier, and in the stretch by `step`."""
    total = outputs.shape[0]
    anywhere = torch.randint(1, stepped, (100,), generator=generator)
    near = places[torch.randperm(len(places), generator=generator)[:100]]
    near = (near + torch.randint(1, N + N // M + 8, near.shape, generator=generator)).clamp(max=stepped)
    last = torch.randint(stepped + 1, total, (39,), generator=generator)
    times = sorted({*anywhere.tolist(), *near.tolist(), *last.tolist(), total})
    errors = []
    for t in times:
        want = expected(attn, stream, t)[0]
        errors.append(float((outputs[t - 1] - want).abs().max() / want.abs().max().clamp(min=scale)))
    return {"variant": attn.config.variant, "times": times, "errors": errors, "stepped": stepped}


PARTS: dict[str, Callable[[], dict[str, Any]]] = {"outlier": outlier, "million": million}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("part", nargs="?", choices=PARTS, help="both unless told")
    args = parser.parse_args()
    torch.set_num_threads(1)
    figures = {}
    with torch.inference_mode():
        for name in [args.part] if args.part else PARTS:
            print(name)
            figures[name] = PARTS[name]()
    if args.part is None:
        print(f"written to {write_results('drift', figures).name}")


if __name__ == "__main__":
    main()

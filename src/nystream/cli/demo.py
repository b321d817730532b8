"""`nystream demo`: a generated stream through all nine variants, and one table of what they did."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain, cycle, takewhile
from operator import mul
from statistics import median

import torch
from rich import box
from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from torch import Tensor, nn

import nystream as ns
from nystream import state as states
from nystream import testing
from nystream.ops.attention import reference

WHAT = {
    "full": "exact, recomputed",
    "co-full-single": "exact, newest row",
    "co-full-retro": "exact, all rows",
    "nystrom": "means, recomputed",
    "nystrom-fixed": "fixed, recomputed",
    "co-cont-single": "means, newest row",
    "co-cont-retro": "means, all rows",
    "co-fixed-single": "fixed, newest row",
    "co-fixed-retro": "fixed, all rows",
}
PLAIN = ("full", "nystrom", "nystrom-fixed")
CHECKED = 64  # about so many outputs are compared with the reference
PILOT = 12  # steps that are tried first, to warm up and to tell the time left


@dataclass
class Demo:
    """Stream generated tokens through all nine variants and print one table: error, time, state, operations."""

    tokens: int = 4000
    """Tokens to stream; a quarter of them through the three plain variants, which recompute the window each time."""
    window: int = 120
    """Tokens n that a token attends to."""
    landmarks: int = 4
    """Landmarks m of the low-rank variants."""
    embed_dim: int = 192
    """Width of a token."""
    num_heads: int = 16
    """Heads, each embed_dim / num_heads wide."""
    seed: int = 0
    """Seed of the tokens and the weights."""
    plain: bool = False
    """No colours and no progress bar, as in a pipe."""

    @property
    def plain_tokens(self) -> int:
        return max(self.tokens // 4, 2 * self.window)

    def run(self) -> None:
        modules = self.modules()
        if self.tokens < 2 * self.window:
            raise ValueError(
                f"tokens={self.tokens} must be at least 2 * window = {2 * self.window}, "
                f"so that every window is full and every landmark is renewed"
            )
        x = generated_stream(self.tokens, self.embed_dim, self.seed)
        for attn in modules:
            if attn.config.fixed:
                attn.set_landmarks(*centres(attn, x[:, : max(512, self.window)], self.seed))
        threads = torch.get_num_threads()
        # A step is too small to share, and threads that wait for each other stall on a busy machine.
        torch.set_num_threads(1)
        try:
            with torch.inference_mode():
                rows = self.measure(modules, x)
        finally:
            torch.set_num_threads(threads)
        console = Console(color_system=None, force_terminal=False) if self.plain else Console()
        if not console.encoding.startswith("utf") and hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="replace")
        console.print(self.table(rows))

    def modules(self) -> list[ns.MultiheadAttention]:
        """All nine variants with the same weights."""
        modules = []
        for variant in ns.VARIANTS:
            cfg = ns.AttentionConfig(variant, self.embed_dim, self.num_heads, self.window, self.landmarks)
            torch.manual_seed(self.seed)
            attn = ns.MultiheadAttention(cfg).eval()
            for layer in (attn.q_proj, attn.k_proj):
                nn.init.xavier_normal_(layer.weight, gain=2.0)  # untrained weights would attend to all tokens alike
            modules.append(attn)
        return modules

    def measure(self, modules: Sequence[ns.MultiheadAttention], x: Tensor) -> list[list[str]]:
        """The rows of the table."""
        lengths = [self.plain_tokens if attn.config.variant in PLAIN else self.tokens for attn in modules]
        rows = []
        with _bars(self.plain) as bars:
            # The bar counts expected seconds, not steps: variants differ in them by a factor of ten.
            expected = [median(stream(attn, x[:, :PILOT], [])[1]) for attn in modules]
            task = bars.add_task("", total=sum(map(mul, expected, lengths)))
            for attn, length, seconds in zip(modules, lengths, expected, strict=True):
                bars.update(task, description=attn.config.variant)
                times = checked_times(length, self.window, self.landmarks)
                outputs, took = stream(attn, x[:, :length], times, partial(bars.advance, task, seconds))
                error = testing.relative_error(outputs, testing.reference_outputs(attn, x, times=times)[0])
                rows.append(self.row(attn, error, took))
        return rows

    def row(self, attn: ns.MultiheadAttention, error: float, took: Sequence[float]) -> list[str]:
        cfg = attn.config
        operations = ns.costs.flops(cfg.variant, cfg.window, cfg.head_dim, self.landmarks, heads=cfg.num_heads)
        return [
            cfg.variant,
            WHAT[cfg.variant],
            f"{error:.0e}",
            f"{median(took) * 1e6:,.0f}",
            decimal(states.nbytes(attn.init_state(1))),
            _short(operations),
        ]

    def notes(self) -> list[str]:
        return [
            "exact: softmax attention. means, fixed: low rank, landmarks are segment means",
            "or chosen before the stream begins. recomputed: the whole window every step",
            f"(over {self.plain_tokens:,} tokens only).",
            f"error: largest difference from the float64 reference, at about {CHECKED} times,",
            "as a share of the largest output.",
            "µs/step: median on this machine; float32, in place, one thread, projections in.",
            "ops/step: multiply-adds of attention alone, as the paper counts them; what is",
            "run here differs.",
        ]

    def table(self, rows: Iterable[list[str]]) -> Table:
        table = Table(
            title=f"{self.tokens:,} tokens, window {self.window}, {self.landmarks} landmarks, "
            f"width {self.embed_dim} in {self.num_heads} heads",
            caption="\n".join(self.notes()),
            box=box.SIMPLE_HEAD,
            title_style="bold",
            caption_style="dim",
            caption_justify="left",
        )
        table.add_column("variant", style="bold", no_wrap=True)
        table.add_column("what it is", no_wrap=True)
        for name in ("error", "µs/step", "state", "ops/step"):
            table.add_column(name, justify="right", no_wrap=True)
        for row in rows:
            table.add_row(*row, end_section=row[0] in ("co-full-retro", "nystrom-fixed", "co-cont-retro"))
        return table


def generated_stream(tokens: int, width: int, seed: int) -> Tensor:
    """[1, T, E]: a dozen oscillations whose pitch and loudness drift slowly, mixed into all channels, and noise."""
    generator = torch.Generator().manual_seed(seed)
    sources = 12

    def drift(scale: float) -> Tensor:
        return torch.randn(tokens, sources, generator=generator).cumsum(0) * scale

    period = 20.0 * 30.0 ** torch.rand(sources, generator=generator)  # 20 to 600 tokens
    phase = (2 * math.pi / period * (0.02 * drift(0.5)).exp()).cumsum(0)
    sound = phase.sin() * (1.0 + 0.5 * drift(0.02).sin())
    mixing = torch.randn(sources, width, generator=generator) * sources**-0.5
    return (sound @ mixing + 0.3 * torch.randn(tokens, width, generator=generator))[None] * 1.2


def centres(attn: ns.MultiheadAttention, x: Tensor, seed: int, rounds: int = 8) -> tuple[Tensor, Tensor]:
    """q̃ and k̃ [H, m, D]: m centres of the projected tokens of x [1, T, E] in every head, by Lloyd's iteration.

    A token's q and k are clustered as one point, so that q̃_i and k̃_i are centres of the same tokens.
    """
    cfg = attn.config
    with torch.no_grad():
        q, k = (y[0].unflatten(-1, (cfg.num_heads, cfg.head_dim)) for y in (attn.q_proj(x), attn.k_proj(x)))
    points = torch.cat([q, k], -1).transpose(0, 1)  # [H, T, 2D]
    start = torch.randperm(points.shape[1], generator=torch.Generator().manual_seed(seed))[: cfg.m]
    centre = points[:, start]  # [H, m, 2D]
    for _ in range(rounds):
        nearest = torch.cdist(points, centre).argmin(-1)  # [H, T]
        member = nn.functional.one_hot(nearest, cfg.m).to(points).mT  # [H, m, T]
        size = member.sum(-1, keepdim=True)
        centre = torch.where(size > 0, member @ points / size.clamp(min=1), centre)
    q_tilde, k_tilde = centre.split(cfg.head_dim, -1)
    return q_tilde, k_tilde


def checked_times(tokens: int, n: int, m: int) -> list[int]:
    """About CHECKED times of a stream: its beginning, where the window fills, renewals of landmarks, its end."""
    completions = accumulate(cycle(reference.segment_sizes(n, m)))
    renewals = [u for u in takewhile(lambda u: u <= tokens, completions) if u > n]
    some = renewals[:: max(1, len(renewals) // (CHECKED // 4))]
    rest = torch.linspace(1, tokens, CHECKED // 2).long().tolist()
    wanted = chain((1, 2, n // 2, n - 1, n, n + 1, tokens), some, (u - 1 for u in some), rest)
    return sorted({t for t in wanted if 1 <= t <= tokens})


def stream(
    attn: ns.MultiheadAttention, x: Tensor, times: Sequence[int], advance: Callable[[], object] | None = None
) -> tuple[Tensor, list[float]]:
    """x [1, T, E] token by token, in place: the outputs at `times` [len(times), ...] and the seconds of every step."""
    state, kept, took, wanted = attn.init_state(1), [], [], set(times)
    for t in range(1, x.shape[1] + 1):
        token = x[:, t - 1]
        begin = time.perf_counter()
        y, state = attn.step(token, state, inplace=True)
        took.append(time.perf_counter() - begin)
        if t in wanted:
            kept.append(y.clone())
        if advance is not None:
            advance()
    return torch.cat(kept) if kept else x.new_zeros(0), took


def _bars(plain: bool) -> Progress:
    """On stderr, so that a table that is sent to a file has no trace of it."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description:<15}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %, time left"))
    hidden = plain or not console.is_terminal
    return Progress(*columns, TimeRemainingColumn(), console=console, transient=True, disable=hidden)


def _short(number: float) -> str:
    """Three digits: 5.2 k, 2.8 M."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:.0f}"

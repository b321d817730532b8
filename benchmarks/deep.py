"""The cost of a step of a deep stack: linear in depth, independent of the window.

    python benchmarks/deep.py

Deep stacks of co-fixed-single blocks, as whole models, in place; checked against a loop over windows first. Written to
results/deep.json.
"""

from __future__ import annotations

import argparse

import torch
from _common import interleaved, write_results

import nystream as ns
from nystream import testing

DEPTHS = (1, 2, 3, 4, 6)
WINDOWS = (128, 1024, 16_384)
WIDTH, HEADS, LANDMARKS = 192, 16, 4


def build(layers: int, window: int, stack: str = "deep", variant: str = "co-fixed-single") -> ns.StreamModel:
    torch.manual_seed(0)
    attention = ns.AttentionConfig(variant, embed_dim=WIDTH, num_heads=HEADS, window=window, landmarks=LANDMARKS)
    config = ns.ModelConfig(
        input_dim=128, output_dim=10, attention=attention, layers=layers, ff_dim=WIDTH, stack=stack, num_positions=128
    )
    model = ns.StreamModel(config).eval()
    for block in model.encoder.blocks:
        shape = (HEADS, LANDMARKS, WIDTH // HEADS)
        block.attention.set_landmarks(torch.randn(shape), torch.randn(shape))
    return model


class Stream:
    """A stream with a full window, one token per call."""

    def __init__(self, model: ns.StreamModel) -> None:
        self.model, self.tokens, self.at = model, torch.randn(64, 1, 128), 0
        filled = torch.randn(1, 2 * model.config.window + 5, 128)
        self.state = model.advance(filled, model.init_state(1))

    def __call__(self) -> None:
        self.at = (self.at + 1) % len(self.tokens)
        _, self.state = self.model.step(self.tokens[self.at], self.state, inplace=True)


def check() -> float:
    """The largest error of float32 steps of a 6-block stack against float64, relative to the outputs."""
    model = build(6, 128)
    x = torch.randn(1, 600, 128)
    state, outs = model.init_state(1), []
    for t in range(600):
        y, state = model.step(x[:, t], state, inplace=True)
        outs.append(y)
    exact, _ = model.double().steps(x.double(), model.init_state(1))
    return testing.relative_error(torch.stack(outs, 1), exact)


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--block", type=int, default=20)
    args = parser.parse_args()
    torch.set_num_threads(1)
    error = check()
    assert error < testing.TOLERANCE[torch.float32], error
    print(f"6 blocks, float32 against float64: {error:.1e}")

    depth = interleaved({str(n): Stream(build(n, 1024)) for n in DEPTHS}, args.rounds, args.block)
    per_block = (depth[str(DEPTHS[-1])] - depth["1"]) / (DEPTHS[-1] - 1)
    window = interleaved({str(n): Stream(build(6, n)) for n in WINDOWS}, args.rounds, args.block)
    paper = interleaved(
        {"deep": Stream(build(6, 128)), "paper": Stream(build(6, 128, "paper"))}, max(args.rounds // 6, 3), 5
    )
    fitted = {n: depth["1"] + (int(n) - 1) * per_block for n in depth}
    record = {
        "d": WIDTH,
        "heads": HEADS,
        "m": LANDMARKS,
        "error": error,
        "depth": {
            "window": 1024,
            "microseconds": {n: 1e6 * t for n, t in depth.items()},
            "microseconds_per_block": 1e6 * per_block,
            "largest_deviation_from_a_line": max(abs(depth[n] / fitted[n] - 1) for n in depth),
        },
        "window": {
            "layers": 6,
            "microseconds": {n: 1e6 * t for n, t in window.items()},
            "ratio": window[str(WINDOWS[-1])] / window[str(WINDOWS[0])],
        },
        "paper_over_deep": paper["paper"] / paper["deep"],
        "receptive_field": build(6, 1024).receptive_field,
    }
    for name, times in (("blocks", depth), ("window", window)):
        print(name, "  ".join(f"{n}: {1e6 * t:.0f} µs" for n, t in times.items()))
    print(f"6 blocks: n = 16,384 / n = 128: x{record['window']['ratio']:.2f}")
    print(f"6 blocks, n = 128: stack='paper' / stack='deep': x{record['paper_over_deep']:.1f}")
    print(write_results("deep", record))


if __name__ == "__main__":
    main()

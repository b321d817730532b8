"""The error of a converted encoder, by number of landmarks and sharpness of the attention.

    python benchmarks/convert.py

An untrained torch encoder of two blocks over smooth noise, its logits as they are and nine times as large. The newest
row of every full window of streams that the landmarks were not fitted to, against full attention; written to
results/convert.json.
"""

from __future__ import annotations

import argparse

import torch
from _common import write_results

import nystream as ns

LANDMARKS, WINDOW, SHARPNESS = (2, 8, 32), 40, (1, 9)


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    torch.manual_seed(0)
    data = torch.randn(16, 215, 32).unfold(1, 16, 1).mean(-1) * 4  # [batch, time, width]
    rows = []
    for sharpness in SHARPNESS:
        torch.manual_seed(2)
        layer = torch.nn.TransformerEncoderLayer(d_model=32, nhead=4, dim_feedforward=64, batch_first=True)
        original = torch.nn.TransformerEncoder(layer, num_layers=2).eval()
        for one in original.layers:
            one.self_attn.in_proj_weight[:64] *= sharpness**0.5  # queries and keys
        exact = ns.from_torch(original, "co-full-single", window=WINDOW)
        expected = exact.steps(data[12:], exact.init_state(4))[0][:, WINDOW - 1 :]
        for variant in ("co-fixed-single", "co-cont-single"):
            errors = {}
            for m in LANDMARKS:
                encoder = ns.from_torch(original, variant, window=WINDOW, landmarks=m, pinv="ridge")
                for place in range(2 if "fixed" in variant else 0):
                    ns.fit_landmarks(encoder, [data[:12]], layer=place)
                y = encoder.steps(data[12:], encoder.init_state(4))[0][:, WINDOW - 1 :]
                errors[str(m)] = float((y - expected).norm() / expected.norm())
            rows.append({"sharpness": sharpness, "variant": variant, "errors": errors})
            print(sharpness, variant, "  ".join(f"m={m}: {error:.1%}" for m, error in errors.items()))
    print(write_results("convert", {"window": WINDOW, "pinv": "ridge", "rows": rows}))


if __name__ == "__main__":
    main()

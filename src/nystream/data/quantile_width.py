"""How wide the quantiles of a trained model are: as wide as the validation data are spread, or wider.

A Transformer has seen the training data, so the quantiles that it learns are often too close together. Those of each
horizon are moved away from their middle by a factor, until the outer ones have their share of the validation data
between them.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from nystream.data.forecast_scores import pinball_loss
from nystream.data.forecast_values import Layout, changes, middle
from nystream.models import StreamModel

WIDTHS = tuple(1 + step / 20 for step in range(21))  # from 1 to 2


def best_widths(
    path: NDArray[np.float64], both: NDArray[np.float64], y: NDArray[np.float64], layout: Layout
) -> list[float]:
    """The factor of each horizon: the least with which the outer quantiles hold as often as they should.

    A factor with which the pinball loss is no longer less than that of the linear path is not used.

    Args:
        path, both: Outputs of the linear path, and with the Transformer [N, outputs].
        y: Targets [N, outputs], NaN where unknown.
        layout: What the outputs are.
    """
    levels, known = layout.quantiles, ~np.isnan(y)
    if len(levels) < 2:
        return [1.0] * layout.shape[1]
    alone, outputs = changes(path, layout), changes(both, layout)
    true = y.reshape(-1, *layout.shape)[..., 0]
    counts = known.reshape(-1, *layout.shape)[..., 0].sum((0, 1))  # [horizons]
    centre = middle(outputs, levels)[..., None]
    chosen, done = np.ones(layout.shape[1]), np.zeros(layout.shape[1], bool)
    for width in WIDTHS:
        wide = centre + width * (outputs - centre)
        ratio = pinball_loss(wide, true, levels) / pinball_loss(alone, true, levels)
        inside = ((wide[..., 0] <= true) & (true <= wide[..., -1])).sum((0, 1)) / counts
        done |= ratio.mean(0) >= 1
        chosen[~done] = width
        done |= inside >= levels[-1] - levels[0]
    return [float(width) for width in chosen]


@torch.no_grad()
def widen(model: StreamModel, widths: list[float], layout: Layout) -> None:
    """Move the quantiles of each horizon away from their middle by a factor, by changing the weights of the outputs.

    Only those of the Transformer change: the linear path has the same weights for all quantiles of a number.
    """
    levels = torch.eye(len(layout.quantiles), dtype=torch.float64)
    centre = torch.from_numpy(middle(levels.numpy(), layout.quantiles))  # [quantiles]: its weights
    matrix = torch.block_diag(*[width * levels + (1 - width) * centre for width in widths * layout.targets])
    head, scaler = model.head, model.output_scaler
    mean, scale = scaler.mean.double().cpu(), scaler.scale.double().cpu()
    bias = matrix @ head.bias.double().cpu() + (matrix @ mean - mean) / scale
    head.weight.copy_(matrix @ head.weight.double().cpu())
    head.bias.copy_(bias)

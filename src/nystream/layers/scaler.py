"""Standardization of inputs and outputs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nystream.layers import checks


class Scaler(nn.Module):
    """Standardize columns: (x − mean) / scale. The identity until it is fitted; saved with the model."""

    mean: Tensor
    scale: Tensor

    def __init__(
        self, width: int, *, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(width, device=device, dtype=dtype))
        self.register_buffer("scale", torch.ones(width, device=device, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) / self.scale

    def restore(self, x: Tensor) -> Tensor:
        """Undo the standardization: x * scale + mean."""
        return x * self.scale + self.mean

    def set(self, mean: Tensor, scale: Tensor) -> None:
        """Set mean and scale, [width] each."""
        for name, value in (("mean", mean), ("scale", scale)):
            checks.tensor(name, value)
            if tuple(value.shape) != tuple(self.mean.shape):
                raise ValueError(
                    f"{name} is {list(value.shape)}, but must be {list(self.mean.shape)}, one value per column"
                )
            if not bool(value.to(self.mean.dtype).isfinite().all()):
                raise ValueError(f"{name} has values that are not finite in {self.mean.dtype}")
        smallest = float(scale.to(self.mean.dtype).min())
        if smallest <= 0:
            raise ValueError(f"scale has a value of {smallest} in {self.mean.dtype}; all must be greater than 0")
        with torch.no_grad():
            self.mean.copy_(mean)
            self.scale.copy_(scale)

    def fit(self, x: Tensor, *, one_scale: bool = False) -> None:
        """Set mean and scale to the mean and standard deviation of the columns of x [..., width].

        Args:
            x: Training data only.
            one_scale: Use one scale for all columns: the root mean square of their deviations. Columns of different
                size, such as principal components, then keep their relative size. Otherwise, a constant column gets
                scale 1.
        """
        checks.tensor("x", x)
        width = self.mean.shape[0]
        if x.dim() == 0 or x.shape[-1] != width or not x.numel():
            raise ValueError(f"x is {list(x.shape)}, but must be [..., {width}], with at least one row")
        flat = x.reshape(-1, width).double()
        if not bool(flat.isfinite().all()):
            raise ValueError("x has values that are not finite; fill or drop them first")
        deviation = flat.std(0, correction=0)
        if one_scale:
            deviation = deviation.square().mean().sqrt().expand(width)
        constant = deviation <= 1e-9 * flat.abs().amax(0).clamp(min=1e-30)
        self.set(flat.mean(0), torch.where(constant, 1.0, deviation))

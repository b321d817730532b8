"""The normal equations of ridge regression on lagged features, summed over chunks of rows in float64.

With features z and targets y, centred over the N rows of an output, and the unpenalised features u among z, the
weights for a penalty λ follow from C = Σ z zᵀ / N and r = Σ z y / N. The unpenalised features are projected out first:

    S = C_pp − C_pu C_uu⁺ C_up,   w_p = (S + λ I)⁻¹ (r_p − C_pu C_uu⁺ r_u),   w_u = C_uu⁺ (r_u − C_up w_p).

The sums of the features of fewer tokens are the first rows and columns of C, so one pass serves all of them. It takes
O(N F²) operations and O(F²) memory for F features.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from nystream.train.lagged import Lagged

CONSTANT = 1e-12  # variance relative to the mean square below which numbers are constant up to rounding
COLLINEAR = 1e-10  # eigenvalue of the correlations of unpenalised features below which they are collinear


class Solution(NamedTuple):
    """Weights and biases of all outputs, for every penalty."""

    weight: Tensor  # [λ, outputs, features]
    bias: Tensor  # [λ, outputs]


class Moments(NamedTuple):
    """Sums over rows of their features z."""

    rows: int
    total: Tensor  # Σ z [F]
    gram: Tensor  # Σ z zᵀ [F, F]


class NormalEquations:
    """The normal equations of all outputs.

    Outputs that are known in the same rows share a Gram matrix. The rows that one lacks are often few, such as the last
    ones of a longer horizon; its Gram matrix is then that of all rows less theirs.

    Args:
        data: The features.
        y: Targets [T, outputs] of every stream.
        known: Whether they are fitted [T, outputs]; at least one row of each output.
    """

    def __init__(self, data: Lagged, y: Sequence[Tensor], known: Sequence[Tensor]) -> None:
        self.data, self.known = data, known
        self.used = [mask.any(1) for mask in known]
        self.count = torch.cat(list(known)).sum(0)  # [outputs]
        self.y_mean = torch.cat([torch.where(mask, v, 0.0) for v, mask in zip(y, known, strict=True)]).sum(0)
        self.y_mean /= self.count
        # A missing target adds nothing to Σ z y, so this sum needs no groups.
        self.y = [torch.where(mask, v - self.y_mean, 0.0) for v, mask in zip(y, known, strict=True)]
        self.shift = self._shift()
        self.cross = self.shift.new_zeros(data.width, len(self.count))  # Σ z y [F, outputs]
        self.all = self._moments(self.used, self.cross)
        variance = torch.cat([v.square() for v in self.y]).sum(0) / self.count
        if not all(bool(x.isfinite().all()) for x in (self.all.gram, self.cross, variance)):
            raise ValueError("x or y has numbers so large that their products overflow; standardise them first")
        # Of each target [outputs]; 1 where it is constant, so that it can be divided by.
        self.variance = torch.where(variance > CONSTANT * self.y_mean.square(), variance, 1.0)

    def solve(self, widths: Sequence[int], penalties: Sequence[float], free: Sequence[int]) -> list[Solution]:
        """A solution for the first features of each width; `free` are the unpenalised ones."""
        sizes = len(penalties), len(self.count)
        solutions = [Solution(self.shift.new_zeros(*sizes, width), self.shift.new_zeros(sizes)) for width in widths]
        for outputs, moments in self._groups():
            mean = moments.total / moments.rows
            covariance = moments.gram / moments.rows - mean[:, None] * mean  # [F, F]
            cross = self.cross[:, outputs] / moments.rows  # targets are centred, so features need not be
            for width, (weight, bias) in zip(widths, solutions, strict=True):
                w = _solve(covariance[:width, :width], cross[:width], self.shift[:width], penalties, free)
                weight[:, outputs] = w
                bias[:, outputs] = self.y_mean[outputs] - w @ (mean + self.shift)[:width]
        return solutions

    def _groups(self) -> Iterator[tuple[list[int], Moments]]:
        """Yield outputs that are known in the same rows, and the moments of these rows."""
        masks = torch.cat([mask[used] for mask, used in zip(self.known, self.used, strict=True)])
        groups: dict[bytes, list[int]] = {}
        for output in range(masks.shape[1]):
            groups.setdefault(masks[:, output].numpy().tobytes(), []).append(output)
        for outputs in groups.values():
            yield outputs, self._of(outputs[0])

    def _of(self, output: int) -> Moments:
        count = int(self.count[output])
        if count == self.all.rows:
            return self.all
        known = [mask[:, output] for mask in self.known]
        if 2 * count < self.all.rows:  # subtracting most of a sum would lose digits
            return self._moments(known)
        missing = self._moments([used & ~mask for used, mask in zip(self.used, known, strict=True)])
        return Moments(count, self.all.total - missing.total, self.all.gram - missing.gram)

    def _moments(self, used: Sequence[Tensor], cross: Tensor | None = None) -> Moments:
        """The sums over some rows; those of products with targets are added to `cross`."""
        width = self.data.width
        count, total, gram = 0, self.shift.new_zeros(width), self.shift.new_zeros(width, width)
        for stream, rows, z in self.data.chunks(used):
            z -= self.shift
            count += len(rows)
            total += z.sum(0)
            gram.addmm_(z.T, z)
            if cross is not None:
                cross.addmm_(z.T, self.y[stream][rows])
        return Moments(count, total, gram)

    def _shift(self) -> Tensor:
        """The mean of the numbers behind each feature [F]: without it, centring the sums would lose digits."""
        x, inputs = self.data.streams, self.data.inputs
        mean = torch.cat([part[used] for part, used in zip(x, self.used, strict=True)]).mean(0)
        return torch.cat([mean, mean[:inputs].repeat(self.data.lags - 1)])


def _solve(covariance: Tensor, cross: Tensor, shift: Tensor, penalties: Sequence[float], free: Sequence[int]) -> Tensor:
    """The weights [λ, outputs, F] for covariances [F, F] and products with targets [F, outputs]."""
    F, variance = len(covariance), covariance.diagonal()
    penalised = torch.ones(F, dtype=torch.bool)
    penalised[list(free)] = False
    p = penalised.nonzero()[:, 0]
    # Constant features stay at 0.
    u = (~penalised & (variance > CONSTANT * shift.square())).nonzero()[:, 0]
    scale = variance[u].rsqrt()
    correlations = covariance[u][:, u] * scale * scale[:, None]
    inverse = torch.linalg.pinv(correlations, hermitian=True, rtol=COLLINEAR) * scale * scale[:, None]  # C_uu⁺
    projected = inverse @ covariance[u][:, p]  # C_uu⁺ C_up
    schur = covariance[p][:, p] - covariance[p][:, u] @ projected
    right = cross[p] - projected.T @ cross[u]
    # Less is lost in rounding: without it, a Cholesky decomposition of unscaled data could fail.
    least = 4 * torch.finfo(torch.float64).eps * F * float(variance.max())
    weight = cross.new_zeros(len(penalties), cross.shape[1], F)
    for place, penalty in enumerate(penalties):
        regularised = schur.clone()
        regularised.diagonal().add_(max(penalty, least))
        w = torch.cholesky_solve(right, torch.linalg.cholesky(regularised))  # [P, outputs]
        weight[place][:, p] = w.T
        weight[place][:, u] = (inverse @ cross[u] - projected @ w).T
    return weight

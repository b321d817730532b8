"""Ridge regression on the last tokens of a stream, in closed form: what a forecast can have without a network.

For each number of tokens p and penalty λ, with the features z of `nystream.train.lagged`, it minimises

    (1/N) Σ (y − b − w·z)² + λ Σ_j w_j²,

where j leaves out the unpenalised features. In the change of a value as the target, for example, the last value must
be free: shrinking its coefficient would shrink a forecast to the mean, not to the last value. All candidates are
computed from the sums of the largest p (`nystream.train.normal_equations`), and the best one is chosen by its error on
validation data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nystream.config.checks import positive_int, whole
from nystream.train.lagged import Lagged, feature_count
from nystream.train.normal_equations import NormalEquations, Solution

LAGS = (1, 2, 4, 8, 16, 24, 48, 96, 168, 336)
PENALTIES = tuple(10.0**power for power in range(-6, 1))
# Fitting takes time proportional to its square: a few seconds for 17,000 rows on one core.
MAX_FEATURES = 1500
NEAR_TIE = 1e-3  # relative difference of errors that does not justify more features
EXACT = 1e-9  # error relative to the variance of the target that counts as none


class Candidate(NamedTuple):
    """The validation error of one choice: `mse` has one number per output."""

    lags: int
    penalty: float
    mse: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Ridge:
    """A fitted ridge regression. Tensors are float64 on the CPU.

    Attributes:
        lags: p, the number of tokens it reads.
        inputs: How many numbers of each token before the newest it reads.
        penalties: λ of each output [outputs].
        weight: [outputs, features], the features in the order of `nystream.train.lagged`.
        bias: [outputs].
        mse: Mean squared error on the validation rows [outputs].
        residual_std: Root mean squared error on the training rows [outputs].
        candidates: The validation error of every choice.
    """

    lags: int
    inputs: int
    penalties: Tensor
    weight: Tensor
    bias: Tensor
    mse: Tensor
    residual_std: Tensor
    candidates: list[Candidate] = field(repr=False)

    def predict(self, x: Any) -> Tensor:
        """The outputs [T, outputs] for the tokens of one stream [T, input_dim]."""
        (stream,) = _streams("x", [x])
        width = self.weight.shape[1] - (self.lags - 1) * self.inputs
        if stream.shape[1] != width:
            raise ValueError(f"x has {stream.shape[1]} columns, but this ridge regression was fitted to {width}")
        data = Lagged([stream], self.lags, self.inputs)
        every = [torch.ones(len(stream), dtype=torch.bool)]
        outputs = [z @ self.weight.T + self.bias for _, _, z in data.chunks(every)]
        return torch.cat(outputs) if outputs else self.bias.new_zeros(0, len(self.bias))


def fit_ridge(
    x: Sequence[Any],
    y: Sequence[Any],
    valid_x: Sequence[Any],
    valid_y: Sequence[Any],
    *,
    inputs: int,
    lags: Sequence[int] = LAGS,
    penalties: Sequence[float] = PENALTIES,
    unpenalised: Sequence[int] = (0,),
    skip: int | Sequence[int] = 0,
    valid_skip: int | Sequence[int] = 0,
    max_features: int = MAX_FEATURES,
) -> Ridge:
    """Fit ridge regressions for several numbers of tokens p and penalties, and return the best on validation data.

    The outputs share p but have a λ each. If a smaller p is worse by at most 0.1 %, it is preferred.

    Args:
        x: Streams, arrays or tensors [T, input_dim], standardised: the penalty is the same for all columns.
        y: Their targets [T, outputs], NaN where unknown. Outputs that are known in the same rows are solved together,
            which is faster.
        valid_x, valid_y: Likewise, for validation. Rows before those that are scored may be included as context and
            skipped with `valid_skip`.
        inputs: How many numbers are read of each token before the newest: the first ones.
        lags: The numbers of tokens p to try, including the newest. Those that are longer than every stream, or have
            more than `max_features` features, are left out, except for the smallest.
        penalties: λ to try.
        unpenalised: Columns whose newest values have no penalty.
        skip, valid_skip: Number of rows at the start of each stream that are not fitted or scored; one number, or one
            per stream.
        max_features: The most features to try.

    Example:
        >>> import torch
        >>> from nystream.train import fit_ridge
        >>> x = torch.randn(500, 1, generator=torch.Generator().manual_seed(0))
        >>> y = 2 * x - 0.5 * x.roll(1, 0)  # the row before counts, too
        >>> train, valid = ([x[:400]], [y[:400]]), ([x[399:]], [y[399:]])
        >>> ridge = fit_ridge(*train, *valid, inputs=1, skip=1, valid_skip=1)
        >>> ridge.lags, [round(w, 3) for w in ridge.weight[0].tolist()]
        (2, [2.0, -0.5])
    """
    streams, valid_streams = _streams("x", x), _streams("valid_x", valid_x)
    input_dim = streams[0].shape[1]
    targets = _targets("y", y, streams)
    valid_targets = _targets("valid_y", valid_y, valid_streams)
    if valid_streams[0].shape[1] != input_dim or valid_targets[0].shape[1] != targets[0].shape[1]:
        raise ValueError(
            f"valid_x and valid_y have {valid_streams[0].shape[1]} and {valid_targets[0].shape[1]} columns, but x and "
            f"y have {input_dim} and {targets[0].shape[1]}"
        )
    positive_int("inputs", inputs)
    positive_int("max_features", max_features)
    if inputs > input_dim:
        raise ValueError(f"inputs={inputs} must be at most the {input_dim} columns of x")
    strengths = sorted({float(penalty) for penalty in penalties}, reverse=True)
    if not strengths or not all(0 < strength < math.inf for strength in strengths):
        raise ValueError(f"penalties={penalties!r} must be finite numbers greater than 0, at least one")
    free = sorted(set(unpenalised))
    if not all(isinstance(column, int) and 0 <= column < input_dim for column in free):
        raise ValueError(f"unpenalised={unpenalised!r} must be columns of x, from 0 to {input_dim - 1}")
    tried = _tried(lags, input_dim, inputs, max(map(len, streams)), max_features)

    known = _known("y", targets, _rows("skip", skip, streams))
    valid_known = _known("valid_y", valid_targets, _rows("valid_skip", valid_skip, valid_streams))

    equations = NormalEquations(Lagged(streams, tried[-1], inputs), targets, known)
    solutions = equations.solve([feature_count(input_dim, p, inputs) for p in tried], strengths, free)
    errors = _errors(Lagged(valid_streams, tried[-1], inputs), valid_targets, valid_known, solutions)
    if not all(bool(error.isfinite().all()) for error in errors):
        raise ValueError("valid_x or valid_y has numbers so large that errors overflow; standardise them like x and y")
    chosen = _choose(errors, equations.variance)
    p, best = tried[chosen], errors[chosen].min(0)  # ties go to the larger penalty, which comes first
    outputs = torch.arange(len(best.indices))
    weight, bias = (part[best.indices, outputs] for part in solutions[chosen])
    ((training,),) = _errors(Lagged(streams, p, inputs), targets, known, [Solution(weight[None], bias[None])])
    return Ridge(
        lags=p,
        inputs=inputs,
        penalties=torch.tensor(strengths, dtype=torch.float64)[best.indices],
        weight=weight,
        bias=bias,
        mse=best.values,
        residual_std=training.sqrt(),
        candidates=[
            Candidate(p, strength, tuple(mse))
            for p, error in zip(tried, errors, strict=True)
            for strength, mse in zip(strengths, error.tolist(), strict=True)
        ],
    )


def _errors(data: Lagged, y: Sequence[Tensor], known: Sequence[Tensor], solutions: Sequence[Solution]) -> list[Tensor]:
    """The mean squared errors [λ, outputs] of each solution."""
    sums = [torch.zeros_like(solution.bias) for solution in solutions]
    for stream, rows, z in data.chunks([mask.any(1) for mask in known]):
        target, counted = y[stream][rows], known[stream][rows]
        for total, (weight, bias) in zip(sums, solutions, strict=True):
            error = z[:, : weight.shape[2]] @ weight.flatten(0, 1).T + bias.flatten()  # [N, λ · outputs]
            error = error.unflatten(1, bias.shape) - target[:, None]
            total += torch.where(counted[:, None], error, 0.0).square().sum(0)
    count = torch.cat(list(known)).sum(0)
    return [total / count for total in sums]


def _choose(errors: Sequence[Tensor], variance: Tensor) -> int:
    """The place of the first p whose error, relative to the variance, is close to the least."""
    relative = [float((error.min(0).values / variance).mean()) for error in errors]
    enough = (1 + NEAR_TIE) * min(relative) + EXACT
    return next(place for place, error in enumerate(relative) if error <= enough)


def _tried(lags: Sequence[int], input_dim: int, inputs: int, longest: int, max_features: int) -> list[int]:
    """The numbers of tokens to try, in ascending order."""
    if not lags:
        raise ValueError("lags is empty, but must have at least one number of tokens")
    for p in lags:
        positive_int("lags", p)
    first, *others = sorted(set(lags))
    few = [p for p in others if p <= longest and feature_count(input_dim, p, inputs) <= max_features]
    return [first, *few]


def _streams(name: str, given: Sequence[Any]) -> list[Tensor]:
    if not isinstance(given, list | tuple) or not given:
        raise ValueError(f"{name} must be a list of streams [T, input_dim], at least one")
    streams = [torch.as_tensor(x).detach().double().cpu() for x in given]
    for place, x in enumerate(streams):
        if x.dim() != 2 or not x.shape[1] or x.shape[1] != streams[0].shape[-1]:
            raise ValueError(
                f"{name}[{place}] is {list(x.shape)}, but must be [T, input_dim], the same for all streams"
            )
        if not bool(x.isfinite().all()):
            raise ValueError(f"{name}[{place}] has a number that is not finite; fill missing values first")
    return streams


def _targets(name: str, given: Sequence[Any], streams: Sequence[Tensor]) -> list[Tensor]:
    if not isinstance(given, list | tuple) or len(given) != len(streams):
        raise ValueError(f"{name} must be a list of targets [T, outputs], one for each of {len(streams)} streams")
    targets = [torch.as_tensor(y).detach().double().cpu() for y in given]
    for place, (x, y) in enumerate(zip(streams, targets, strict=True)):
        if y.dim() != 2 or not y.shape[1] or len(y) != len(x) or y.shape[1] != targets[0].shape[-1]:
            raise ValueError(f"{name}[{place}] is {list(y.shape)}, but must be [{len(x)}, outputs], one row per token")
        if bool(y.isinf().any()):
            raise ValueError(f"{name}[{place}] has an infinite number; use NaN for a target that is not known")
    return targets


def _rows(name: str, skip: int | Sequence[int], streams: Sequence[Tensor]) -> list[Tensor]:
    """Which rows of each stream [T] are not skipped."""
    skips = [skip] * len(streams) if isinstance(skip, int) else list(skip)
    if len(skips) != len(streams):
        raise ValueError(f"{name} has {len(skips)} numbers for {len(streams)} streams; give one, or one for each")
    for count in skips:
        whole(name, count)
    return [torch.arange(len(x)) >= count for x, count in zip(streams, skips, strict=True)]


def _known(name: str, targets: Sequence[Tensor], rows: Sequence[Tensor]) -> list[Tensor]:
    """Which targets [T, outputs] of each stream count."""
    known = [~y.isnan() & some[:, None] for y, some in zip(targets, rows, strict=True)]
    for output, some in enumerate(torch.cat(known).any(0).tolist()):
        if not some:
            raise ValueError(f"{name} has no known target in column {output} after the rows that are skipped")
    return known

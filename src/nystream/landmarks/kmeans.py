"""m-means of the tokens of each head with scikit-learn, several heads in parallel, with reproducible results.

scikit-learn adds the sums of its threads in the order in which they finish, so the last bits of a fit with several
threads can vary. Here, a fit uses one thread, and the cores work on different heads: reproducible, and no slower.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from nystream import extras

T = TypeVar("T")

# Tokens of real data need fewer. On 50,000 tokens of pure noise, 150 more iterations would lower the inertia by 0.01 %;
# on real tokens, another seed changes it by more.
MAX_ITERATIONS = 100
ROUNDING = 64  # tokens closer than this many ε of the largest token count as one


class Clusters(NamedTuple):
    """m-means of N tokens."""

    centres: NDArray[Any]  # [m, D]
    labels: NDArray[Any]  # [N]
    inertia: float  # fraction of the tokens' variance that is left within the clusters, 0 to 1


def require() -> None:
    """Raise if scikit-learn is missing, before minutes are spent on collecting tokens."""
    extras.require("fitting landmarks", "sklearn.cluster")


def m_means(rows: NDArray[Any], m: int, seed: int, n_init: int, name: str) -> Clusters:
    """m clusters of rows [N, D], the best of `n_init` attempts; may round `rows` in place. `name` is for errors."""
    if not np.isfinite(rows).all():
        raise ValueError(f"{name}: there are values that are not finite, so a weight of the projection is not finite")
    count = distinct(rows, m)
    if count < m:
        raise ValueError(
            f"{name}: a sample of {len(rows):,} tokens has only {count} distinct ones, but m={m} landmarks need at "
            f"least {m}; use more or other data, or fewer landmarks"
        )
    before = scatter(rows)
    means = import_module("sklearn.cluster").KMeans(
        m, init="k-means++", n_init=n_init, max_iter=MAX_ITERATIONS, algorithm="lloyd", random_state=seed, copy_x=False
    )
    try:
        means.fit(rows)
    except import_module("sklearn.exceptions").ConvergenceWarning as warning:
        raise ValueError(f"{name}: m-means did not find m={m} distinct clusters: {warning}") from warning
    return Clusters(means.cluster_centers_, means.labels_, fraction(means.inertia_, before))


def scatter(rows: NDArray[Any]) -> float:
    """Σ ‖x − mean‖² of rows [N, D]."""
    mean = rows.mean(0, dtype=np.float64)
    squares = np.einsum("nd,nd->", rows, rows, dtype=np.float64)
    return float(max(squares - len(rows) * (mean @ mean), 0.0))


def fraction(inertia: float, scatter: float) -> float:
    """The fraction of the scatter that is left; 0 if there was none."""
    return min(float(inertia) / scatter, 1.0) if scatter else 0.0


def distinct(rows: NDArray[Any], limit: int) -> int:
    """The number of rows [N, D] that differ by more than rounding, counted up to `limit`."""
    sample = rows[: 64 * limit]
    count = _distinct(sample, limit)  # nearly always enough, and nearly free
    return count if count == limit or len(sample) == len(rows) else _distinct(rows, limit)


def _distinct(rows: NDArray[Any], limit: int) -> int:
    """Take one row, then repeatedly the row farthest from all those taken, until only rounding is left.

    Comparing bits is not enough: equal tokens that went through the model in different batches differ in the last bits.
    """
    nearest = np.linalg.norm(rows, axis=1)
    rounding = ROUNDING * float(np.finfo(rows.dtype).eps) * float(nearest.max())
    nearest[:] = np.inf
    taken = 0
    for count in range(1, limit + 1):
        np.minimum(nearest, np.linalg.norm(rows - rows[taken], axis=1), out=nearest)
        taken = int(nearest.argmax())
        if nearest[taken] <= rounding:
            return count
    return limit


def in_parallel(calls: Sequence[Callable[[], T]], advance: Callable[[], object]) -> list[T]:
    """Make calls in one thread each, as many at once as torch has threads; raise the error of the first that failed."""
    import_module("sklearn.cluster")  # first, because the limits apply to libraries that are loaded
    limits: Any = import_module("threadpoolctl").threadpool_limits
    warning = import_module("sklearn.exceptions").ConvergenceWarning
    results = []
    # The number of BLAS threads and the warning filters are set for the process, around all workers; the number of
    # OpenMP threads is set for the calling thread, in each worker.
    with (
        warnings.catch_warnings(),
        limits(1, user_api="blas"),
        ThreadPoolExecutor(torch.get_num_threads(), initializer=limits, initargs=(1, "openmp")) as pool,
    ):
        warnings.simplefilter("error", warning)
        futures = [pool.submit(call) for call in calls]
        try:
            for future in futures:
                results.append(future.result())
                advance()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return results

"""m-means of the tokens of each head with scikit-learn, several heads at a time, the same bits every time.

scikit-learn adds up the sums of its threads in the order in which they finish, so the last bits of a fit over several
threads may vary. Here a fit has one thread, and the cores work on different heads: reproducible, and no slower.
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

Result = TypeVar("Result")

# Tokens of real data need fewer. On 50,000 of pure noise the 150 iterations that follow would lower the inertia by
# 0.01 %; another seed changes that of real tokens by more.
ITERATIONS = 100
ROUNDING = 64  # in units of ε of the largest token: tokens that are closer than that are one


class Clusters(NamedTuple):
    """m-means of N tokens."""

    centres: NDArray[Any]  # [m, D]
    labels: NDArray[Any]  # [N]
    inertia: float  # share of the tokens' variance that is left within the clusters, 0 to 1


def require() -> None:
    """Refuse early where scikit-learn is missing, before minutes are spent on collecting."""
    try:
        import_module("sklearn.cluster")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "sklearn":
            raise
        raise ModuleNotFoundError(
            "fitting landmarks needs scikit-learn: pip install 'nystream[train]'", name="sklearn"
        ) from error


def m_means(rows: NDArray[Any], m: int, seed: int, n_init: int, name: str) -> Clusters:
    """m clusters of rows [N, D], the best of `n_init` runs; `rows` may come back rounded. `name` is for errors."""
    if not np.isfinite(rows).all():
        raise ValueError(f"{name}: there are values that are not finite; a weight of the projection is not")
    apart = distinct(rows, m)
    if apart < m:
        raise ValueError(
            f"{name}: the {len(rows):,} tokens that were sampled hold only {apart} distinct ones, but m={m} landmarks "
            f"need at least {m}; feed more or other data, or use fewer landmarks"
        )
    scatter = total(rows)
    means = import_module("sklearn.cluster").KMeans(
        m, init="k-means++", n_init=n_init, max_iter=ITERATIONS, algorithm="lloyd", random_state=seed, copy_x=False
    )
    try:
        means.fit(rows)
    except import_module("sklearn.exceptions").ConvergenceWarning as warning:
        raise ValueError(f"{name}: m-means did not find m={m} clusters that differ: {warning}") from warning
    return Clusters(means.cluster_centers_, means.labels_, share(means.inertia_, scatter))


def total(rows: NDArray[Any]) -> float:
    """Σ ‖x − mean‖² of rows [N, D]."""
    mean = rows.mean(0, dtype=np.float64)
    squares = np.einsum("nd,nd->", rows, rows, dtype=np.float64)
    return float(max(squares - len(rows) * (mean @ mean), 0.0))


def share(inertia: float, scatter: float) -> float:
    """What part of the scatter is left; none where there was none."""
    return min(float(inertia) / scatter, 1.0) if scatter else 0.0


def distinct(rows: NDArray[Any], most: int) -> int:
    """How many of the rows [N, D] differ by more than rounding, counted up to `most`."""
    some = rows[: 64 * most]
    count = _apart(some, most)  # nearly always enough, and nearly free
    return count if count == most or len(some) == len(rows) else _apart(rows, most)


def _apart(rows: NDArray[Any], most: int) -> int:
    """Take one row, then ever the one that is farthest from those taken, until the others are no further than rounding.

    Comparing bits would not do: equal tokens that went through the model in different batches differ in the last ones.
    """
    nearest = np.linalg.norm(rows, axis=1)
    rounding = ROUNDING * float(np.finfo(rows.dtype).eps) * float(nearest.max())
    nearest[:] = np.inf
    taken = 0
    for count in range(1, most + 1):
        np.minimum(nearest, np.linalg.norm(rows - rows[taken], axis=1), out=nearest)
        taken = int(nearest.argmax())
        if nearest[taken] <= rounding:
            return count
    return most


def at_once(jobs: Sequence[Callable[[], Result]], advance: Callable[[], object]) -> list[Result]:
    """Run jobs of one thread each, as many at a time as torch has threads; the first error in their order is raised."""
    import_module("sklearn.cluster")  # before the limits, which hold for the libraries that are loaded by then
    limits: Any = import_module("threadpoolctl").threadpool_limits
    useless = import_module("sklearn.exceptions").ConvergenceWarning
    results = []
    # The number of BLAS threads and the warning filters belong to the process: set once, around all workers. The number
    # of OpenMP threads belongs to the thread that calls: set in each worker.
    with (
        warnings.catch_warnings(),
        limits(1, user_api="blas"),
        ThreadPoolExecutor(torch.get_num_threads(), initializer=limits, initargs=(1, "openmp")) as pool,
    ):
        warnings.simplefilter("error", useless)
        futures = [pool.submit(job) for job in jobs]
        try:
            for future in futures:
                results.append(future.result())
                advance()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return results

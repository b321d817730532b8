"""m-means: correct centres, reproducible bits, and clear errors if there are too few tokens."""

import sys
import time
import warnings
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_info

from nystream.landmarks import kmeans


@pytest.fixture
def threads():
    """Set the number of jobs that run at once."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def blobs(m, each, width, spread=0.01, dtype=np.float32, seed=0):
    random = np.random.default_rng(seed)
    centres = 3.0 * np.sign(random.standard_normal((m, width)))
    labels = random.permutation(np.repeat(np.arange(m), each))
    return (centres[labels] + spread * random.standard_normal((m * each, width))).astype(dtype), labels


def in_order(centres):
    return centres[np.lexsort(np.round(centres, 1).T)]


def nothing():
    pass


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(5))
def test_clusters_that_are_there_are_found(dtype, seed):
    rows, labels = blobs(m=6, each=50, width=16, dtype=dtype, seed=seed)
    means = np.stack([rows[labels == k].mean(0, dtype=np.float64) for k in range(6)])
    within = sum(((rows[labels == k] - means[k]) ** 2).sum() for k in range(6))
    found = kmeans.m_means(rows.copy(), 6, seed=seed, n_init=3, name="Q")
    assert found.centres.dtype == dtype
    assert np.allclose(in_order(found.centres), in_order(means), atol=1e-5)
    assert np.allclose(found.centres[found.labels], means[labels], atol=1e-5)
    assert found.inertia == pytest.approx(within / ((rows - rows.mean(0)) ** 2).sum(), rel=1e-3)


def test_as_many_tokens_as_clusters():
    rows = np.random.default_rng(0).standard_normal((7, 3))
    found = kmeans.m_means(rows.copy(), 7, seed=0, n_init=1, name="Q")
    assert np.allclose(in_order(found.centres), in_order(rows), rtol=0, atol=1e-14)
    assert found.inertia < 1e-20


def test_one_cluster_is_the_mean():
    rows = np.random.default_rng(0).standard_normal((50, 3))
    found = kmeans.m_means(rows.copy(), 1, seed=0, n_init=1, name="Q")
    assert np.allclose(found.centres[0], rows.mean(0))
    assert found.inertia == pytest.approx(1.0)
    same = kmeans.m_means(np.ones((50, 3)), 1, seed=0, n_init=1, name="Q")
    assert np.array_equal(same.centres, np.ones((1, 3)))
    assert same.inertia == 0.0


def test_more_starts_are_no_worse():
    rows = np.random.default_rng(0).standard_normal((300, 8))
    once, often = (kmeans.m_means(rows.copy(), 12, seed=3, n_init=n, name="Q").inertia for n in (1, 8))
    assert often < once


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_distinct_tokens_are_counted(scale, dtype):
    random = np.random.default_rng(0)
    words = random.standard_normal((5, 16))
    rows = (scale * words[random.integers(0, 5, 2_000)]).astype(dtype)
    rows *= (1 + np.finfo(dtype).eps * random.integers(-2, 3, rows.shape)).astype(dtype)  # as other batches round them
    assert kmeans.distinct(rows, 5) == 5
    assert kmeans.distinct(rows, 6) == 5
    assert kmeans.distinct(rows, 3) == 3


def test_rare_tokens_count_too():
    rows = np.zeros((5_000, 4), np.float32)
    rows[[4_000, 4_999]] = [[1, 0, 0, 0], [0, 1, 0, 0]]  # beyond the rows that are looked at first
    assert kmeans.distinct(rows, 3) == 3
    assert kmeans.distinct(rows, 4) == 3
    assert kmeans.m_means(rows, 3, seed=0, n_init=1, name="Q").inertia < 1e-12


def test_too_few_distinct_tokens():
    rows = np.repeat(np.eye(3, dtype=np.float32), 100, 0)
    with pytest.raises(ValueError, match=r"^block 1, head 2, K: a sample of 300 tokens has only 3 distinct ones, but"):
        kmeans.m_means(rows, 4, seed=0, n_init=1, name="block 1, head 2, K")


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite(bad):
    rows = np.random.default_rng(0).standard_normal((50, 3))
    rows[7, 1] = bad
    with pytest.raises(ValueError, match=r"^head 0, Q: there are values that are not finite"):
        kmeans.m_means(rows, 4, seed=0, n_init=1, name="head 0, Q")


def test_clusters_that_are_one_are_an_error_not_a_warning(monkeypatch):
    def fit(self, rows):
        warnings.warn(
            "Number of distinct clusters (2) found smaller than n_clusters (3)", ConvergenceWarning, stacklevel=2
        )

    monkeypatch.setattr(KMeans, "fit", fit)
    job = partial(kmeans.m_means, np.random.default_rng(0).standard_normal((50, 3)), 3, 0, 1, "head 0, Q")
    with pytest.raises(ValueError, match=r"^head 0, Q: m-means did not find m=3 distinct clusters"):
        kmeans.in_parallel([job], nothing)


def test_the_same_bits_however_many_at_once(threads):
    rows, _ = blobs(m=8, each=600, width=16, spread=3.0)
    fits = []
    for count in (1, 2, 4, 4):
        threads(count)
        jobs = [lambda seed=seed: kmeans.m_means(rows.copy(), 8, seed, 1, "Q") for seed in range(4)]
        fits.append(kmeans.in_parallel(jobs, nothing))
    for fit in fits[1:]:
        for one, other in zip(fits[0], fit, strict=True):
            assert np.array_equal(one.centres, other.centres)
            assert one.inertia == other.inertia
    assert not np.array_equal(fits[0][0].centres, fits[0][1].centres)


def test_jobs_have_one_thread_and_the_process_keeps_its_own(threads):
    def limits():
        return {(pool["filepath"], pool["user_api"]): pool["num_threads"] for pool in threadpool_info()}

    threads(2)
    before, filters = limits(), list(warnings.filters)
    inside = kmeans.in_parallel([limits] * 6, nothing)
    assert all(set(pools.values()) == {1} for pools in inside)
    assert limits() == before
    assert warnings.filters == filters


def test_results_come_in_order_and_are_counted(threads):
    threads(3)
    done = []

    def job(number):
        time.sleep(0.002 * (5 - number))
        return number

    assert kmeans.in_parallel([partial(job, n) for n in range(5)], lambda: done.append(1)) == [0, 1, 2, 3, 4]
    assert len(done) == 5


def test_the_first_error_in_order_is_raised_and_the_rest_left_undone(threads):
    threads(2)
    started = []

    def job(number):
        started.append(number)
        time.sleep(0.02 if number == 1 else 0.0)
        if number >= 1:
            raise ValueError(f"job {number}")

    with pytest.raises(ValueError, match="job 1"):
        kmeans.in_parallel([partial(job, n) for n in range(3)], nothing)
    threads(1)
    started.clear()
    with pytest.raises(ValueError, match="job 1"):
        kmeans.in_parallel([partial(job, n) for n in range(500)], nothing)
    assert len(started) < 500


def test_a_missing_package_says_how_to_install_it(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "sklearn"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install -c constraints.txt '\.\[train\]'"):
        kmeans.require()

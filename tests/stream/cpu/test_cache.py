"""Kernels are cached on disk, and the cache is used as long as their source code is the same."""

import os
import subprocess
import sys

SCRIPT = """
import sys
import numpy as np
from nystream.stream.cpu import step
all_finite = step._all_finite(sys.argv[1])
assert all_finite(np.zeros(3, np.float32))
print(sum(all_finite.stats.cache_hits.values()))
"""


def test_a_second_process_finds_what_the_first_compiled(tmp_path):
    def hits(digest):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, digest],
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        return int(done.stdout)

    assert hits("some sources") == 0
    assert hits("some sources") == 1
    assert hits("other sources") == 0


POOL = """
import numpy as np
import torch
import nystream as ns
attention = ns.AttentionConfig("co-full-single", embed_dim=16, num_heads=16, window=4)
pool = ns.StreamPool(ns.StreamModel(ns.ModelConfig(input_dim=3, output_dim=2, attention=attention)).eval())
pool.push(pool.open(), np.zeros(3, np.float32))
print(sum(pool._backend._kernels.push.stats.cache_hits.values()))
"""


def test_a_second_process_does_not_compile_the_kernels_of_a_pool(tmp_path):
    def hits():
        env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
        done = subprocess.run([sys.executable, "-c", POOL], env=env, capture_output=True, text=True, check=True)
        return int(done.stdout)

    assert hits() == 0
    assert hits() == 1


NOWHERE = """
from numba.core import caching
caching.CompileResultCacheImpl._locator_classes = []  # as in a read-only installation without a home folder
import numpy as np
from nystream.stream.cpu import step
assert step.all_finite(np.zeros(3, np.float32))
assert not step.all_finite(np.full(3, np.nan, np.float32))
print("fine")
"""


def test_without_a_folder_to_keep_them_in_they_are_compiled_all_the_same():
    done = subprocess.run([sys.executable, "-c", NOWHERE], capture_output=True, text=True, check=True)
    assert done.stdout == "fine\n"

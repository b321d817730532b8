"""When the kernels are used."""

import subprocess
import sys

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

import nystream as ns
from nystream import extras
from nystream.ops import fused

CFG = ns.AttentionConfig("co-full-single", 8, 2, 4)
PIECE = torch.zeros(1, 100, 2, 4)


@pytest.fixture(autouse=True)
def _compiled(monkeypatch):
    """As outside of the tests: Triton interprets no kernels."""
    triton = pytest.importorskip("triton", reason="Triton is not available for this platform")
    monkeypatch.setattr(triton.knobs.runtime, "interpret", False)


def test_not_on_a_cpu():
    assert not fused.wanted(PIECE, 100, CFG)
    with pytest.raises(ValueError, match=r"kernels\('always'\)"), fused.kernels("always"):
        fused.wanted(PIECE, 100, CFG)


def test_long_pieces_on_a_gpu(monkeypatch):
    piece = FakeTensor(FakeTensorMode(), PIECE.to("meta"), torch.device("cuda:0"))
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(fused, "_capability", lambda device: (9, 0))
    assert fused.wanted(piece, fused.SHORTEST, CFG)
    assert not fused.wanted(piece, fused.SHORTEST - 1, CFG)
    with fused.kernels("never"):
        assert not fused.wanted(piece, fused.SHORTEST, CFG)
    assert not fused.wanted(piece.double(), fused.SHORTEST, CFG)
    monkeypatch.setattr(fused, "_capability", lambda device: (7, 5))
    assert not fused.wanted(piece, fused.SHORTEST, CFG)
    monkeypatch.setattr(fused, "_capability", lambda device: (9, 0))
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    extras.warn_if_slower.cache_clear()
    with pytest.warns(UserWarning, match=r"no fused kernels on this GPU, which is slower\. Triton is not installed"):
        assert not fused.wanted(piece, fused.SHORTEST, CFG)
    assert not fused.wanted(piece, fused.SHORTEST, CFG)  # warned once


def test_modes_nest_and_end():
    with fused.kernels("always"):
        with fused.kernels("never"):
            assert not fused.wanted(PIECE, 100, CFG)
        with pytest.raises(ValueError, match="always"):
            fused.wanted(PIECE, 100, CFG)
    assert not fused.wanted(PIECE, 100, CFG)


def test_modes_of_threads_may_end_in_any_order():
    first, second = fused.kernels("never"), fused.kernels("always")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    with pytest.raises(ValueError, match="always"):
        fused.wanted(PIECE, 100, CFG)
    second.__exit__(None, None, None)
    assert not fused.wanted(PIECE, 100, CFG)


def test_unknown_mode():
    with (
        pytest.raises(ValueError, match="mode='sometimes' must be one of 'auto', 'always', 'never'"),
        fused.kernels("sometimes"),
    ):
        pass


def test_triton_is_not_imported_without_need():
    code = (
        "import sys, torch, nystream as ns\n"
        "attn = ns.MultiheadAttention(ns.AttentionConfig('co-full-single', 8, 2, 4))\n"
        "attn.steps(torch.zeros(1, 100, 8), attn.init_state(1))\n"
        "sys.exit('triton' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

"""Which backend a pool has for a model on a GPU. The tensors on the GPU are those that torch traces programs with."""

import importlib.util
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from nystream import extras
from nystream.stream.backends import choose
from nystream.stream.gpu import support


@pytest.fixture
def capability(monkeypatch):
    """Of the GPU, which can be set."""
    if importlib.util.find_spec("triton"):  # now, because Triton decides at the import that it interprets kernels
        importlib.import_module("nystream.stream.backends.triton")
    found = {"capability": (9, 0)}
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: found["capability"])
    room = SimpleNamespace(shared_memory_per_block_optin=232_448)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: room)
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setenv(support.INTERPRETER, "0")
    return found


@pytest.fixture
def on_gpu(build, capability):
    """A model whose weights are on a GPU."""

    def on_gpu(*args, **options):
        model, mode = build(*args, **options), FakeTensorMode()
        for part in model.modules():
            for tensors in (part._parameters, part._buffers):
                for name, x in tensors.items():
                    if x is not None:
                        tensors[name] = FakeTensor(mode, x.detach().to("meta"), torch.device("cuda:0"))
        return model

    return on_gpu


@pytest.fixture
def without_triton(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "triton" else find(name))


def name_of(chosen):
    return (chosen.func if isinstance(chosen, partial) else chosen).name


def falls_back(model, why):
    """Whether a pool of the model uses torch, and says why."""
    extras.warn_if_slower.cache_clear()
    with pytest.warns(UserWarning, match=f"a pool uses backend='torch', which is slower.*{why}"):
        return name_of(choose(model, "auto")) == "torch"


needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="there is no Triton here")


@needs_triton
def test_an_old_triton(on_gpu, monkeypatch):
    model = on_gpu("co-fixed-single", pinv="ridge")
    monkeypatch.setattr(extras, "_triton_version", lambda: "3.2.0")
    extras.warn_if_slower.cache_clear()
    with pytest.warns(UserWarning, match=r"Triton 3\.2\.0 is installed"):
        assert name_of(choose(model, "auto")) == "torch"
    with pytest.raises(ImportError, match=r"Triton 3\.2\.0 is installed, but the kernels need at least 3\.6"):
        choose(model, "triton")


@needs_triton
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("variant", ["co-fixed-single", "co-cont-single", "co-full-single"])
def test_auto_is_triton_for_what_its_kernels_run(variant, dtype, on_gpu):
    model = on_gpu(variant, dtype, pinv="ridge")
    assert name_of(choose(model, "auto")) == name_of(choose(model, "triton")) == "triton"
    assert choose(model, "auto", ring_dtype="bfloat16").keywords == {"ring_dtype": "bfloat16"}


UNSUPPORTED = {
    "variant": (("full",), {}, "it has a block of 'full', whose step computes all rows"),
    "stack": (("co-fixed-single",), {"layers": 2}, "it has a block of 'co-fixed-retro', whose step computes all rows"),
    "dtype": (("co-fixed-single", torch.float64), {}, "is float64, but the kernels take float32 and bfloat16"),
    "inverse": (("co-cont-single",), {"pinv": "exact"}, "pinv='exact' has no kernel for continual landmarks"),
}


@pytest.mark.parametrize(("args", "options", "why"), UNSUPPORTED.values(), ids=UNSUPPORTED)
def test_auto_is_torch_for_other_models(args, options, why, on_gpu):
    model = on_gpu(*args, **options)
    assert falls_back(model, why)
    with pytest.raises(ValueError, match=f"backend='triton' cannot run this model: .*{why}.*; use backend='torch'"):
        choose(model, "triton")
    with pytest.raises(ValueError, match=f"ring_dtype='bfloat16' needs .*{why}.*; use ring_dtype='float32'"):
        choose(model, "auto", ring_dtype="bfloat16")


def test_auto_is_torch_for_other_gpus(on_gpu, capability, monkeypatch):
    capability["capability"] = (7, 5)
    assert falls_back(on_gpu(), "the kernels need at least 8.0")
    with pytest.raises(
        ValueError, match=r"cuda:0 has compute capability 7\.5, but the kernels need at least 8\.0; use"
    ):
        choose(on_gpu(), "triton")
    monkeypatch.setattr(torch.version, "hip", "6.2")
    assert falls_back(on_gpu(), "AMD GPU")
    with pytest.raises(
        ValueError, match="cuda:0 is an AMD GPU, but the kernels run on NVIDIA GPUs; use backend='torch'"
    ):
        choose(on_gpu(), "triton")


@pytest.mark.usefixtures("without_triton")
def test_auto_is_torch_without_triton(on_gpu):
    extras.warn_if_slower.cache_clear()
    with pytest.warns(UserWarning, match=r"use backend='torch', which is slower\. Triton is not installed: pip"):
        assert name_of(choose(on_gpu(), "auto")) == "torch"
    assert name_of(choose(on_gpu(), "auto")) == "torch"  # warned once


def test_auto_is_torch_if_triton_interprets_kernels(on_gpu, monkeypatch):
    monkeypatch.setenv(support.INTERPRETER, "1")
    assert falls_back(on_gpu(), f"{support.INTERPRETER} is 1")


@pytest.mark.parametrize("interpreted", ["0", "1"])
def test_a_model_on_the_cpu_is_not_for_triton(interpreted, build, monkeypatch):
    monkeypatch.setenv(support.INTERPRETER, interpreted)
    assert name_of(choose(build(), "auto")) == "numba"
    assert falls_back(build("full"), "computes all rows")


@pytest.mark.parametrize("backend", ["auto", "triton"])
def test_weights_of_the_cpu_backend_are_refused(backend, on_gpu):
    with pytest.raises(ValueError, match=r"weights='int8' needs backend='numba', on the CPU; .* use weights='float32'"):
        choose(on_gpu(), backend, weights="int8")


def test_auto_is_torch_with_an_old_torch(on_gpu, monkeypatch):
    """Which does not say how much shared memory there is, and comes with an old Triton."""
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace())
    monkeypatch.setattr(extras, "find_spec", lambda name: object())
    monkeypatch.setattr(extras, "_triton_version", lambda: "3.1.0")
    extras.warn_if_slower.cache_clear()
    with pytest.warns(UserWarning, match=r"Triton 3\.1\.0 is installed, but the kernels need at least 3\.6"):
        assert name_of(choose(on_gpu(), "auto")) == "torch"


@needs_triton
def test_inverses_that_do_not_fit(on_gpu, capability):
    large = {"window": 130, "landmarks": 100}
    assert falls_back(on_gpu("co-cont-single", pinv="newton", **large), "too little shared memory")
    with pytest.raises(ValueError, match="too little shared memory for pinv='newton' of 100 landmarks"):
        choose(on_gpu("co-cont-single", pinv="newton", **large), "triton")
    assert name_of(choose(on_gpu("co-cont-single", pinv="ridge", **large), "auto")) == "triton"
    capability["capability"] = (8, 6)  # slow in float64
    assert falls_back(on_gpu("co-cont-single", pinv="ridge", **large), "too little shared memory")

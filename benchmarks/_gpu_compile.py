"""Compile every kernel that a step launches for an H200 (sm_90), without a GPU, and print what ptxas says of it.

python benchmarks/_gpu_compile.py VARIANT N D HEADS M RING_DTYPE

One line of JSON per kernel: registers, and bytes that are spilled. The step itself runs on the CPU: launches are
caught, compiled with the types of their arguments, and have no effect.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

os.environ["TRITON_INTERPRET"] = "0"

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

import nystream as ns
from nystream.stream.gpu import landmarks, launch
from nystream.stream.gpu.model import Streams

TARGET = GPUTarget("cuda", 90, 32)
TYPES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.int64: "i64", torch.int32: "i32", torch.bool: "i1"}
compiled: dict[str, dict[str, object]] = {}


def type_of(value):
    if isinstance(value, torch.Tensor):
        return "*" + TYPES[value.dtype]
    return "fp32" if isinstance(value, float) else "i32"


def catch(self, *args, grid=None, warmup=False, num_warps=4, num_stages=3, maxnreg=None, launch_pdl=False, **sizes):
    """Compile instead of running, once per kernel; `add_norm` once for each of its forms."""
    given = [value is not None for value in args]
    name = self.__name__ + ("".join(" -"[not is_given] for is_given in given) if self.__name__ == "add_norm" else "")
    if name in compiled:
        return
    bound = dict(zip((param.name for param in self.params), args, strict=False)) | sizes
    constants = {param.name for param in self.params if param.is_constexpr or bound.get(param.name, 0) is None}
    assert set(bound) == {param.name for param in self.params}
    names = [param.name for param in self.params]
    signature = {name: "constexpr" if name in constants else type_of(bound[name]) for name in names}
    aligned = [
        at
        for at, name in enumerate(names)
        if isinstance(bound[name], torch.Tensor) or (type(bound[name]) is int and bound[name] % 16 == 0)
    ]
    source = ASTSource(
        self,
        signature,
        {(names.index(name),): bound[name] for name in constants},
        {(at,): [["tt.divisibility", 16]] for at in aligned if names[at] not in constants},
    )
    options = {"num_warps": num_warps, "num_stages": num_stages, "maxnreg": maxnreg, "launch_pdl": launch_pdl}
    kernel = triton.compile(source, target=TARGET, options=options)
    shared = {"shared": kernel.metadata.shared}
    compiled[name] = {"kernel": self.__name__, "warps": num_warps, **shared, **resources(kernel.asm["ptx"], maxnreg)}


def resources(ptx: str, most: int | None) -> dict[str, int]:
    """Registers and spilled bytes of a kernel."""
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(ptx)
        file.flush()
        command = [get_ptxas(90).path, "-v", "--gpu-name=sm_90a", file.name, "-o", os.devnull]
        command += [] if most is None else [f"--maxrregcount={most}"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    found = {"registers": r"Used (\d+) registers", "spilled": r"(\d+) bytes spill stores"}
    return {name: int(re.findall(pattern, said)[0]) for name, pattern in found.items()}


def main(variant: str, n: str, d: str, heads: str, m: str, ring_dtype: str) -> None:
    cfg = ns.AttentionConfig(
        variant, embed_dim=int(d), num_heads=int(heads), window=int(n), landmarks=int(m), decay=False, pinv="newton"
    )
    model = ns.StreamModel(ns.ModelConfig(input_dim=5, output_dim=3, attention=cfg)).eval().requires_grad_(False)
    if cfg.fixed:
        shape = (cfg.num_heads, cfg.m, cfg.head_dim)
        model.encoder.blocks[0].attention.set_landmarks(torch.randn(shape), torch.randn(shape))
    JITFunction.run = catch
    for module in (launch, landmarks):  # as on the GPU
        module.early = lambda device: {"EARLY": True, "launch_pdl": True}
    streams = Streams(model, 2, getattr(torch, ring_dtype))
    with torch.no_grad():
        streams.write(1, model.init_state(1))
        streams.step(torch.tensor([0, 1]), torch.zeros(2, 1, 5))
    for said in compiled.values():
        sys.stdout.write(json.dumps(said) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Compile every kernel for an H200 without a GPU, and compare the PTX with the digests on record.

    python -m lab ptx            # fails if a kernel does not compile, or compiles to something else
    python -m lab ptx --write    # renew results/ptx.json, after a change that is meant to change kernels

Training and pools run on the CPU at the sizes and with the types that the project uses, but a launch only compiles its
kernel and leaves zeros. So what is compiled is what would be launched. Equal digests mean equal kernels: a file may
move, and its figures stay true. They hold for one version of Triton, the one that `constraints.txt` pins.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

os.environ["TRITON_INTERPRET"] = "0"
os.environ["TRITON_DISABLE_LINE_INFO"] = "1"  # it would tie the code to the lines of its source

import torch
import triton
import triton.compiler
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas
from triton.compiler import CompiledKernel
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

import nystream as ns
from nystream import provenance
from nystream.ops import fused
from nystream.ops.triton import launch
from nystream.stream.gpu import landmarks as pool_landmarks
from nystream.stream.gpu import launch as pool_launch
from nystream.stream.gpu.model import Streams
from nystream.train import Detection, StreamData, TrainConfig, fit, fit_many

RECORD = Path(__file__).resolve().parents[1] / "results" / "ptx.json"
HOPPER, ADA = 90, 89  # compute capabilities: an H200, and a GPU with little shared memory
SIZES = ((120, 192, 16, 4), (512, 512, 8, 16), (64, 1024, 8, 16))  # n, d, heads, m: heads of 12, 64 and 128
KINDS = ("co-fixed-single", "co-cont-single", "co-full-single")

KERNELS = ("ops.triton.full", "ops.triton.landmarks", "ops.triton.products", "stream.gpu.model")

Sizes = tuple[int, int, int, int]


class Recorder:
    """Compiles what is launched, for one GPU; `launched` has the digests of a case in order of their first launch."""

    def __init__(self) -> None:
        self.capability = HOPPER
        self.launched: list[str] = []
        self.kernels: dict[str, dict[str, Any]] = {}  # by digest
        self._digests: dict[int, tuple[str, CompiledKernel]] = {}  # kernels are kept, so that their ids are not reused

    # What Triton asks of the driver of a GPU.
    def get_current_device(self) -> int:
        return self.capability

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.capability, 32)

    def install(self) -> None:
        driver.set_active(self)
        run = JITFunction.run

        def compile_only(kernel: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> CompiledKernel:
            for x in args:
                if isinstance(x, torch.Tensor) and x.is_floating_point():
                    x.data.zero_()  # whatever a kernel would write is defined
            compiled = run(kernel, *args, grid=grid, warmup=True, **options)
            if id(compiled) not in self._digests:
                self._digests[id(compiled)] = (self._note(kernel.__name__, compiled), compiled)
            digest = self._digests[id(compiled)][0]
            if digest not in self.launched:
                self.launched.append(digest)
            return compiled

        JITFunction.run = compile_only
        for name in KERNELS:
            import_module(f"nystream.{name}")
        triton.knobs.runtime.interpret = True  # from here on, so that tensors on the CPU are accepted
        launch.is_hopper = lambda x: self.capability == HOPPER
        for module in (pool_launch, pool_landmarks):  # as on an H200
            vars(module)["early"] = lambda device: {"EARLY": True, "launch_pdl": True}

    def _note(self, name: str, compiled: CompiledKernel) -> str:
        code = "\n".join(line for line in compiled.asm["ptx"].splitlines() if not line.startswith("//"))
        digest = hashlib.sha256(code.encode()).hexdigest()[:12]
        if digest not in self.kernels:
            shared = {"kernel": name, "warps": compiled.metadata.num_warps, "shared": compiled.metadata.shared}
            self.kernels[digest] = shared | resources(compiled, self.capability)
        return digest


def resources(compiled: CompiledKernel, capability: int) -> dict[str, int]:
    """Registers of a thread, and the bytes that it spills."""
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(compiled.asm["ptx"])
        file.flush()
        architecture = f"sm_{capability}{'a' if capability >= HOPPER else ''}"
        command = [get_ptxas(capability).path, "-v", f"--gpu-name={architecture}", file.name, "-o", os.devnull]
        command += [f"--maxrregcount={compiled.metadata.maxnreg}"] if compiled.metadata.maxnreg else []
        report = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    found = {"registers": r"Used (\d+) registers", "spilled": r"(\d+) bytes spill stores"}
    return {name: int(re.findall(pattern, report)[0]) for name, pattern in found.items()}


def attention_config(variant: str, sizes: Sizes, **options: Any) -> ns.AttentionConfig:
    n, d, heads, m = sizes
    return ns.AttentionConfig(variant, d, heads, n, None if variant == "co-full-single" else m, **options)


def build(cfg: ns.AttentionConfig, *, learned: bool = False, **options: Any) -> ns.StreamModel:
    sizes = ns.ModelConfig(input_dim=5, output_dim=3, attention=cfg, stack="deep", ff_dim=8, **options)
    model = ns.StreamModel(sizes).eval()
    for block in model.encoder.blocks:
        if cfg.fixed:
            block.attention.set_landmarks(*torch.randn(2, cfg.num_heads, cfg.m, cfg.head_dim))
            if learned:
                block.attention.learn_landmarks()
    return model


def trained(cfg: ns.AttentionConfig, bf16: bool, together: bool, learned: bool) -> None:
    """One update by `fit`, or of two models by `fit_many`."""
    data = StreamData([torch.randn(48, 5)] * 2, [torch.randint(0, 3, (48,))] * 2)
    config = TrainConfig(epochs=1, steps_per_epoch=1, batch_size=2, piece=48, short=1.0, bf16=bf16)
    with fused.kernels("always"):
        if together:
            fit_many([build(cfg, learned=learned) for _ in range(2)], data, None, config, task=Detection())
        else:
            fit(build(cfg, learned=learned), data, None, config, task=Detection())


def differentiated(
    cfg: ns.AttentionConfig,
    dtype: torch.dtype = torch.float32,
    autocast: torch.dtype | None = None,
    learned: bool = False,
    **about: Any,
) -> None:
    """Forward and backward passes over two pieces of a stream in a loop of one's own, with gradients of the first."""
    length, rows = about.pop("length", 48), about.pop("rows", 2)
    attention = build(cfg, learned=learned).encoder.blocks[0].attention.to(dtype)
    x = torch.randn(rows, length, cfg.embed_dim, dtype=dtype)
    given = {name: torch.tensor(value) for name, value in about.items()}
    whole = torch.autocast("cpu", dtype=autocast) if autocast else nullcontext()
    with fused.kernels("always"), whole:
        first, state = attention.steps(x, attention.init_state(rows))
        second, _ = attention.steps(x, state, **given)
        (first.float() + second.float()).sum().backward()


def pushed(cfg: ns.AttentionConfig, ring_dtype: str, dtype: torch.dtype = torch.float32, **options: Any) -> None:
    """One step of a pool."""
    model = build(cfg, **options).requires_grad_(False).to(dtype)
    streams, r = Streams(model, 2, getattr(torch, ring_dtype)), cfg.update_size
    with torch.no_grad():
        streams.write(1, model.init_state(1))
        streams.step(torch.tensor([0, 1]), torch.zeros(2, r, 5, dtype=dtype))


def cases() -> Iterator[tuple[str, Callable[[], None], int]]:
    """What is compiled, by name, and the GPU that it is compiled for."""

    def case(what: str, cfg: ns.AttentionConfig, function: Callable[..., None], *args: Any, **options: Any) -> Any:
        options_ = f"{'' if cfg.landmarks is None else f' m={cfg.m} {cfg.pinv}'}{' decay' * cfg.decay}"
        name = f"{what}: {cfg.variant} n={cfg.window} d={cfg.embed_dim} heads={cfg.num_heads}{options_}"
        return name, partial(function, cfg, *args, **options), HOPPER

    # Training: every kind of loop, type and parameter.
    for sizes, decay in product(SIZES, (False, True)):
        for pinv in ("newton", "none"):
            cfg = attention_config("co-fixed-single", sizes, pinv=pinv, decay=decay)
            for bf16, together, learned in product((False, True), repeat=3):
                how = f"{'fit_many' if together else 'fit'}{' bf16' * bf16}{' learned' * learned}"
                yield case(how, cfg, trained, bf16, together, learned)
        full_cfg = attention_config("co-full-single", sizes, decay=decay)
        for bf16, together in product((False, True), repeat=2):
            yield case(f"{'fit_many' if together else 'fit'}{' bf16' * bf16}", full_cfg, trained, bf16, together, False)
        for each in (cfg, full_cfg):
            learned = each.fixed
            yield case("bfloat16 weights", each, differentiated, torch.bfloat16, learned=learned)
            for low in (torch.bfloat16, torch.float16):
                how = f"autocast to {str(low).removeprefix('torch.')}"
                yield case(how, each, differentiated, autocast=low, learned=learned)
    for landmarks_ in (2, 8, 32):
        cfg = attention_config("co-fixed-single", (*SIZES[0][:3], landmarks_), decay=True)
        yield case("fit", cfg, trained, False, False, True)
    for variant in KINDS[::2]:
        cfg = attention_config(variant, SIZES[0], decay=True, update_size=3)
        reset = [[token == 21 for token in range(48)], [False] * 48]
        yield case("groups, resets, lengths", cfg, differentiated, lengths=[48, 45], reset=reset)
        cfg = attention_config(variant, (1, 16, 1, 1))
        yield case("one of everything", cfg, differentiated, length=1, rows=1)
    yield case("warm-up", attention_config("co-cont-single", SIZES[0]), differentiated)

    # Pools: the models of the experiments, and what differs from them.
    for variant, sizes, ring_dtype in product(KINDS, (*SIZES, (100, 256, 8, 8)), ("bfloat16", "float32")):
        yield case(f"pool, {ring_dtype} rings", attention_config(variant, sizes, pinv="newton"), pushed, ring_dtype)
    for variant in KINDS:
        for pinv in ("ridge", "none") if variant == "co-cont-single" else ("ridge",):
            cfg = attention_config(variant, (256, 1024, 8, 16), pinv=pinv, decay=True)
            yield case("pool of two blocks, bfloat16", cfg, pushed, "bfloat16", torch.bfloat16, layers=2)
        cfg = attention_config(variant, (100, 96, 8, 5), update_size=4)
        yield case("pool, groups of 4", cfg, pushed, "float32")
        cfg = attention_config(variant, (96, 192, 16, 32))
        linear = ns.LinearConfig(segments=(1, 1, 4), inputs=2)
        yield case("pool, linear path", cfg, pushed, "float32", linear=linear)

    # A GPU with little shared memory.
    for sizes, variant in product(SIZES, KINDS[::2]):
        cfg = attention_config(variant, sizes, decay=True)
        yield (*case("fit, sm_89", cfg, trained, False, False, False)[:2], ADA)


def compile_half(half: int) -> tuple[dict[str, str], dict[str, str], dict[str, dict[str, Any]]]:
    """Digests by case, and what is known of each kernel; before them errors of cases that do not compile.

    Cases of one size go to the same half, because many of them launch the same kernels.
    """
    recorder = Recorder()
    recorder.install()
    torch.set_num_threads(1)
    found: dict[str, str] = {}
    errors: dict[str, str] = {}
    sizes: dict[str, int] = {}
    for name, function, recorder.capability in cases():
        if sizes.setdefault(re.sub(r".*: | m=.*| decay", "", name), len(sizes)) % 2 != half:
            continue
        recorder.launched = []
        torch.manual_seed(0)
        try:
            function()
        except triton.compiler.CompilationError as error:
            errors[name] = str(error)
        else:
            found[name] = " ".join(recorder.launched)
    return found, errors, recorder.kernels


def compile_all() -> tuple[dict[str, Any], dict[str, str]]:
    """What the record holds, and the errors of cases that do not compile; in two processes."""
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as processes:
        found, errors, kernels = (
            {name: each[name] for each in parts for name in each}
            for parts in zip(*processes.map(compile_half, (0, 1)), strict=True)
        )
    return {"triton": triton.__version__, "cases": found, "kernels": kernels}, errors


def differences(record: dict[str, Any], compiled: dict[str, Any]) -> list[str]:
    """What compiled to something else than the record says."""

    def names(of: dict[str, Any], case: str) -> dict[str, str]:
        return {digest: of["kernels"][digest]["kernel"] for digest in of["cases"].get(case, "").split()}

    lines = []
    for case in dict.fromkeys((*record["cases"], *compiled["cases"])):
        before, now = names(record, case), names(compiled, case)
        changed = {before.get(digest) or now[digest] for digest in before.keys() ^ now.keys()}
        if changed:
            lines.append(f"{case}: {', '.join(sorted(changed))}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="renew the record")
    parser.add_argument("--record", type=Path, default=RECORD, help="the record (default: results/ptx.json)")
    options = parser.parse_args()
    start = time.monotonic()
    compiled, errors = compile_all()
    seconds = time.monotonic() - start
    print(f"{len(compiled['kernels'])} kernels of {len(compiled['cases'])} cases compiled in {seconds:.0f} s")
    if errors:
        sys.exit("\n\n".join(["These do not compile:", *(f"{name}\n{error}" for name, error in errors.items())]))
    if options.write:
        print(provenance.write(options.record, "python -m lab ptx --write", compiled))
        return
    record = json.loads(options.record.read_text())
    if record["triton"] != triton.__version__:
        print(f"not compared: the record is of Triton {record['triton']}, and this is {triton.__version__}")
        return
    changed = differences(record, compiled)
    if changed:
        sys.exit("\n".join(["These kernels differ from the record (python -m lab ptx --write renews it):", *changed]))
    print(f"all equal to {options.record}")


if __name__ == "__main__":
    main()

"""Every kernel compiles, fits on a GPU and does not spill registers on sm_90. This needs no GPU."""

import importlib
import re
import subprocess

import pytest

SHARED = {90: 227 * 1024, 89: 99 * 1024}  # bytes of shared memory that a program may use, by compute capability
# Bytes of a thread: ptxas spills a few where that lets more programs run at once. At most 12 with Triton 3.6, for which
# the tiles were chosen, and 32 with 3.7, in one kernel: eight of 255 registers.
SPILLED = 32
LARGE = 64  # the widest heads of large tiles, which were chosen by their time on an H200 and may spill
KERNELS = [
    *(("full", name) for name in ("attend", "lse_gradient", "query_gradient", "key_gradients")),
    *(("input", name) for name in ("runs", "unroll", "to_base_two")),
    ("product", "partial_outer"),
    *(("landmarks", name) for name in ("normalize", "attend", "weight_gradient", "middle_gradients", "edge_gradients")),
]
INT32 = {"first_key", "last_key", "first_query", "last_query", "bad"}
INT64 = {"time", "end"}
SIZES = dict.fromkeys(("START", "N", "T", "H", "B", "STEPS", "TOKENS", "SIZE", "S", "SPAN", "HEAD", "TOKEN"), "i32")
SIZES |= {"scale": "fp32"}
FLOAT32 = {"weight", "logit", "decay", "lse", "l_gradient", "w_gradient", "logit_gradient", "decay_gradient"}


def compiled(family, name, width, dtype, decay, capability=90, hopper=False, **ones):
    """PTX of a kernel, and its shared memory in bytes; sizes of 1 are constants, as in a launch."""
    triton = pytest.importorskip("triton", reason="Triton is not available for this platform")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from nystream.ops.triton import band, full, landmarks, launch, prepare, products

    files = {"landmarks": ("landmark_kernels", "landmark_gradients")}.get(family, (f"{family}_kernels",))
    modules = [importlib.import_module(f"nystream.ops.triton.{file}") for file in files]
    (kernel,) = (getattr(module, name) for module in modules if hasattr(module, name))
    tiles = {
        "full": lambda: full.tile(name, width, hopper),
        "landmarks": lambda: landmarks.tile(name, width, 16),
    }
    options = tiles[family]().options() if family in tiles else {"num_warps": 8 if name == "to_base_two" else 4}
    padded = launch.padded(width)
    constants = {
        "D": width,
        "DP": padded,
        "M": 16,
        "MP": 16,
        "PART": padded if family == "full" and width <= 64 else min(32, padded),
        "DECAY": decay,
        "PRECISION": "tf32x3" if dtype == "fp32" else "tf32",
        **{size: options.pop(size) for size in ("BLOCK_Q", "BLOCK_K") if size in options},
        "BLOCK": {"runs": band.BLOCK, "partial_outer": products.BLOCK}.get(name, prepare.LONGEST),
        "PIECE": prepare.LONGEST,
        "W": 8 * width,
        "COLUMN": 1,
    }
    constants |= ones
    if not decay:
        constants |= {"decay": None, "decay_gradient": None}
    if name in ("to_base_two", "partial_outer"):
        dtype = "fp32"
    float32 = FLOAT32 if family == "full" else FLOAT32 | {"out", "out_gradient"}
    pointers = dict.fromkeys(float32, "*fp32") | dict.fromkeys(INT32, "*i32") | dict.fromkeys(INT64, "*i64")
    signature, values, attributes = {}, {}, {}
    for place, argument in enumerate(kernel.arg_names):
        if argument in constants:
            signature[argument], values[(place,)] = "constexpr", constants[argument]
        elif argument in SIZES:
            signature[argument] = SIZES[argument]
        else:
            signature[argument] = pointers.get(argument, f"*{dtype}")
            attributes[(place,)] = [["tt.divisibility", 16]]
    source = ASTSource(kernel, signature, values, attributes)
    result = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    return result.asm["ptx"], result.metadata.shared


def check(family, name, width, dtype, decay, folder):
    if width <= LARGE and family == "full":
        assert compiled(family, name, width, dtype, decay, hopper=True)[1] <= SHARED[90]
        # One product of TensorFloat-32, as torch's settings may allow it, takes more shared memory than three.
        assert compiled(family, name, width, dtype, decay, hopper=True, PRECISION="tf32")[1] <= SHARED[90]
    ptx, shared = compiled(family, name, width, dtype, decay)
    assert shared <= SHARED[90]
    file = folder / "kernel.ptx"
    file.write_text(ptx)
    report = assembled(file)
    spilled = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", report)
    assert spilled is not None, report
    assert max(map(int, spilled.groups())) <= SPILLED, f"width {width}, {dtype}, decay {decay}: {report}"


@pytest.mark.slow
@pytest.mark.parametrize(("family", "name"), KERNELS)
def test_compiles_for_hopper(family, name, tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    check(family, name, 64, "fp32", True, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "name"), KERNELS)
def test_compiles_for_one_token_and_one_head(family, name, tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    compiled(family, name, 16, "fp32", False, N=1, T=1, H=1, B=1)
    if name in ("unroll", "to_base_two"):
        compiled(family, name, 16, "fp32", False, time=None)  # a ring whose oldest token comes first


@pytest.mark.deploy
@pytest.mark.parametrize("width", [12, 64, 128])
@pytest.mark.parametrize(("family", "name"), KERNELS)
def test_compiles_at_all_widths(family, name, width, tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    for dtype, decay in (("fp32", True), ("fp32", False), ("bf16", True)):
        check(family, name, width, dtype, decay, tmp_path)
    assert compiled(family, name, width, "fp32", True, capability=89)[1] <= SHARED[89]


def assembled(file):
    """What ptxas, which comes with Triton, says about a file of PTX."""
    from triton.backends.nvidia.compiler import get_ptxas

    command = [get_ptxas(90).path, "-v", "-arch=sm_90a", str(file), "-o", "/dev/null"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stderr

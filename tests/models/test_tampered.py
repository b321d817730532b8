"""Model folders that were tampered with: an error names the file and the field before anything is built."""

import json
import shutil
import time

import pytest
import safetensors.torch
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nystream as ns
from nystream.models import weights_file

SECONDS = 2.0  # that no refusal may take, on a machine that does other things too


@pytest.fixture(scope="module")
def saved(build, tmp_path_factory):
    """A model with fixed landmarks and sinusoidal positions, so with everything that is not a plain weight."""
    folder = tmp_path_factory.mktemp("saved")
    build("co-fixed-single", 2, torch.float32, positions="sinusoidal").save_pretrained(folder)
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "model")


def refused(folder, file, *words):
    began = time.monotonic()
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - what it says is checked below
        ns.StreamModel.from_pretrained(folder)
    assert time.monotonic() - began < SECONDS
    message = str(caught.value)
    assert len(message) < 2000
    for word in (str(folder / file), *words):
        assert word in message, f"{word!r} is not in: {message}"


def rewrite(folder, change):
    path = folder / "config.json"
    written = json.loads(path.read_text(encoding="utf-8"))
    change(written)
    path.write_text(json.dumps(written), encoding="utf-8")


CONFIGS = {
    "ff_dim": (lambda w: w["config"].update(ff_dim=2**30), "needs [1073741824, 8] (ff_dim, embed_dim)"),
    "ff_dim past int64": (lambda w: w["config"].update(ff_dim=2**70), "ff_dim=1180591620717411303424"),
    "layers": (lambda w: w["config"].update(layers=10**5), "layers=100000"),
    "more layers": (lambda w: w["config"].update(layers=200), "config.layers is 200"),
    "endless layers": (lambda w: w["config"].update(layers=10**15), "layers=1000000000000000"),
    "blocks": (lambda w: w["config"].update(attention=[{}] * 10**5), "config.attention has 100000 blocks"),
    "input_dim": (lambda w: w["config"].update(input_dim=2**30), "(input_dim)"),
    "output_dim": (lambda w: w["config"].update(output_dim=2**30), "(output_dim)"),
    "learned": (
        lambda w: w["config"].update(positions="learned", num_positions=2**30),
        "lacks positions.table",
    ),
    "sinusoidal": (lambda w: w["config"].update(num_positions=2**30), "num_positions=1073741824"),
    "embed_dim": (
        lambda w: (w["config"].update(positions="none"), w["config"]["attention"].update(embed_dim=2**30)),
        "(embed_dim, input_dim)",
    ),
    "landmarks": (
        lambda w: w["config"]["attention"].update(landmarks=2**30, window=2**30),
        "(num_heads, landmarks, embed_dim / num_heads)",
    ),
    "pinv_iters": (lambda w: w["config"]["attention"].update(pinv_iters=10**12), "pinv_iters=1000000000000"),
    "window": (lambda w: w["config"]["attention"].update(window=10**30), "window=1000"),
    "norm_eps": (lambda w: w["config"].update(norm_eps=10**400), "norm_eps=1000"),
    "pinv_ridge": (lambda w: w["config"]["attention"].update(pinv_ridge=10**400), "pinv_ridge=1000"),
    "seconds": (lambda w: w["info"].update(seconds=10**400), "seconds=1000"),
    "dropout": (lambda w: w["config"].update(dropout=[]), "dropout=[]"),
    "variant": (lambda w: w["config"]["attention"].update(variant=["full"]), "variant=['full']"),
    "sums": (lambda w: w["config"]["attention"].update(sums={}), "sums={}"),
    "NaN": (lambda w: w["config"].update(dropout=float("nan")), "NaN"),
    "Infinity": (lambda w: w["config"]["attention"].update(pinv_ridge=float("inf")), "Infinity"),
    "many fields": (lambda w: w["config"].update({f"field{i}": 0 for i in range(10**4)}), "field0"),
    "a long field": (lambda w: w.update({"x" * 10**6: 0}), "xxx"),
    "no info": (lambda w: w.update(info=None), "info is None"),
    "labels": (lambda w: w["info"].update(labels=["a", "b", "\ud800"]), "labels has '\\ud800'"),
    "task": (lambda w: w["info"].update(task="\udfff"), "task has '\\udfff'"),
    "reader": (lambda w: w["info"].update(reader={"name": "\ud800"}), "reader"),
    "reader of numbers": (lambda w: w["info"].update(reader=[1, 2]), "reader"),
}


@pytest.mark.parametrize("case", CONFIGS)
def test_a_config_that_claims_what_cannot_be_is_refused_by_field(folder, case):
    change, word = CONFIGS[case]
    rewrite(folder, change)
    refused(folder, "config.json", word)


def nested(text, depth):
    return lambda config: config.replace('"reader": null', f'"reader": {{"a": {text[0] * depth}{text[1] * depth}}}')


TEXTS = {
    "brackets": (lambda _: "[" * 10**5, "nested too deeply"),
    "objects": (lambda _: '{"a":' * 10**5, "nested too deeply"),
    "a reader in brackets": (nested("[]", 10**5), "nested too deeply"),
    "a reader that could not be written": (nested("[]", 500), "nested too deeply"),
    "a field twice": (lambda text: text.replace('"layers": 2', '"layers": 2, "layers": 3'), "'layers' appears twice"),
    "the last of many fields twice": (
        lambda _: "{" + ", ".join(f'"a{i}": 0' for i in range(200_000)) + ', "a199999": 1}',
        "'a199999' appears twice",
    ),
    "an endless number": (lambda text: text.replace('"layers": 2', f'"layers": {"9" * 10**5}'), "JSON"),
    "a huge float": (lambda text: text.replace('"norm_eps": 1e-05', '"norm_eps": 1e999'), "norm_eps=inf"),
    "enormous": (lambda text: text + " " * 2**24, "bytes"),
}


@pytest.mark.parametrize("case", TEXTS)
def test_a_text_that_is_no_config_is_refused(folder, case):
    change, word = TEXTS[case]
    path = folder / "config.json"
    before = path.read_text(encoding="utf-8")
    path.write_text(change(before), encoding="utf-8")
    assert path.read_text(encoding="utf-8") != before
    refused(folder, "config.json", word)


def put(name, value):
    return lambda tensors: tensors[name].view(-1).__setitem__(0, value)


def cast(name, dtype):
    return lambda tensors: tensors.__setitem__(name, tensors[name].to(dtype))


BLOCK = "encoder.blocks.0."
WEIGHTS = {
    "missing": (lambda t: t.pop("head.bias"), "lacks head.bias"),
    "all missing": (lambda t: t.clear(), "has no encoder.blocks.0."),
    "extra": (lambda t: t.update(other=torch.zeros(2)), "has other"),
    "many extra": (lambda t: t.update({f"other{i}": torch.zeros(1) for i in range(1000)}), "and 995 more"),
    "shape": (
        lambda t: t.update({"head.bias": torch.zeros(4)}),
        "is [4], but the config needs [3] (output_dim)",
    ),
    "scalar": (lambda t: t.update({"head.bias": torch.zeros(())}), "head.bias is [], but"),
    "an extra block": (lambda t: t.update({"encoder.blocks.99999.x": torch.zeros(1)}), "encoder.blocks.99999."),
    "int64": (cast("input_proj.weight", torch.int64), "input_proj.weight is I64"),
    "int8": (cast(BLOCK + "linear1.weight", torch.int8), "linear1.weight is I8"),
    "bool": (cast("head.bias", torch.bool), "head.bias is BOOL"),
    "complex": (cast("head.weight", torch.complex64), "head.weight is C64"),
    "float8": (cast("head.weight", torch.float8_e4m3fn), "head.weight is F8_E4M3"),
    "NaN": (put("head.weight", torch.nan), "head.weight has values that are NaN or infinite"),
    "Inf": (put(BLOCK + "attention.q_proj.bias", torch.inf), "attention.q_proj.bias has values that are NaN"),
    "NaN of a landmark": (put(BLOCK + "attention.q_tilde", torch.nan), "attention.q_tilde has values that are NaN"),
    "Inf of a landmark": (put(BLOCK + "attention.k_tilde", -torch.inf), "attention.k_tilde has values that are NaN"),
    "one of two landmarks": (
        lambda t: t[BLOCK + "attention.q_tilde"].fill_(torch.nan),
        "attention.q_tilde has values that are NaN",
    ),
    "scale 0": (put("input_scaler.scale", 0.0), "input_scaler.scale has a value of 0.0"),
    "scale < 0": (put("output_scaler.scale", -2.0), "output_scaler.scale has a value of -2.0"),
    "scale NaN": (put("output_scaler.scale", torch.nan), "output_scaler.scale has values that are NaN"),
    "scale Inf": (put("input_scaler.scale", torch.inf), "input_scaler.scale has values that are NaN or infinite"),
    "mean Inf": (put("input_scaler.mean", torch.inf), "input_scaler.mean has values that are NaN or infinite"),
}


@pytest.mark.parametrize("case", WEIGHTS)
def test_weights_that_are_no_weights_of_the_config_are_refused_by_name(folder, case):
    change, word = WEIGHTS[case]
    path = folder / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    change(tensors)
    safetensors.torch.save_file(tensors, path)
    refused(folder, "model.safetensors", word)


def header_of(path):
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def write_header(path, header, data):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


HEADERS = {
    "more than the file": lambda h: h["head.weight"]["data_offsets"].__setitem__(1, 2**50),
    "more numbers": lambda h: h["head.weight"]["shape"].__setitem__(0, 2**40),
    "overflow": lambda h: h["head.weight"].update(shape=[2**40, 2**40, 2**40]),
    "negative": lambda h: h["head.weight"].update(shape=[-1]),
    "no shape": lambda h: h["head.weight"].pop("shape"),
    "dtype": lambda h: h["head.weight"].update(dtype="F99"),
    "overlap": lambda h: h["head.weight"].update(data_offsets=h["head.bias"]["data_offsets"]),
}


@pytest.mark.parametrize("case", HEADERS)
def test_a_header_that_claims_what_is_not_there_is_refused(folder, case):
    path = folder / "model.safetensors"
    header, data = header_of(path)
    HEADERS[case](header)
    write_header(path, header, data)
    refused(folder, "model.safetensors", "cannot be read as a safetensors file")


@pytest.mark.parametrize("size", [0, 7, 2**20, 2**63, 2**64 - 1])
def test_a_header_of_another_length_is_refused(folder, size):
    path = folder / "model.safetensors"
    path.write_bytes(size.to_bytes(8, "little") + path.read_bytes()[8:])
    refused(folder, "model.safetensors", "cannot be read as a safetensors file")


def test_a_tensor_that_is_there_twice_is_refused(folder):
    path = folder / "model.safetensors"
    header, data = header_of(path)
    entry = f'"head.bias": {json.dumps(header["head.bias"])}, '
    write_header(path, json.dumps(header).replace("{", "{" + entry, 1).encode(), data)
    refused(folder, "model.safetensors", "'head.bias' appears twice")


@given(st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_happens_to_a_file_is_refused_or_harmless(saved, tmp_path_factory, data):
    """A few bytes changed anywhere: a ValueError, or a model that can be used."""
    folder = shutil.copytree(saved, tmp_path_factory.mktemp("changed") / "model")
    path = folder / data.draw(st.sampled_from(["config.json", "model.safetensors"]))
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    began, tensors, message = time.monotonic(), {}, str(folder)
    try:
        tensors = ns.StreamModel.from_pretrained(folder).state_dict()
    except ValueError as error:
        message = str(error)
    assert time.monotonic() - began < SECONDS
    assert str(folder) in message
    assert all(bool(x.isfinite().all()) for x in tensors.values())


def test_a_model_that_could_not_be_loaded_is_not_saved(build, tmp_path):
    model = build()
    model.save_pretrained(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with torch.no_grad():
        model.head.weight[0, 0] = torch.nan
    with pytest.raises(ValueError, match=r"the model: head\.weight has values that are NaN"):
        model.save_pretrained(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("narrow", "wide", "whole"),
    [
        (torch.bfloat16, torch.float32, torch.float32),
        (torch.float16, torch.bfloat16, torch.float32),
        (torch.float32, torch.float64, torch.float64),
    ],
)
def test_weights_of_several_dtypes_lose_nothing(build, tmp_path, narrow, wide, whole):
    model = build("co-fixed-single", 1, narrow)
    model.output_scaler.to(wide)
    model.output_scaler.set(torch.tensor([1.1, 2.2, 3.3]), torch.tensor([0.1, 0.2, 0.3]))
    model.save_pretrained(tmp_path)
    other = ns.StreamModel.from_pretrained(tmp_path)
    assert {x.dtype for x in other.state_dict().values()} == {whole}
    for name, x in model.state_dict().items():
        assert torch.equal(other.state_dict()[name], x.to(whole)), name


def test_a_run_folder_is_its_model(build, tmp_path, monkeypatch):
    """`from_pretrained` accepts a run folder, as the command does."""
    build("full").save_pretrained(tmp_path / "runs" / "x" / "model")
    monkeypatch.chdir(tmp_path)
    for name in ("runs/x", tmp_path / "runs" / "x"):
        assert ns.StreamModel.from_pretrained(name).config.attention.variant == "full"


def test_a_model_folder_with_a_folder_called_model_is_itself(build, tmp_path):
    build("full").save_pretrained(tmp_path)
    build("co-full-single").save_pretrained(tmp_path / "model")
    assert ns.StreamModel.from_pretrained(tmp_path).config.attention.variant == "full"


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "none"])
@pytest.mark.parametrize("variant", ns.VARIANTS)
def test_the_shapes_that_are_needed_are_those_of_a_model(build, variant, positions):
    options = {"bias": False, "final_norm": False} if positions == "none" else {}
    model = build(variant, 3, positions=positions, **options)
    needed = {name: tuple(size for _, size in sizes) for name, sizes in weights_file.shapes(model.config)}
    assert needed == {name: tuple(x.shape) for name, x in model.state_dict().items()}


def test_a_model_with_more_than_ours_comes_back(build, tmp_path):
    class Larger(ns.StreamModel):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            self.more = torch.nn.Linear(2, 3)

    model = Larger(build("full").config)
    model.save_pretrained(tmp_path)
    assert torch.equal(Larger.from_pretrained(tmp_path).more.weight, model.more.weight)
    with pytest.raises(ValueError, match=r"it has more\.bias, more\.weight, which a model with this config lacks"):
        ns.StreamModel.from_pretrained(tmp_path)

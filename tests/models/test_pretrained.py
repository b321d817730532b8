"""Saving and loading models: contents, files and errors. No test uses the network."""

import json
import pickle
import sys

import huggingface_hub
import pytest
import safetensors.torch
import torch

import nystream as ns
from nystream.models import pretrained

INFO = ns.ModelInfo(
    task="forecasting",
    inputs=("wind", "sun", "hour", "day", "Außentemperatur"),
    labels=("load", "price", "電力"),
    units=("MW", "€/MWh", "MW"),
    horizon=4,
    seconds=900.0,
)


def randn(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=torch.float64).to(dtype)


def reload(model, folder):
    model.save_pretrained(folder)
    return ns.StreamModel.from_pretrained(folder)


def same(a, b):
    """Bit for bit, NaN for NaN."""
    ours, theirs = a.state_dict(), b.state_dict()
    return ours.keys() == theirs.keys() and all(
        x.dtype == theirs[name].dtype and torch.allclose(x, theirs[name], rtol=0, atol=0, equal_nan=True)
        for name, x in ours.items()
    )


@pytest.fixture
def folder(build, tmp_path):
    """A folder with a model in it."""
    build("co-fixed-single", info=INFO).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def rewrite(folder, change):
    """Change fields of `config.json`."""
    path = folder / "config.json"
    written = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(change(written) or written), encoding="utf-8")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("variant", ns.VARIANTS)
@torch.no_grad()
def test_a_model_comes_back_bit_by_bit(build, tmp_path, variant, dtype):
    model = build(variant, 2, dtype, positions="sinusoidal" if dtype == torch.float32 else "learned")
    other, x = reload(model, tmp_path), randn(2, 15, 5, dtype=dtype)
    assert same(other, model)
    assert other.config == model.config
    assert not other.training
    assert torch.equal(other(x[:, :6]), model(x[:, :6]))
    assert torch.equal(other.steps(x, other.init_state(2))[0], model.steps(x, model.init_state(2))[0])


@torch.no_grad()
def test_a_deep_model_of_many_configs_comes_back(build, tmp_path):
    sizes = {"embed_dim": 8, "num_heads": 2}
    blocks = (
        ns.AttentionConfig("co-cont-single", window=6, landmarks=4, pinv="ridge", pinv_ridge=0.3, **sizes),
        ns.AttentionConfig("co-full-single", window=3, bias=False, **sizes),
        ns.AttentionConfig("co-fixed-single", window=9, landmarks=2, pinv="exact", sums="partials", **sizes),
    )
    options = {"norm": "post", "final_norm": False, "activation": "relu", "dropout": 0.1, "norm_eps": 1e-6}
    model, x = build(blocks, stack="deep", num_positions=7, **options), randn(2, 20, 5)
    other = reload(model, tmp_path)
    assert other.config == model.config
    assert torch.equal(other(x), model(x))


@pytest.mark.parametrize("embedded", [False, True])
def test_a_linear_path_comes_back(build, tmp_path, embedded):
    linear = ns.LinearConfig(segments=(1, 1, 9), inputs=2, embedded=embedded)
    model = build(stack="deep", linear=linear, dtype=torch.float32)
    torch.nn.init.normal_(model.linear.weight)
    model.save_pretrained(tmp_path)
    again = ns.StreamModel.from_pretrained(tmp_path)
    assert again.config == model.config
    x = torch.randn(2, 15, 5)
    assert torch.equal(again.steps(x, again.init_state(2))[0], model.steps(x, model.init_state(2))[0])
    fields = json.loads((tmp_path / "config.json").read_text())
    fields["config"]["linear"]["segments"] = [1, 1, 1, 9]
    (tmp_path / "config.json").write_text(json.dumps(fields))
    with pytest.raises(ValueError, match=r"linear.weight is \[3, 9\], but the config needs \[3, 11\]"):
        ns.StreamModel.from_pretrained(tmp_path)


@pytest.mark.parametrize("cast", [torch.bfloat16, torch.float64])
@torch.no_grad()
def test_a_model_that_was_cast_there_and_back_comes_back_as_it_is(build, tmp_path, cast):
    """Tensors that are not saved must be the same when they are created again."""
    model = build("co-fixed-single", 2, torch.float32, positions="sinusoidal").to(cast).to(torch.float32)
    other, x = reload(model, tmp_path), randn(2, 6, 5, dtype=torch.float32)
    assert torch.equal(other(x), model(x))


@torch.no_grad()
def test_the_default_dtype_of_the_moment_does_not_matter(build, tmp_path):
    model, x = build(positions="sinusoidal"), randn(2, 6, 5)
    model.save_pretrained(tmp_path)
    torch.set_default_dtype(torch.float64)
    try:
        other = ns.StreamModel.from_pretrained(tmp_path)
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(other(x), model(x))


def test_landmarks_that_were_not_fitted_are_still_to_be_fitted(build, tmp_path):
    model = build("co-fixed-single", 2, fit=False)
    model.encoder.blocks[0].attention.set_landmarks(torch.randn(2, 3, 4), torch.randn(2, 3, 4))
    other = reload(model, tmp_path)
    assert same(other, model)
    with pytest.raises(RuntimeError, match="'co-fixed-single' has no landmarks yet"):
        other(randn(2, 6, 5))
    other.encoder.blocks[1].attention.set_landmarks(torch.randn(2, 3, 4), torch.randn(2, 3, 4))
    other(randn(2, 6, 5))


def test_landmarks_that_were_learned_come_back(build, tmp_path):
    model, x = build(), randn(2, 6, 5)
    model.encoder.blocks[0].attention.learn_landmarks()
    assert torch.equal(reload(model, tmp_path)(x), model(x))


def test_what_belongs_to_a_model_travels_with_it(build, tmp_path):
    model, x = build(info=INFO), randn(2, 6, 5)
    model.input_scaler.fit(300 + 40 * randn(50, 5))
    model.output_scaler.set(randn(3), randn(3).exp())
    other = reload(model, tmp_path)
    assert other.info == INFO
    assert torch.equal(other.input_scaler.mean, model.input_scaler.mean)
    assert torch.equal(other.output_scaler.scale, model.output_scaler.scale)
    assert torch.equal(other(x), model(x))


def test_a_stream_goes_on_in_a_model_that_was_loaded(build, tmp_path):
    model, x = build("co-cont-single", 2), randn(2, 9, 5)
    with torch.no_grad():
        _, state = model.steps(x, model.init_state(2))
    ns.save_state(tmp_path / "state.safetensors", state, model)
    other = reload(model, tmp_path / "model")
    there = ns.load_state(tmp_path / "state.safetensors", other)
    assert torch.equal(other.step(x[:, 0], there)[0], model.step(x[:, 0], state)[0])


def test_what_is_written(folder):
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "config.json", "model.safetensors"]
    text = (folder / "config.json").read_text(encoding="utf-8")
    assert "電力" in text  # names can be read in the file
    written = json.loads(text)
    assert set(written) == {"format", "nystream", "config", "info"}
    assert written["format"] == 1
    assert written["nystream"] == ns.__version__
    assert ns.ModelConfig.from_dict(written["config"]).window == 6
    assert ns.ModelInfo.from_dict(written["info"]) == INFO
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    assert set(tensors) == set(ns.StreamModel.from_pretrained(folder).state_dict())


def test_no_pickle_anywhere(build, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("pickle was used")

    for module, names in (
        (pickle, ("dump", "dumps", "load", "loads", "Pickler", "Unpickler")),
        (torch, ("save", "load")),
    ):
        for name in names:
            monkeypatch.setattr(module, name, refuse)
    reload(build(), tmp_path)
    monkeypatch.undo()
    for path in tmp_path.iterdir():
        with pytest.raises((pickle.UnpicklingError, ValueError, KeyError, EOFError, IndexError)):
            pickle.loads(path.read_bytes())


def test_the_card_says_how_to_load_it(folder):
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert card.startswith("---\n")
    assert "library_name: nystream" in card
    assert "ns.StreamModel.from_pretrained(" in card
    data = huggingface_hub.ModelCard(card).data
    assert data.library_name == "nystream"
    assert {"streaming", "nystrom"} <= set(data.tags)


def test_a_folder_is_made_and_a_path_is_a_path(build, tmp_path, monkeypatch):
    model = build()
    model.save_pretrained(tmp_path / "some" / "where")
    assert same(ns.StreamModel.from_pretrained(str(tmp_path / "some" / "where")), model)
    monkeypatch.chdir(tmp_path)
    for name in ("some/where", "./some/where", "some/../some/where/"):
        assert same(ns.StreamModel.from_pretrained(name), model)


def test_a_model_replaces_the_one_that_was_there(build, folder):
    (folder / "README.md").write_text("written by hand", encoding="utf-8")
    model = build("full", 1)
    assert same(reload(model, folder), model)
    assert ns.StreamModel.from_pretrained(folder).config == model.config
    assert (folder / "README.md").read_text(encoding="utf-8") == "written by hand"
    assert len(list(folder.iterdir())) == 3


@pytest.mark.parametrize("partly", [False, True], ids=["nothing written", "half written"])
def test_a_model_that_is_there_stays_if_writing_fails(build, folder, monkeypatch, partly):
    before = ns.StreamModel.from_pretrained(folder)

    def full_disk(_, path, *__):
        if partly:
            path.write_bytes(b"half")
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(safetensors.torch, "save_file", full_disk)
        with pytest.raises(OSError, match="no space left"):
            build("full", 1).save_pretrained(folder)
    assert same(ns.StreamModel.from_pretrained(folder), before)
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "config.json", "model.safetensors"]


def test_a_file_is_not_a_folder(build, tmp_path):
    path = tmp_path / "model"
    path.write_text("something else")
    with pytest.raises(FileExistsError):
        build().save_pretrained(path)
    assert path.read_text() == "something else"


def refused(folder, error, *words):
    with pytest.raises(error) as caught:
        ns.StreamModel.from_pretrained(folder)
    for word in words:
        assert word in str(caught.value), f"{word!r} is not in: {caught.value}"


def test_a_newer_format_says_what_to_do(folder):
    rewrite(folder, lambda written: written.update(format=2, nystream="7.0"))
    words = ("config.json", "nystream 7.0", "format 2", "formats up to 1", "install a newer version")
    refused(folder, ValueError, *words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda w: w.update(later=1), ("unknown fields: later",)),
        (lambda w: w["config"].update(rotary=True), ("config has unknown fields: rotary", "newer version")),
        (lambda w: w["info"].update(colour="red"), ("info has unknown fields: colour",)),
        (lambda w: w["config"].pop("input_dim") and None, ("input_dim",)),
        (lambda w: w.pop("config") and None, ("config is None", "ModelConfig")),
        (lambda w: w["config"]["attention"].update(variant="co-new"), ("variant='co-new'", "co-fixed-single")),
        (lambda w: w["info"].update(labels=["a"]), ("info.labels has 1 names", "output_dim is 3")),
        (lambda w: w.pop("format") and None, ("not the config of a nystream model", "save_pretrained")),
        (lambda w: w.update(format="1"), ("not the config of a nystream model",)),
        (lambda w: w.update(format=0), ("not the config of a nystream model",)),
        (lambda w: [w], ("not the config of a nystream model",)),
    ],
)
def test_a_config_that_is_not_understood_is_refused(folder, change, words):
    rewrite(folder, change)
    refused(folder, ValueError, str(folder / "config.json"), *words)


@pytest.mark.parametrize("content", [b"", b"{", b'{"format": 1,}', b"\xff\xfe", b"null", b"[]"])
def test_broken_json_is_refused_by_name(folder, content):
    (folder / "config.json").write_bytes(content)
    refused(folder, ValueError, str(folder / "config.json"))


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.999])
def test_weights_that_were_cut_off_are_refused_by_name(folder, share):
    path = folder / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    refused(folder, ValueError, str(path), "cannot be read as a safetensors file")


def test_weights_that_are_a_pickle_are_refused(folder):
    torch.save({"weight": torch.zeros(2)}, folder / "model.safetensors")
    refused(folder, ValueError, "model.safetensors cannot be read as a safetensors file")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda w: w["config"].update(layers=3), ("encoder.blocks.2.",)),
        (lambda w: w["config"].update(layers=1), ("encoder.blocks.1.",)),
        (lambda w: w["config"].update(ff_dim=13), ("linear1.weight", "[12, 8]", "[13, 8]")),
        (lambda w: w["config"].update(num_positions=7), ("positions.table", "[6, 8]", "[7, 8]")),
        (lambda w: w["config"]["attention"].update(landmarks=2), ("q_tilde",)),
        (lambda w: w["config"]["attention"].update(variant="co-cont-single"), ("q_tilde",)),
    ],
)
def test_weights_of_another_config_are_refused_with_what_differs(folder, build, change, words):
    build("co-fixed-single", 2).save_pretrained(folder)
    rewrite(folder, change)
    refused(folder, ValueError, "model.safetensors does not match", "config.json", *words)


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors"])
def test_a_folder_that_lacks_a_file_is_named(folder, missing):
    (folder / missing).unlink()
    refused(folder, FileNotFoundError, str(folder), f"has no {missing}", "save_pretrained")


def test_an_option_that_is_not_known_is_refused(folder):
    for options in ({"dtype": torch.float32}, {"strict": False}):
        with pytest.raises(TypeError, match=rf"unexpected options: {next(iter(options))}; it takes device"):
            ns.StreamModel.from_pretrained(folder, **options)


def test_saving_without_huggingface_hub_says_what_is_missing(build, monkeypatch, tmp_path):
    """Models can be trained, streamed and loaded without huggingface-hub."""
    source = pretrained.__file__
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    names = {"__name__": "alone", "__file__": source}
    with open(source, encoding="utf-8") as file:
        exec(compile(file.read(), source, "exec"), names)

    class Model(names["Pretrained"]):
        pass

    with pytest.raises(ModuleNotFoundError, match="save_pretrained needs huggingface-hub: pip install huggingface-hub"):
        Model().save_pretrained(tmp_path / "model")

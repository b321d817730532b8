"""`export_onnx` writes files that `OnnxStream` runs, with the numbers of a pool and snapshots for one."""

import copy
import json
import subprocess
import sys

import numpy as np
import onnx
import pytest
import torch

import nystream as ns
from nystream.export import client

MODELS = {
    "fixed": {},
    "full, groups": {"variant": "co-full-single", "window": 12, "update_size": 3, "decay": True},
    "continual": {"variant": "co-cont-single", "layers": 2, "pinv": "ridge"},
    "linear path": {"layers": 2, "linear": ns.LinearConfig(segments=(1, 4, 2), embedded=True)},
    "long": {"window": 45, "decay": True},
}
TRACED = {
    "paper, fixed": {"stack": "paper", "layers": 2},
    "paper, continual": {"variant": "co-cont-single", "stack": "paper", "layers": 2},
    "paper, full": {"variant": "co-full-single", "stack": "paper", "layers": 2},
    "continual, groups": {"variant": "co-cont-single", "window": 12, "update_size": 3},
}


@pytest.fixture
def exported(build, tmp_path):
    def exported(streams=1, options=None, **written):
        model = build(**(options or {}))
        return model, ns.OnnxStream(ns.export_onnx(model, tmp_path / "model.onnx", **written), streams)

    return exported


def in_groups(x, r):
    return x if r == 1 else x.reshape(-1, r, x.shape[-1])


def check(model, stream, x):
    """The numbers of a pool, while the stream moves between it and the exported model all the time."""
    pool = ns.StreamPool(model, backend="auto" if model.config.cascade else "torch")
    sid = pool.open()
    for k, token in enumerate(in_groups(x, model.config.update_size)):
        np.testing.assert_allclose(stream.push(token, 1), pool.push(sid, token), atol=1e-5)
        if k % 7 == 3:
            stream.restore(pool.snapshot(sid), 1)
        if k % 11 == 5:
            sid = pool.restore(stream.snapshot(1))
        assert stream.times == (0, pool.time(sid))


@pytest.mark.usefixtures("short_blocks")
@pytest.mark.parametrize("name", MODELS)
def test_streams_move_between_a_pool_and_an_exported_model(exported, tokens, name):
    model, stream = exported(2, MODELS[name])
    check(model, stream, tokens(150, 5))


@pytest.mark.usefixtures("short_blocks")
@pytest.mark.parametrize("name", MODELS)
def test_many_tokens_at_once(exported, tokens, outputs, name):
    model, stream = exported(2, MODELS[name])
    r, x = model.config.update_size, tokens(2, 90, 5)
    y = np.concatenate([stream.extend(part) for part in np.split(x, [3 * r, 4 * r, 4 * r, 60], axis=1)], 1)
    for row in range(2):
        np.testing.assert_allclose(y[row], outputs(model, x[row]), atol=1e-5)
    more = tokens(2 * r, 5)
    np.testing.assert_allclose(stream.extend(more, 1), outputs(model, np.concatenate([x[1], more]))[90:], atol=1e-5)
    assert stream.times == (90, 90 + 2 * r)


@pytest.mark.slow
@pytest.mark.parametrize("name", TRACED)
def test_models_that_torch_traces(exported, tokens, outputs, name):
    model, stream = exported(2, TRACED[name])
    assert not stream.card["in_place"]
    x = tokens(60, 5)
    check(model, stream, x)
    stream.reset(1)
    np.testing.assert_allclose(stream.extend(x, 1), outputs(model, x), atol=1e-5)


def test_streams_are_independent(exported, tokens, outputs):
    model, stream = exported(3)
    x = tokens(3, 20, 5)
    for k in range(20):
        stream.push(x[:, k])
    np.testing.assert_allclose(stream.push_many([2, 0], x[[2, 0], 0]), [
        outputs(model, np.concatenate([x[row], x[row, :1]]))[-1] for row in (2, 0)
    ], atol=1e-5)  # fmt: skip
    assert stream.times == (21, 20, 21)
    stream.reset(1)
    np.testing.assert_allclose(stream.push(x[1, 0], 1), outputs(model, x[1, :1])[0], atol=1e-5)
    stream.reset()
    assert stream.times == (0, 0, 0)


def test_light_weights_change_little(build, tmp_path, tokens, outputs):
    model, x = build(embed_dim=64, num_heads=4, ff_dim=128, layers=2), tokens(50, 5)
    paths = [ns.export_onnx(model, tmp_path / f"{w}.onnx", weights=w) for w in ("float32", "int8")]
    assert paths[1].stat().st_size < 0.6 * paths[0].stat().st_size
    wanted = outputs(model, x)
    for y in (ns.OnnxStream(paths[1]).extend(x), np.stack([*map(ns.OnnxStream(paths[1]).push, x[:1])])):
        error = np.abs(y - wanted[: len(y)]).max() / wanted.std()
        assert 0 < error < 0.05


def test_streams_with_light_weights_are_independent(build, tmp_path, tokens):
    """Inputs are rounded row by row, so a large one does not make its neighbours coarse."""
    path = ns.export_onnx(build(embed_dim=64, num_heads=4), tmp_path / "model.onnx", weights="int8")
    alone, together = ns.OnnxStream(path), ns.OnnxStream(path, streams=3)
    x = tokens(20, 3, 5) * np.float32([1, 100, 1e4])[:, None]
    for row in x:
        np.testing.assert_allclose(together.push(row)[0], alone.push(row[0]), atol=1e-5)


def test_the_card_says_what_a_client_needs(build, tmp_path):
    model = build()
    model.info = ns.ModelInfo("classification", labels=("a", "b", "c"), seconds=0.25)
    path = ns.export_onnx(model, tmp_path / "model.onnx")
    card = json.loads((tmp_path / "model.json").read_text())
    assert card == ns.OnnxStream(path).card
    assert card["info"]["labels"] == ["a", "b", "c"]
    assert card["answer"] == {"kind": "logits", "probabilities": "softmax"}
    assert card["x"] == {"name": "x", "dtype": "float32", "shape": ["streams", 5]}
    assert (card["window"], card["receptive_field"], card["update_size"]) == (7, 7, 1)
    graph = onnx.load(path).graph
    states = [(spec["input"], spec["output"]) for spec in card["states"]]
    assert [value.name for value in graph.input] == ["x", *(before for before, _ in states)]
    assert [value.name for value in graph.output] == ["y", *(after for _, after in states)]
    for spec in card["states"]:
        assert spec["initial"] == ("-inf" if "logit" in spec["input"] else 0)


def test_the_client_needs_neither_torch_nor_nystream(build, tmp_path, tokens, outputs):
    model, x = build(), tokens(10, 5)
    ns.export_onnx(model, tmp_path / "model.onnx", client_file=True)
    np.save(tmp_path / "x.npy", x)
    code = (
        "import sys, numpy as np; from onnx_stream import OnnxStream; s = OnnxStream('model.onnx');"
        "np.save('y.npy', np.stack([s.push(x) for x in np.load('x.npy')]));"
        "assert not {'torch', 'nystream', 'onnx'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), outputs(model, x), atol=1e-5)


def test_bad_models_and_paths(build, tmp_path):
    with pytest.raises(TypeError, match="model is a Linear, but must be a StreamModel"):
        ns.export_onnx(torch.nn.Linear(2, 2), tmp_path / "model.onnx")
    with pytest.raises(ValueError, match=r"must end in \.onnx"):
        ns.export_onnx(build(), tmp_path / "model")
    with pytest.raises(FileNotFoundError, match="its folder does not exist"):
        ns.export_onnx(build(), tmp_path / "nowhere" / "model.onnx")
    with pytest.raises(ValueError, match=r"is bfloat16, but an exported model must be float32.*model\.float\(\)"):
        ns.export_onnx(build().bfloat16(), tmp_path / "model.onnx")
    with pytest.raises(ValueError, match="weights"):
        ns.export_onnx(build(), tmp_path / "model.onnx", weights="int4")
    with pytest.raises(ValueError, match="not supported for this model"):
        ns.export_onnx(build(stack="paper", layers=2), tmp_path / "model.onnx", weights="int8")
    with pytest.raises(RuntimeError, match="has no landmarks yet"):
        ns.export_onnx(ns.StreamModel(build().config), tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def changed(path, change):
    """Write a model whose card differs."""
    model = onnx.load(path)
    card = json.loads(model.metadata_props[0].value)
    model.metadata_props[0].value = json.dumps(change(card))
    onnx.save(model, path)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:1000]), "cannot be opened by ONNX Runtime"),
        (lambda path: path.write_text("hello"), "cannot be opened by ONNX Runtime"),
        (lambda path: changed(path, lambda card: card | {"window": 8}), "has been changed"),
        (lambda path: changed(path, lambda card: card | {"version": 2}), "newer nystream"),
        (lambda path: changed(path, lambda card: [card]), "cannot be read; export the model again"),
        (lambda path: changed(path, lambda card: card | {"format": "other"}), "is not a card of nystream-onnx"),
    ],
    ids=["truncated", "no model", "edited", "newer", "no card", "other format"],
)
def test_bad_files(build, tmp_path, spoil, message):
    path = ns.export_onnx(build(), tmp_path / "model.onnx")
    spoil(path)
    with pytest.raises(ValueError, match=message):
        ns.OnnxStream(path)


def test_files_that_are_not_ours(build, tmp_path):
    path = ns.export_onnx(build(), tmp_path / "model.onnx")
    model = onnx.load(path)
    del model.metadata_props[:]
    onnx.save(model, path)
    with pytest.raises(ValueError, match="was not written by nystream"):
        ns.OnnxStream(path)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        ns.OnnxStream(tmp_path / "other.onnx")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        ns.OnnxStream(tmp_path)


def test_graphs_of_different_exports(build, tmp_path, tokens):
    path = ns.export_onnx(build(), tmp_path / "model.onnx")
    chunk = (tmp_path / "model.chunk.onnx").read_bytes()
    ns.export_onnx(build(seed=1), path)
    (tmp_path / "model.chunk.onnx").write_bytes(chunk)
    with pytest.raises(ValueError, match="is of another export"):
        ns.OnnxStream(path).extend(tokens(3, 5))


def test_without_the_graph_for_many_tokens(build, tmp_path, tokens, outputs):
    model, x = build(), tokens(30, 5)
    path = ns.export_onnx(model, tmp_path / "model.onnx")
    (tmp_path / "model.chunk.onnx").unlink()
    np.testing.assert_allclose(ns.OnnxStream(path).extend(x), outputs(model, x), atol=1e-5)
    ns.export_onnx(model, path)
    with pytest.raises(ValueError, match=r"takes many tokens at once; open model\.onnx"):
        ns.OnnxStream(tmp_path / "model.chunk.onnx")
    assert "chunk" not in ns.OnnxStream(ns.export_onnx(model, path, chunk=False)).card["files"]
    assert not (tmp_path / "model.chunk.onnx").exists()  # it would be that of an earlier export


@pytest.mark.parametrize("ridge", [1e-5, 1e-3, 0.1])
def test_a_small_ridge_does_not_magnify_rounding(build, tmp_path, tokens, ridge):
    """Compared with the model in float64: as close as the model in float32 is."""
    model = build("co-cont-single", window=16, landmarks=4, pinv="ridge", pinv_ridge=ridge)
    x = tokens(80, 5)
    wide = copy.deepcopy(model).double()
    wanted = wide.steps(torch.from_numpy(x).double()[None], wide.init_state(1))[0][0].numpy()
    usual = model.steps(torch.from_numpy(x)[None], model.init_state(1))[0][0].numpy()
    y = ns.OnnxStream(ns.export_onnx(model, tmp_path / "model.onnx")).extend(x)
    assert np.abs(y - wanted).max() <= 10 * np.abs(usual - wanted).max() + 1e-5


def test_bad_tokens_change_nothing(exported, tokens, outputs):
    model, stream = exported(2)
    x = tokens(12, 5)
    for k, token in enumerate(x):
        if k == 6:
            for bad, message in (
                (np.full(5, np.nan), "not finite; no stream was changed"),
                (np.zeros(4), r"x is \[4\], but must be \[5\]"),
                (["a"] * 5, "cannot be converted"),
                ([[1], [1, 2]], "cannot be converted"),
            ):
                with pytest.raises((ValueError, TypeError), match=message):
                    stream.push(bad, 1)
            with pytest.raises(ValueError, match="stream is missing"):
                stream.push(token)
            with pytest.raises(ValueError, match="stream=2 must be a whole number from 0 to 1"):
                stream.push(token, 2)
            with pytest.raises(ValueError, match="has a stream twice"):
                stream.push_many([1, 1], np.zeros((2, 5)))
            with pytest.raises(ValueError, match=r"x is \[3, 4\], but must be \[tokens, 5\]"):
                stream.extend(np.zeros((3, 4)), 1)
        np.testing.assert_allclose(stream.push(token, 1), outputs(model, x)[k], atol=1e-5)


def repacked(blob, **changes):
    """A snapshot with other metadata, and a checksum that fits."""
    leaves, meta = client._unpacked(blob)
    meta = {key: text for key, text in (meta | changes).items() if text is not None and key != "checksum"}
    return client._packed(leaves, meta | {"checksum": client._checksum(leaves, meta)})


def test_bad_snapshots_change_nothing(exported, build, tokens):
    model, stream = exported()
    for token in tokens(9, 5):
        stream.push(token)
    blob = stream.snapshot()
    other = ns.StreamPool(build(seed=1))
    with pytest.raises(ValueError, match="other weights"):
        stream.restore(other.snapshot(other.open()))
    wider = ns.StreamPool(build(window=8))
    with pytest.raises(ValueError, match="another config"):
        stream.restore(wider.snapshot(wider.open()))
    with pytest.raises(ValueError, match="cannot be read"):
        stream.restore(blob[:-10])
    with pytest.raises(ValueError, match="the snapshot is 'nystream-state-9'"):
        stream.restore(repacked(blob, format="nystream-state-9"))
    with pytest.raises(ValueError, match="another config"):
        stream.restore(repacked(blob, fingerprint=None))
    with pytest.raises(ValueError, match="do not match its checksum"):
        stream.restore(blob[:-1] + bytes([blob[-1] ^ 1]))
    with pytest.raises(TypeError, match="must be the bytes"):
        stream.restore("snapshot")
    assert stream.snapshot() == blob
    assert ns.StreamPool(model).restore(blob) == 0

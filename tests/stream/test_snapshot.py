"""Snapshots: their contents, where they can be restored, and which of them raise an error."""

import json

import numpy as np
import pytest
import safetensors
import safetensors.torch
import torch

import nystream as ns
from nystream import state as states
from nystream import times
from nystream.stream.snapshot import fingerprint


def pool_of(model, capacity=2):
    return ns.StreamPool(model, capacity, "torch")


def fed(streams, x):
    """A stream that has read the tokens."""
    sid = streams.open()
    for token in x:
        streams.push(sid, token)
    return sid


def opened(blob):
    """(tensors, metadata) of a safetensors file."""
    size = int.from_bytes(blob[:8], "little")
    return safetensors.torch.load(blob), json.loads(blob[8 : 8 + size])["__metadata__"]


@pytest.fixture
def model(build):
    return build("co-cont-single", window=7, sums="partials")


@pytest.fixture
def blob(model, tokens):
    streams = pool_of(model)
    return streams.snapshot(fed(streams, tokens(9, 5)))


@pytest.mark.parametrize("length", [0, 1, 7, 10])
def test_a_stream_goes_on_from_its_snapshot_to_the_bit(model, tokens, length):
    streams, x = pool_of(model), tokens(20, 5)
    sid = fed(streams, x[:length])
    blob = streams.snapshot(sid)
    again, elsewhere = streams.restore(blob), pool_of(model)
    there = elsewhere.restore(blob)
    assert streams.snapshot(again) == elsewhere.snapshot(there) == blob
    assert streams.time(again) == elsewhere.time(there) == length
    for token in x[length:]:
        expected = streams.push(sid, token)
        np.testing.assert_array_equal(streams.push(again, token), expected)
        np.testing.assert_array_equal(elsewhere.push(there, token), expected)


def test_it_is_the_state_of_the_model(model, blob, tokens):
    state = model.init_state(1)
    with torch.no_grad():
        for token in tokens(9, 5):
            _, state = model.step(torch.from_numpy(token)[None], state)
    tensors, metadata = opened(blob)
    assert set(tensors) == {name for name, _ in states.named_leaves(state)}
    for name, leaf in states.named_leaves(state):
        torch.testing.assert_close(tensors[name], leaf)
    assert metadata["format"] == "nystream-state-2"
    assert metadata["fingerprint"] == model.config.fingerprint
    assert ns.ModelConfig.from_dict(json.loads(metadata["config"])) == model.config
    assert metadata["weights"] == fingerprint(model)


def test_the_same_state_gives_the_same_bytes(model, tokens):
    blobs = set()
    for _ in range(5):
        streams = pool_of(model)
        blobs.add(streams.snapshot(fed(streams, tokens(9, 5))))
    assert len(blobs) == 1


def test_a_snapshot_in_a_file_is_a_state_for_the_model(model, blob, tokens, tmp_path):
    path = tmp_path / "stream.safetensors"
    path.write_bytes(blob)
    state = ns.load_state(path, model)
    assert state.time.tolist() == [9]
    streams = pool_of(model)
    sid, token = streams.restore(blob), tokens(5, seed=1)
    with torch.no_grad():
        y, _ = model.step(torch.from_numpy(token)[None], state)
    np.testing.assert_allclose(streams.push(sid, token), y[0].numpy(), atol=1e-6)


def test_a_state_in_a_file_is_a_stream_for_the_pool(model, tokens, tmp_path):
    x, path = torch.from_numpy(tokens(1, 11, 5)), tmp_path / "stream.safetensors"
    with torch.no_grad():
        _, state = model.steps(x[:, :10], model.init_state(1))
        y, _ = model.step(x[:, 10], state)
    ns.save_state(path, state, model)
    streams = pool_of(model)
    sid = streams.restore(path.read_bytes())
    np.testing.assert_allclose(streams.push(sid, x[0, 10]), y[0].numpy(), atol=1e-6)
    ns.save_state(path, states.stack([state, state]), model)
    with pytest.raises(ValueError, match=r"the snapshot has 2 streams, but must have one"):
        streams.restore(path.read_bytes())


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_bytes_of_any_kind(model, blob, kind):
    assert pool_of(model).restore(kind(blob)) == 0


def check_refused(streams, blob, error, match):
    """Restoring raises an error, opens no stream and loses no slot."""
    before = streams.ids, streams.capacity
    for _ in range(3):
        with pytest.raises(error, match=match):
            streams.restore(blob)
    assert (streams.ids, streams.capacity) == before
    for _ in range(streams.capacity - len(streams)):
        streams.open()
    assert streams.capacity == before[1]


def test_another_config_is_refused_with_what_differs(build, blob):
    other = build("co-cont-single", window=7, sums="partials", norm="post")
    match = r"the snapshot belongs to another config: norm is 'pre' there and 'post' here"
    check_refused(pool_of(other), blob, ValueError, match)


def test_other_weights_are_refused(build, blob, model):
    other = build("co-cont-single", window=7, sums="partials", seed=5)
    check_refused(
        pool_of(other), blob, ValueError, r"the snapshot belongs to other weights \(\w{8}… there, \w{8}… here"
    )
    with torch.no_grad():
        model.head.bias[0] += 1e-3
    check_refused(pool_of(model), blob, ValueError, "other weights")


@pytest.mark.parametrize("blob", ["text", None, 3, [1, 2]])
def test_what_is_not_bytes_is_refused(model, blob):
    check_refused(pool_of(model), blob, TypeError, r"blob is a \w+, but must be the bytes that snapshot\(\) returned")


def test_bytes_that_were_cut_off_or_come_from_elsewhere_are_refused(model, blob):
    streams = pool_of(model)
    for bad in (b"", b"PK", b"\0" * 100, b"x" * 1000, blob[:7], blob[:100], blob[:-1], blob + b"x"):
        check_refused(streams, bad, ValueError, "the snapshot cannot be read as safetensors")
        streams = pool_of(model)
    foreign = safetensors.torch.save({"weight": torch.zeros(2)})
    check_refused(streams, foreign, ValueError, "the snapshot is not a nystream state")


def test_a_flipped_bit_is_noticed(model, blob):
    start = 8 + int.from_bytes(blob[:8], "little")
    for place in (start, (start + len(blob)) // 2, len(blob) - 1):
        damaged = bytearray(blob)
        damaged[place] ^= 1
        check_refused(pool_of(model), damaged, ValueError, "do not match its checksum; the file is damaged")


def test_a_flipped_bit_in_what_it_says_of_itself_is_noticed(build, blob):
    other = pool_of(build("co-cont-single", window=7, sums="partials", seed=5))
    for word in (b'"checksum"', b'"weights"', b'"config"', b'"fingerprint"', b'"format"', b"window"):
        damaged = bytearray(blob)
        damaged[blob.index(word) + 2] ^= 4
        for streams in (other, pool_of(build("co-cont-single", window=7, sums="partials"))):
            check_refused(streams, damaged, ValueError, "the file is damaged|is not a nystream state")


@pytest.mark.parametrize("variant", ["co-full-single", "co-cont-single", "co-fixed-single"])
def test_one_head_and_one_landmark(backend, variant):
    """Axes of size 1 may have any stride, which must not affect the bytes."""
    attn = ns.MultiheadAttention(ns.AttentionConfig(variant, embed_dim=8, num_heads=1, window=6, landmarks=1))
    if attn.config.fixed:
        attn.set_landmarks(torch.randn(1, 1, 8), torch.randn(1, 1, 8))
    streams = ns.StreamPool(attn, 2, backend)
    sid = fed(streams, np.ones((8, 8), np.float32))
    again = streams.restore(streams.snapshot(sid))
    np.testing.assert_array_equal(streams.push(again, np.ones(8)), streams.push(sid, np.ones(8)))


def changed(blob, change, metadata=None):
    """The snapshot with changed leaves and a matching checksum."""
    tensors, described = opened(blob)
    change(tensors)
    described = {**described, **(metadata or {})}
    described.pop("checksum")
    return safetensors.torch.save(tensors, {**described, "checksum": states.checksum(tensors, described)})


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda t: t.pop("blocks.0.ring_key"), r"lacks blocks\.0\.ring_key"),
        (lambda t: t.update({"blocks.0.ring_key": torch.zeros(1, 8, 2, 4)}), r"state\.blocks\.0\.ring_key is float32"),
        (lambda t: t.update({"blocks.0.ring_key": t["blocks.0.ring_key"].double()}), "ring_key is float64"),
        (lambda t: t.update({"blocks.0.time": torch.tensor(3)}), r"time is int64\[\], but .* needs int64\[1\]"),
        (lambda t: t.update({"blocks.0.time": torch.tensor([3.0])}), r"time is float32\[1\]"),
        (lambda t: t.update({"blocks.0.time": torch.tensor([3, 3])}), "leaves with different numbers of rows"),
        (lambda t: t.update({"blocks.0.time": torch.tensor([-1])}), r"blocks\.0\.time\[0\] = -1, but a time must be"),
    ],
)
def test_leaves_that_do_not_fit_are_refused(model, blob, change, match):
    check_refused(pool_of(model), changed(blob, change), ValueError, match)


@pytest.mark.parametrize("time", [times.LIMIT + 1, 2**62, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("variant", ["co-full-single", "co-cont-single", "co-fixed-single"])
def test_a_time_beyond_the_limit_is_refused_whatever_the_checksum_says(build, backend, tokens, variant, time):
    """The compiled kernels compute ring slots from the time without a check."""
    streams = ns.StreamPool(build(variant, window=7), 2, backend)
    blob = streams.snapshot(fed(streams, tokens(9, 5)))
    bad = changed(blob, lambda t: t.update({"blocks.0.time": torch.tensor([time])}))
    check_refused(streams, bad, ValueError, rf"blocks\.0\.time\[0\] = {time}, but a time must be between 0 and 2\*\*53")


@pytest.mark.parametrize("variant", ["co-full-single", "co-cont-single", "co-fixed-single"])
def test_at_the_limit_a_stream_goes_on(build, backend, tokens, variant):
    """The output is the same as at any other time of the same phase."""
    streams, x = ns.StreamPool(build(variant, window=6), 2, backend), tokens(40, 5)
    near = fed(streams, x[:20])
    assert (times.LIMIT - 20) % 12 == 0  # two windows: the period of all phases
    limit = {"blocks.0.time": torch.tensor([times.LIMIT])}
    far = streams.restore(changed(streams.snapshot(near), lambda t: t.update(limit)))
    for token in x[20:]:
        np.testing.assert_allclose(streams.push(far, token), streams.push(near, token), atol=1e-6)
    assert streams.time(far) == times.LIMIT + 20


def test_a_time_inside_a_group_is_refused(build, tokens):
    streams = pool_of(build(update_size=2))
    blob = streams.snapshot(fed(streams, tokens(2, 2, 5)))
    bad = changed(blob, lambda t: t.update({"blocks.0.time": torch.tensor([3])}))
    check_refused(streams, bad, ValueError, r"blocks\.0\.time\[0\] = 3, .* a multiple of update_size=2")


def test_blocks_at_different_times_are_refused(build, tokens):
    streams = pool_of(build("co-full-single", layers=2, stack="deep"))
    blob = streams.snapshot(fed(streams, tokens(3, 5)))
    bad = changed(blob, lambda t: t.update({"blocks.1.time": torch.tensor([2])}))
    match = r"blocks\.1\.time\[0\] = 2 and blocks\.0\.time\[0\] = 3, but .* at the same time"
    check_refused(streams, bad, ValueError, match)


def test_metadata_that_make_no_sense_are_refused(model, blob):
    for metadata in ({"fingerprint": "?"}, {"fingerprint": "?", "config": "{"}, {"fingerprint": "?", "config": "3"}):
        bad = changed(blob, lambda t: None, metadata)
        check_refused(pool_of(model), bad, ValueError, "the snapshot belongs to another config")


def test_a_failure_while_restoring_loses_no_slot(model, blob, monkeypatch):
    streams = pool_of(model)

    def fail(*_):
        raise RuntimeError("the device is gone")

    with monkeypatch.context() as patch:
        patch.setattr(streams._backend, "write", fail)
        for call in (lambda: streams.restore(blob), streams.open):
            with pytest.raises(RuntimeError, match="the device is gone"):
                call()
    assert [streams.open(), streams.restore(blob)] == [0, 1]
    assert streams.capacity == 2


def test_the_fingerprint_is_that_of_every_weight_and_nothing_else(build):
    model = build()
    before = fingerprint(model)
    assert fingerprint(build()) == before
    model.train()
    model.encoder.blocks[0].attention.learn_landmarks()
    assert fingerprint(model) == before
    assert fingerprint(build(dtype=torch.float64)) != before
    seen = {before}
    for name in model.state_dict():
        other = build()
        with torch.no_grad():
            other.state_dict()[name].view(-1)[0] += 1
        seen.add(fingerprint(other))
    assert len(seen) == len(model.state_dict()) + 1

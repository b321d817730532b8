"""Operations on states, files of states, and errors."""

import json

import pytest
import safetensors.torch
import torch

import nystream as ns
from nystream import state as states
from nystream import variants

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def build(variant="co-cont-single", dtype=torch.float64, **options):
    options = {"embed_dim": 8, "num_heads": 2, "window": 6, "landmarks": 3, **options}
    attn = ns.MultiheadAttention(ns.AttentionConfig(variant, **options), dtype=dtype).eval().requires_grad_(False)
    if attn.config.fixed:
        attn.set_landmarks(torch.randn(2, 3, 4), torch.randn(2, 3, 4))
    return attn


def streamed(attn, rows=3, tokens=8):
    """A state whose rows are all different."""
    x = torch.randn(rows, tokens, 8).to(attn.q_proj.weight)
    lengths = tokens - torch.arange(rows)
    return attn.steps(x, attn.init_state(rows), lengths=lengths)[1]


def same(a, b):
    """Bitwise equality, also of NaN."""
    pairs = zip(states.named_leaves(a), states.named_leaves(b), strict=True)
    return type(a) is type(b) and all(
        x.dtype == y.dtype and x.shape == y.shape and torch.allclose(x, y, rtol=0, atol=0, equal_nan=True)
        for (_, x), (_, y) in pairs
    )


@pytest.fixture(params=ns.VARIANTS)
def attn(request):
    return build(request.param)


def test_stack_joins_batches_in_order(attn):
    one, two = streamed(attn, rows=1, tokens=3), streamed(attn, rows=2, tokens=9)
    both = states.stack([one, two])
    assert type(both) is type(one)
    assert both.time.tolist() == [3, 9, 8]
    assert same(states.select(both, 0), one)
    assert same(states.select(both, slice(1, 3)), two)


def test_stack_needs_a_state():
    with pytest.raises(ValueError, match="states is empty; stack needs at least one state"):
        states.stack([])


@pytest.mark.parametrize(
    ("rows", "times"),
    [
        (1, [7]),
        (-1, [6]),
        (slice(None, 2), [8, 7]),
        ([2, 0], [6, 8]),
        ((0, 0), [8, 8]),
        (torch.tensor([0, 2]), [8, 6]),
        (torch.tensor([True, False, True]), [8, 6]),
        ([False, True, False], [7]),
        (torch.tensor([False, False, False]), []),
        (torch.tensor(1), [7]),
        ([], []),
    ],
)
def test_select_takes_an_index_a_slice_a_list_or_a_mask(rows, times):
    state = streamed(build())
    some = states.select(state, rows)
    assert some.time.tolist() == times
    assert all(leaf.shape[0] == len(times) for leaf in some)
    index = [state.time.tolist().index(time) for time in times]
    assert all(torch.equal(leaf, whole[index]) for leaf, whole in zip(some, state, strict=True))


def test_what_select_gives_shares_no_memory():
    state = streamed(build())
    kept = states.clone(state)
    for leaf in states.select(state, slice(None)):
        leaf.zero_()
    assert same(state, kept)


def test_no_rows_can_be_reset():
    attn = build()
    state = streamed(attn)
    assert same(attn.reset(state, []), state)


@pytest.mark.parametrize("rows", [1, slice(1, 2), [1], torch.tensor([1]), torch.tensor([False, True, False])])
def test_reset_renews_some_rows_and_leaves_the_others(attn, rows):
    state = streamed(attn)
    kept = states.clone(state)
    renewed = attn.reset(state, rows)
    assert same(states.select(renewed, 1), attn.init_state(1))
    assert same(states.select(renewed, [0, 2]), states.select(state, [0, 2]))
    assert same(state, kept)


def test_to_moves_every_leaf(attn):
    state = streamed(attn)
    assert all(leaf.device.type == "meta" for leaf in states.to(state, "meta"))
    assert same(states.to(state, torch.device("cpu")), state)


def test_clone_shares_no_memory_and_detach_cuts_the_graph(attn):
    attn.requires_grad_(True)
    state = streamed(attn)
    assert any(leaf.requires_grad for leaf in state)
    cut, copy = states.detach(state), states.clone(state)
    assert not any(leaf.requires_grad for leaf in cut)
    assert same(cut, state)
    pointers = {leaf.data_ptr() for leaf in state if leaf.numel()}
    assert not pointers & {leaf.data_ptr() for leaf in copy if leaf.numel()}


def test_nbytes_counts_every_leaf():
    n, d = 6, 8
    assert states.nbytes(build("co-full-single").init_state(5)) == 5 * (8 + 2 * n * d * 8)
    assert states.nbytes(build("full", torch.bfloat16).init_state(1)) == 8 + 3 * n * d * 2


LAYOUTS = [
    (v, pinv)
    for v in ns.VARIANTS
    for pinv in (("newton", "ridge", "none") if variants.get(v).landmarks == "stream" else ("newton",))
]


@pytest.mark.parametrize(("variant", "pinv"), LAYOUTS)
def test_leaves_lie_in_memory_as_a_file_keeps_them(variant, pinv):
    """Rounding depends on memory layout, so a resumed stream could differ in the last digit."""
    attn = build(variant, pinv=pinv)
    state = streamed(attn)
    for current in (attn.init_state(2), state, attn.step(torch.randn(3, 8, dtype=torch.float64), state)[1]):
        assert [name for name, leaf in states.named_leaves(current) if not leaf.is_contiguous()] == []


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_state_goes_through_a_file_bit_by_bit(attn, dtype, tmp_path):
    attn = attn.to(dtype)
    state = streamed(attn)
    ns.save_state(tmp_path / "stream.safetensors", state, attn)
    assert same(ns.load_state(tmp_path / "stream.safetensors", attn), state)
    assert [path.name for path in tmp_path.iterdir()] == ["stream.safetensors"]


def test_a_state_that_holds_a_nan_goes_through_a_file(attn, tmp_path):
    x = torch.randn(2, 8, 8, dtype=torch.float64)
    x[0, 5] = torch.nan
    _, state = attn.steps(x, attn.init_state(2))
    assert any(bool(leaf.isnan().any()) for leaf in state)
    path = str(tmp_path / "stream.safetensors")
    ns.save_state(path, state, attn)
    assert same(ns.load_state(path, attn), state)


def test_saving_again_replaces_the_file_and_a_failure_leaves_it(tmp_path, monkeypatch):
    attn, path = build(), tmp_path / "stream.safetensors"
    ns.save_state(path, streamed(attn, tokens=3), attn)
    state = streamed(attn)
    ns.save_state(path, state, attn)
    assert same(ns.load_state(path, attn), state)

    def full_disk(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(safetensors.torch, "save_file", full_disk)
    with pytest.raises(OSError, match="no space left"):
        ns.save_state(path, attn.init_state(1), attn)
    assert same(ns.load_state(path, attn), state)


def test_a_file_of_another_config_is_refused_with_the_fields_that_differ(tmp_path):
    path, attn = tmp_path / "stream.safetensors", build()
    ns.save_state(path, attn.init_state(1), attn)
    with pytest.raises(ValueError, match="belongs to another config: ") as caught:
        ns.load_state(path, build(window=9, pinv="ridge"))
    message = str(caught.value)
    assert str(path) in message
    assert message.endswith("window is 6 there and 9 here, pinv is 'newton' there and 'ridge' here")


def test_a_file_of_another_dtype_is_refused(tmp_path):
    path, attn = tmp_path / "stream.safetensors", build()
    ns.save_state(path, attn.init_state(2), attn)
    with pytest.raises(ValueError, match=r"state.ring_key is float64\[2, .*needs float32\[2, "):
        ns.load_state(path, build(dtype=torch.float32))


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_a_file_that_is_no_state_is_refused(tmp_path, metadata):
    path = tmp_path / "weights.safetensors"
    safetensors.torch.save_file({"weight": torch.zeros(2)}, path, metadata)
    with pytest.raises(ValueError, match=r"weights\.safetensors is not a nystream state, as written by save_state"):
        ns.load_state(path, build())


def test_a_file_that_lacks_a_leaf_is_refused(tmp_path):
    path, attn = tmp_path / "stream.safetensors", build()
    ns.save_state(path, attn.init_state(1), attn)
    with safetensors.safe_open(path, "pt") as file:
        metadata, tensors = file.metadata(), {name: file.get_tensor(name) for name in list(file.keys())[1:]}
    safetensors.torch.save_file(tensors, path, {key: metadata[key] for key in states.REQUIRED_KEYS})
    with pytest.raises(ValueError, match=r"lacks .*; the file is damaged"):
        ns.load_state(path, attn)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda tensors: tensors.update(more=torch.zeros(1)), "has 'more', which is not in a state of this config"),
        (lambda tensors: tensors["time"].fill_(-1), "has time\\[0\\] = -1, but a time must be between 0 and 2\\*\\*53"),
    ],
)
def test_a_file_without_a_checksum_is_not_believed_all_the_more(tmp_path, change, says):
    path, attn = tmp_path / "stream.safetensors", build()
    ns.save_state(path, attn.init_state(1), attn)
    tensors, metadata = saved(path)
    change(tensors)
    safetensors.torch.save_file(tensors, path, {key: metadata[key] for key in states.REQUIRED_KEYS})
    with pytest.raises(ValueError, match=says):
        ns.load_state(path, attn)


@pytest.mark.parametrize(("dtype", "size"), [("F4", 1), ("F6_E2M3", 3)])
def test_dtypes_that_torch_does_not_have_are_refused(tmp_path, dtype, size):
    entry = {"dtype": dtype, "shape": [2 if size == 1 else 4], "data_offsets": [0, size]}
    header = json.dumps({"time": entry, "__metadata__": {"format": states.FORMAT}}).encode()
    path = tmp_path / "stream.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(size))
    with pytest.raises(ValueError, match="the blob "):
        states.unpack(path.read_bytes(), build())
    with pytest.raises(ValueError, match=r"stream\.safetensors "):
        ns.load_state(path, build())


def test_a_config_that_is_nested_too_deeply_is_another_config(tmp_path):
    path, attn = tmp_path / "stream.safetensors", build()
    ns.save_state(path, attn.init_state(1), attn)
    tensors, metadata = saved(path)
    metadata = {"format": metadata["format"], "fingerprint": "0", "config": "[" * 10**5}
    safetensors.torch.save_file(tensors, path, metadata)
    with pytest.raises(ValueError, match="belongs to another config: its config cannot be read"):
        ns.load_state(path, attn)


def test_pack_and_unpack_are_the_file_without_the_file(attn, tmp_path):
    state, path = streamed(attn), tmp_path / "stream.safetensors"
    blob = states.pack(state, attn, weights="abc")
    assert same(states.unpack(blob, attn), state)
    assert states.pack(states.clone(state), attn, weights="abc", like=attn.init_state(1)) == blob
    assert states.metadata(blob)["weights"] == "abc"
    path.write_bytes(blob)
    assert same(ns.load_state(path, attn), state)
    ns.save_state(path, state, attn)
    assert same(states.unpack(path.read_bytes(), attn), state)


def test_unpack_names_what_it_was_given():
    attn = build()
    with pytest.raises(TypeError, match=r"^the blob is a str, but must be bytes"):
        states.unpack("text", attn)
    with pytest.raises(ValueError, match=r"^the message cannot be read as safetensors"):
        states.unpack(b"text", attn, source="the message")


def saved(path):
    """(tensors, metadata) of a file."""
    with safetensors.safe_open(path, "pt") as file:
        return {name: file.get_tensor(name) for name in list(file.keys())}, file.metadata()


def test_a_file_without_a_checksum_is_read_and_one_with_a_wrong_one_is_refused(tmp_path):
    path, attn = tmp_path / "stream.safetensors", build()
    state = streamed(attn)
    ns.save_state(path, state, attn)
    tensors, metadata = saved(path)
    assert set(metadata) == {*states.REQUIRED_KEYS, "checksum"}
    safetensors.torch.save_file(tensors, path, {**metadata, "checksum": "00000000"})
    with pytest.raises(ValueError, match=r"the contents of .*stream\.safetensors do not match its checksum"):
        ns.load_state(path, attn)
    metadata.pop("checksum")  # as older versions wrote them
    safetensors.torch.save_file(tensors, path, metadata)
    assert same(ns.load_state(path, attn), state)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"weigits": "abc"}, "unknown metadata 'weigits'"),
        ({"checksum": None, "chdcksum": "00000000"}, "unknown metadata 'chdcksum'"),
        ({"checksum": None, "weights": "abc"}, "lacks its checksum"),
        ({"config": None}, "lacks its config"),
        ({"fingerprint": None}, "lacks its fingerprint"),
        ({"weights": "abc"}, "do not match its checksum"),
        ({"config": "{}"}, "do not match its checksum"),
    ],
)
def test_what_a_file_says_of_itself_must_be_what_was_saved(tmp_path, change, words):
    path, attn = tmp_path / "stream.safetensors", build()
    ns.save_state(path, attn.init_state(1), attn)
    tensors, metadata = saved(path)
    metadata = {key: text for key, text in {**metadata, **change}.items() if text is not None}
    safetensors.torch.save_file(tensors, path, metadata)
    with pytest.raises(ValueError, match=words):
        ns.load_state(path, attn)


def test_a_bit_that_is_flipped_anywhere_is_noticed():
    attn = build(window=2, landmarks=1, embed_dim=2)
    blob = states.pack(attn.init_state(1), attn, weights="0123456789abcdef")
    for place in range(len(blob)):
        damaged = bytearray(blob)
        damaged[place] ^= 1 << place % 8
        with pytest.raises(ValueError):  # noqa: PT011, whatever the reason
            states.unpack(bytes(damaged), attn)


def test_strides_along_axes_of_size_one_do_not_matter():
    attn = build("co-cont-single", num_heads=1, landmarks=1)
    state = attn.init_state(1)

    def odd(x):
        return x.as_strided(x.shape, [7 if n == 1 else s for n, s in zip(x.shape, x.stride(), strict=True)])

    assert states.pack(states.map_state(odd, state), attn) == states.pack(state, attn)
    x = torch.arange(3.0).repeat_interleave(2)
    assert states.raw_bytes(x[::2]).tobytes() == x[::2].numpy().tobytes()
    assert states.raw_bytes(torch.ones(1).as_strided((1, 1), (5, 3))).tobytes() == b"\0\0\x80?"


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_file_that_was_cut_off_is_refused_by_name(tmp_path, share):
    path, attn = tmp_path / "stream.safetensors", build()
    ns.save_state(path, attn.init_state(1), attn)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match=r"stream\.safetensors"):
        ns.load_state(path, attn)


def test_a_file_that_is_missing_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.safetensors"):
        ns.load_state(tmp_path / "nowhere.safetensors", build())


@pytest.mark.parametrize("method", ["step", "steps"])
@pytest.mark.parametrize(
    ("other", "error", "words"),
    [
        (lambda: build("co-fixed-single").init_state(2), TypeError, ("FixedState", "'co-cont-single'", "ContState")),
        (lambda: tuple(build().init_state(2)), TypeError, ("tuple", "ContState", "init_state()")),
        (lambda: None, TypeError, ("NoneType", "ContState", "init_state()")),
        (lambda: build(window=9).init_state(2), ValueError, ("state.ring_key", "[2, 9, 2, 4]", "[2, 6, 2, 4]")),
        (lambda: build(landmarks=2).init_state(2), ValueError, ("state.landmarks", "another config")),
        (lambda: build(sums="partials").init_state(2), ValueError, ("state.part_max", "another config")),
        (lambda: build(dtype=torch.float32).init_state(2), ValueError, ("state.ring_key", "float32", "float64")),
        (lambda: build().init_state(3), ValueError, ("state.time has 3 rows", "x has 2")),
    ],
)
def test_a_stream_refuses_a_state_that_is_not_its_own(method, other, error, words):
    attn, x = build(), torch.randn(2, 4, 8, dtype=torch.float64)
    with pytest.raises(error) as caught:
        getattr(attn, method)(x if method == "steps" else x[:, 0], other())
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("batch_size", [0, -1, 2.0, None])
def test_a_batch_has_at_least_one_row(batch_size):
    with pytest.raises(ValueError, match=f"batch_size={batch_size} must be an integer from 1 to"):
        build().init_state(batch_size)


def test_a_state_of_another_module_is_not_saved(tmp_path):
    with pytest.raises(TypeError, match=r"state is a RingState, but MultiheadAttention needs a ContState"):
        ns.save_state(tmp_path / "x.safetensors", build("full").init_state(1), build("co-cont-single"))
    assert not list(tmp_path.iterdir())


def test_states_of_different_modules_are_not_stacked():
    with pytest.raises(TypeError, match=r"state is a RingState"):
        states.stack([build("co-cont-single").init_state(1), build("full").init_state(1)])
    with pytest.raises(ValueError, match=r"state\.ring_key is float32\[1, .* needs float64\[1, "):
        states.stack([build("co-cont-single").init_state(1), build("co-cont-single", torch.float32).init_state(1)])


def test_one_state_alone_is_not_a_list_of_states():
    with pytest.raises(TypeError, match=r"states is a single state, but stack needs a list of states"):
        states.stack(build("full").init_state(1))

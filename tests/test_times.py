"""The time of a state from a file or a user: an impossible time is an error, in every row and block."""

import re

import pytest
import safetensors.torch
import torch

import nystream as ns
from nystream import times

ATTENTION = ns.AttentionConfig("co-cont-single", embed_dim=8, num_heads=2, window=6, landmarks=3, update_size=2)
RANGE = "but a time must be between 0 and 2**53 and a multiple of update_size=2"


def built(kind):
    if kind == "attention":
        return ns.MultiheadAttention(ATTENTION)
    options = {"attention": ATTENTION, "layers": 2, "stack": kind}
    if kind == "paper":
        return ns.StreamEncoder(ns.EncoderConfig(**options))
    return ns.StreamModel(ns.ModelConfig(input_dim=8, output_dim=3, **options))


@pytest.fixture(params=["attention", "paper", "deep"])
def owner(request):
    return built(request.param)


@pytest.fixture
def saved(owner, tmp_path):
    """saved(state): a file of the state with a correct checksum, whatever its times."""

    def saved(state):
        path = tmp_path / "state.safetensors"
        ns.save_state(path, owner.init_state(3), owner)
        with safetensors.safe_open(path, "pt") as file:
            described = {key: text for key, text in file.metadata().items() if key != "checksum"}
        tensors = dict(ns.state.named_leaves(state))
        described["checksum"] = ns.state.checksum(tensors, described)
        safetensors.torch.save_file(tensors, path, described)
        return path

    return saved


def streamed(owner):
    """Three rows at time 4, and the names of their times."""
    with torch.no_grad():
        _, state = owner.steps(torch.randn(3, 4, 8), owner.init_state(3))
    return state, [name for name, _ in ns.state.named_leaves(state) if name.endswith("time")]


def put(state, name, row, time):
    dict(ns.state.named_leaves(state))[name][row] = time


@pytest.mark.parametrize("time", [-1, -2, 3, 2**53 + 2, 2**62, 2**63 - 2, -(2**63)])
@pytest.mark.parametrize("row", [0, 2])
def test_times_that_no_stream_can_reach_are_refused(owner, saved, tmp_path, time, row):
    state, names = streamed(owner)
    for name in names:
        put(state, name, row, time)
    path = saved(state)
    message = f"has {names[0]}[{row}] = {time}, {RANGE}"
    for source, load in (
        (str(path), lambda: ns.load_state(path, owner)),
        ("the blob", lambda: ns.state.unpack(path.read_bytes(), owner)),
        ("state", lambda: ns.save_state(tmp_path / "other", state, owner)),
        ("state", lambda: ns.state.pack(state, owner)),
        ("state", lambda: ns.continual(owner).set_state(state)),
    ):
        with pytest.raises(ValueError, match=f"^{re.escape(f'{source} {message}')}$"):
            load()
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("owner", ["deep"], indirect=True)
def test_blocks_at_different_times_are_refused(owner, saved):
    state, names = streamed(owner)
    put(state, names[1], 1, 6)
    match = r"has blocks\.1\.time\[1\] = 6 and "
    with pytest.raises(ValueError, match=match + r"blocks\.0\.time\[1\] = 4, but .* at the same time"):
        ns.load_state(saved(state), owner)


@pytest.mark.parametrize("owner", ["deep"], indirect=True)
@pytest.mark.parametrize("count", [2, 4])
def test_blocks_of_different_batches_are_refused(owner, count):
    first, second = owner.init_state(3).blocks[0], owner.init_state(count).blocks[1]
    state = type(owner.init_state(1))((first, second))
    for call in (lambda: ns.state.pack(state, owner), lambda: ns.continual(owner).set_state(state)):
        with pytest.raises(ValueError, match=rf"state has {count} rows of blocks\.1\.time, but 3 of blocks\.0\.time"):
            call()


def test_rows_may_be_at_any_other_times(owner, saved):
    state, names = streamed(owner)
    for name in names:
        put(state, name, 0, 0)
        put(state, name, 1, times.LIMIT)
    assert ns.load_state(saved(state), owner).time.tolist() == [0, times.LIMIT, 4]

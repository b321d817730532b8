"""Batches have the right tokens, and are a function of the seed and their number."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nystream as ns
from nystream.train import StreamData, TrainConfig, WindowData
from nystream.train.data import seeded
from nystream.train.sampler import order, sampler, updates


def config(window=4, update_size=1, variant="full", **options):
    attention = ns.AttentionConfig(variant, embed_dim=4, num_heads=1, window=window, update_size=update_size)
    return ns.ModelConfig(input_dim=1, output_dim=1, attention=attention, **options)


def counted(*lengths):
    """Streams whose tokens are their number, from 1, plus a thousand for each stream before theirs."""
    x = [torch.arange(1.0, n + 1)[:, None] + 1000 * i for i, n in enumerate(lengths)]
    return StreamData(x, [part.clone() for part in x])


@given(
    lengths=st.lists(st.integers(1, 15), min_size=1, max_size=3),
    window=st.integers(1, 3),
    r=st.integers(1, 3),
    short=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_newest_rows_are_the_windows_of_the_streams(lengths, window, r, short):
    n, data = window * r, counted(*lengths)
    setting = TrainConfig(short=short, through="windows")
    least = r if short else n
    if max(lengths) < least:
        with pytest.raises(ValueError, match="no stream is as long"):
            sampler(data, config(n, r), setting)
        return
    found = sampler(data, config(n, r), setting)
    assert len(found) == sum(max(0, (length - least) // r + 1) for length in lengths)
    batch = found.take(torch.arange(len(found)), seeded(0))
    for x, y, length in zip(batch.x, batch.y.reshape(len(found), r), batch.lengths.tolist(), strict=True):
        held = x[n - length :, 0]
        assert torch.equal(held, torch.arange(length) + held[0])  # one run of one stream
        assert torch.equal(y, held[-r:])  # the targets of its newest tokens
        assert float(held[-1]) % 1000 % r == 0
        assert float(held[0]) % 1000 >= 1
        assert length == n if not short else 1 <= length <= n
    ends = sorted(batch.x[:, -1, 0].tolist())
    wanted = [1000 * i + t for i, size in enumerate(lengths) for t in range(least, size + 1, r)]
    assert ends == sorted(wanted)  # every token once


@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=4),
    piece=st.integers(4, 20),
    short=st.sampled_from([0.0, 1.0]),
    r=st.integers(1, 2),
    context=st.integers(0, 9),
)
def test_pieces_are_runs_of_streams(lengths, piece, short, r, context):
    context = min(context, max(lengths))
    data, setting = counted(*lengths), TrainConfig(short=short, piece=piece, through="steps", context=context)
    model = config(4, r, "co-full-single")
    warm = 0 if short else 3
    if piece // r * r <= warm or max(lengths) // r * r <= warm:
        with pytest.raises(ValueError, match=r"piece=|no stream is longer"):
            sampler(data, model, setting)
        return
    found = sampler(data, model, setting)
    batch = found.take(torch.arange(len(found)), seeded(1))
    most = -(-context // r) * r
    assert batch.x.shape[1] == most + piece // r * r
    rows = zip(batch.x[..., 0], batch.y[..., 0], batch.lengths.tolist(), batch.unscored.tolist(), strict=True)
    for x, y, length, unscored in rows:
        assert length % r == 0
        assert torch.equal(x[:length], torch.arange(length) + x[0])
        assert torch.equal(x, y)
        first = int(x[0]) % 1000  # number of the first token in its stream, from 1
        assert unscored == max(warm, most) if first > 1 else warm <= unscored <= max(warm, most)
        assert unscored < length


@pytest.mark.parametrize("lengths", [[1000], [32] * 30 + [1000], [5] * 50 + [21, 400]])
@pytest.mark.parametrize(("short", "context"), [(0.0, 0), (0.0, 7), (1.0, 0), (1.0, 25)])
def test_pieces_meet_every_token_about_once_an_epoch(lengths, short, context):
    data, setting = counted(*lengths), TrainConfig(piece=40, short=short, context=context)
    found = sampler(data, config(8, 1, "co-full-single"), setting)
    met = [torch.zeros(length + 1) for length in lengths]
    epochs = 300
    for epoch in range(epochs):
        batch = found.take(torch.arange(len(found)), seeded(epoch))
        rows = zip(batch.x[..., 0], batch.lengths.tolist(), batch.unscored.tolist(), strict=True)
        for x, length, unscored in rows:
            stream = int(x[0]) // 1000 if x[0] % 1000 else int(x[0]) // 1000 - 1
            met[stream][(x[unscored:length] - 1000 * stream).long()] += 1
    for length, seen in zip(lengths, met, strict=True):
        share = seen[1 + found.warm :] / epochs
        if length > found.warm:
            assert 0.7 < float(share.mean()) < 1.4
    assert float(torch.cat([seen[1 + found.warm :] for seen in met]).mean()) / epochs == pytest.approx(1.0, rel=0.25)


def test_pieces_start_anywhere_on_the_circle():
    found = sampler(counted(500), config(4, 1, "co-full-single", num_positions=30), TrainConfig(piece=8))
    drawn = torch.cat([found.take(torch.arange(len(found)), seeded(i)).offset for i in range(5)])
    assert set(drawn.tolist()) == set(range(30))


def test_whole_windows_and_cut_ones():
    x = torch.arange(1.0, 5.0).expand(30, 4)[..., None].contiguous()
    data = WindowData(x, torch.arange(30))
    whole = sampler(data, config(4), TrainConfig()).take(torch.tensor([3, 1]), seeded(0))
    assert torch.equal(whole.x, x[:2])
    assert whole.y.tolist() == [3, 1]
    cut = sampler(data, config(6), TrainConfig(short=1.0)).take(torch.arange(30), seeded(0))
    assert cut.x.shape == (30, 6, 1)
    assert set(cut.lengths.tolist()) == {1, 2, 3, 4}
    for row, length in zip(cut.x[..., 0], cut.lengths.tolist(), strict=True):
        assert torch.equal(row[6 - length :], torch.arange(1.0, length + 1))  # the first tokens, at the end


def test_every_rotation_is_met():
    data = WindowData(torch.zeros(500, 4, 1), torch.zeros(500).long())
    drawn = sampler(data, config(4, num_positions=7), TrainConfig()).take(torch.arange(500), seeded(0))
    assert set(drawn.offset.tolist()) == set(range(7))


def test_an_epoch_sees_every_example_once():
    data = WindowData(torch.zeros(50, 4, 1), torch.zeros(50).long())
    found = sampler(data, config(4), TrainConfig())
    setting = TrainConfig(batch_size=8)
    parts = order(found, setting, seed=0, epoch=3)
    assert [len(part) for part in parts] == [8] * 6 + [2]
    assert updates(found, setting) == 7
    assert sorted(torch.cat(parts).tolist()) == list(range(50))
    again = order(found, setting, seed=0, epoch=3)
    assert all(torch.equal(a, b) for a, b in zip(parts, again, strict=True))
    assert not torch.equal(parts[0], order(found, setting, seed=0, epoch=4)[0])
    assert not torch.equal(parts[0], order(found, setting, seed=1, epoch=3)[0])


def test_steps_per_epoch_are_full_batches():
    data = WindowData(torch.zeros(10, 4, 1), torch.zeros(10).long())
    setting = TrainConfig(batch_size=8, steps_per_epoch=3)
    found = sampler(data, config(4), setting)
    parts = order(found, setting, seed=0, epoch=0)
    assert [len(part) for part in parts] == [8, 8, 8]
    assert updates(found, setting) == 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sampler(WindowData(torch.zeros(2, 4, 3), torch.zeros(2)), config(), TrainConfig()), "3 columns"),
        (lambda: sampler(WindowData(torch.zeros(2, 5, 1), torch.zeros(2)), config(), TrainConfig()), "use StreamData"),
        (
            lambda: sampler(
                counted(50), config(variant="co-full-single", layers=2, stack="deep"), TrainConfig(through="windows")
            ),
            "cannot train stack='deep'",
        ),
    ],
)
def test_errors_say_what_is_needed(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_context_that_cannot_be_read():
    setting = TrainConfig(piece=8, context=21, short=1.0)
    with pytest.raises(ValueError, match="context=21 is longer than the longest stream, of 20 tokens"):
        sampler(counted(20), config(4, 1, "co-full-single"), setting)
    for data in (counted(50), WindowData(torch.randn(3, 4, 1), torch.zeros(3))):
        with pytest.raises(ValueError, match="context=21 is for pieces of streams"):
            sampler(data, config(4, 1, "full"), setting)


def test_with_context_the_outputs_are_those_of_the_whole_stream():
    torch.manual_seed(0)
    cfg = ns.AttentionConfig("co-full-single", embed_dim=8, num_heads=2, window=4)
    shape = ns.ModelConfig(input_dim=1, output_dim=1, attention=cfg, layers=2, stack="deep", positions="none")
    model = ns.StreamModel(shape, dtype=torch.float64)
    data = StreamData([torch.randn(100, 1, dtype=torch.float64)], [torch.arange(100.0)])
    batch = sampler(data, shape, TrainConfig(piece=20, context=shape.receptive_field - 1, short=1.0)).take(
        torch.arange(4), seeded(0)
    )
    outputs = model.outputs(batch.x, model.init_state(4), lengths=batch.lengths)
    whole, _ = model.steps(data.x[None], model.init_state(1))
    place = torch.arange(batch.x.shape[1])
    scored = (place >= batch.unscored[:, None]) & (place < batch.lengths[:, None])
    torch.testing.assert_close(outputs[scored], whole[0, batch.y[scored].long()], rtol=1e-12, atol=1e-12)


def test_a_path_beyond_the_window_needs_streams():
    beyond = config(variant="co-full-single", stack="deep", linear=ns.LinearConfig(segments=5))
    with pytest.raises(ValueError, match=r"through='windows' cannot train a linear path over 5 tokens.*window=4"):
        sampler(counted(20), beyond, TrainConfig(through="windows"))
    assert sampler(counted(20), beyond, TrainConfig()).streams
    within = config(variant="co-full-single", stack="deep", linear=ns.LinearConfig(segments=4))
    assert not sampler(counted(20), within, TrainConfig(through="windows")).streams

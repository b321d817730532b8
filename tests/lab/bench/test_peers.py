"""The contenders compute the right outputs, and one that does not is detected."""

import pytest
import torch

from nystream import testing
from nystream.lab.bench import check
from nystream.lab.bench.contenders import FAMILIES, Pooled, Stepped
from nystream.lab.bench.peers import ContinualInference, RingCache, WindowRecompute
from nystream.lab.bench.sizes import ModelSizes, build_model, double, tokens, twin

TINY = ModelSizes(window=7, embed_dim=8, num_heads=2, landmarks=3, ff_dim=12, input_dim=5, output_dim=3)


@pytest.fixture(autouse=True)
def _inference():
    with torch.inference_mode():
        yield


def stream(contender, x):
    """All outputs, and the number of steps without one."""
    found = check.outputs(contender, x, TINY.window)
    return torch.stack(list(found.values())), len(x) - len(found)


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("layers", [1, 2])
class TestPeers:
    def test_the_ring_is_the_co_full_model(self, layers, norm):
        sizes = TINY.replace(layers=layers)
        model = twin(build_model(sizes), sizes, "co-full-single", norm=norm)
        x = tokens(3 * sizes.window + 2, sizes.input_dim)
        found, _ = stream(RingCache(model), x)
        assert testing.relative_error(found, check.expected(model, x)) < 1e-5

    def test_recomputing_the_window_is_full_attention(self, layers, norm):
        sizes = TINY.replace(layers=layers)
        model = twin(build_model(sizes), sizes, "full", norm=norm, stack="paper")
        x = tokens(3 * sizes.window + 2, sizes.input_dim)
        found, _ = stream(WindowRecompute(model), x)
        exact, n = double(model), sizes.window
        for t in range(1, len(x) + 1):
            start = max(t - n, 0)
            wanted = exact(x[None, start:t].double(), offset=start % n)
            assert testing.relative_error(found[t - 1 : t], wanted) < 1e-5, t


@pytest.mark.parametrize("layers", [1, 2])
def test_the_package_streams_the_window_model_once_the_window_is_full(layers):
    sizes = TINY.replace(layers=layers)
    model = twin(build_model(sizes), sizes, "co-full-single", norm="post", stack="paper")
    x = tokens(4 * sizes.window, sizes.input_dim)
    peer = ContinualInference(model)
    found, held = stream(peer, x)
    assert held == sizes.window - 1
    assert testing.relative_error(found, check.expected(model, x)[held:]) < 1e-5
    assert peer.bytes_per_stream > 0


@pytest.mark.parametrize("variant", FAMILIES)
def test_ours_give_the_numbers_of_the_float64_model(variant):
    model = twin(build_model(TINY), TINY, variant)
    x = tokens(3 * TINY.window, TINY.input_dim)
    wanted = check.expected(model, x)
    for contender in (Stepped(model), Pooled(model, "torch")):
        found, _ = stream(contender, x)
        assert testing.relative_error(found, wanted) < 1e-4, contender.name
        assert contender.bytes_per_stream > 0


@pytest.mark.parametrize("kind", [WindowRecompute, RingCache, Stepped])
def test_filled_is_as_if_it_had_stepped(kind):
    model = twin(build_model(TINY), TINY, "co-full-single")
    x = tokens(3 * TINY.window, TINY.input_dim)
    stepped, filled = kind(model), kind(model)
    for token in x[:-1]:
        stepped.step(*stepped.arguments(token))
    filled.fill(x[:-1])
    last = [one.output(one.step(*one.arguments(x[-1]))) for one in (stepped, filled)]
    assert testing.relative_error(*last) < 1e-6


def test_long_windows_are_checked_at_the_ends(monkeypatch):
    monkeypatch.setattr(check, "MAX_WHOLE", 5)
    monkeypatch.setattr(check, "NUM_ENDS", 3)
    model = twin(build_model(TINY), TINY, "co-full-single")
    x = tokens(check.checked_tokens(TINY.window), TINY.input_dim)
    found = check.outputs(RingCache(model), x, TINY.window)
    assert list(found) == [0, 1, 2, len(x) - 3, len(x) - 2, len(x) - 1]
    assert check.compare("ring", found, check.expected(model, x)) < 1e-5


def test_a_contender_that_is_wrong_is_named():
    model = twin(build_model(TINY), TINY, "co-full-single")
    x = tokens(20, TINY.input_dim)
    wanted = check.expected(model, x)
    ring = RingCache(model)
    ring.time = 1  # a position off
    with pytest.raises(
        check.WrongNumbersError, match=r"ring KV \+ SDPA differs from the float64 model by .* nothing was timed"
    ):
        check.compare(ring.name, check.outputs(ring, x, TINY.window), wanted)
    nothing = torch.full_like(wanted, torch.nan)
    with pytest.raises(check.WrongNumbersError, match="by inf of the largest output"):
        check.compare("one of NaNs", dict(enumerate(nothing)), wanted)
    with pytest.raises(check.WrongNumbersError, match="gave no output"):
        check.compare("one that waits", {}, wanted)

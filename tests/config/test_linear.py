"""The config of a linear path: validation and JSON."""

import dataclasses

import pytest

import nystream as ns
from nystream.config.linear import Run


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"segments": 0}, ValueError, ("segments=0", "at least 1")),
        ({"segments": True}, TypeError, ("segments=True", "integer")),
        ({"segments": "3"}, TypeError, ("segments='3'", "integer")),
        ({"segments": 10**9}, ValueError, ("segments=1000000000", "at most 65536")),
        ({"segments": ()}, ValueError, ("the number of segments=0", "at least 1")),
        ({"segments": (1,) * 65537}, ValueError, ("the number of segments=65537", "at most 65536")),
        ({"segments": (3, 1)}, ValueError, ("segments[0]=3 must be 1", "newest token")),
        ({"segments": (1, 0)}, ValueError, ("segments[1]=0", "at least 1")),
        ({"segments": (1, 2.0)}, TypeError, ("segments[1]=2.0", "integer")),
        ({"segments": (1, 2**31)}, ValueError, ("segments[1]=2147483648", "at most 2147483647")),
        ({"segments": (1, 2**30, 2**30)}, ValueError, ("the sum of segments=2147483649", "at most 2147483647")),
        ({"inputs": 0}, ValueError, ("inputs=0", "at least 1")),
        ({"inputs": 1.0}, TypeError, ("inputs=1.0", "integer")),
        ({"embedded": 1}, TypeError, ("embedded=1", "True or False")),
    ],
)
def test_a_path_names_what_it_refuses(options, error, words):
    with pytest.raises(error) as caught:
        ns.LinearConfig(**options)
    for word in words:
        assert word in str(caught.value)


def test_what_a_path_reads():
    path = ns.LinearConfig(segments=(1, 1, 1, 4, 4, 2), inputs=2)
    assert path.tokens == 13
    assert path.features(10) == 10 + 5 * 2
    assert path.runs == (Run(1, 1, 2), Run(3, 4, 2), Run(11, 2, 1))
    assert ns.LinearConfig(segments=336, inputs=1).features(60) == 395
    assert ns.LinearConfig(segments=(1, 2)).features(5) == 10
    assert (ns.LinearConfig().tokens, ns.LinearConfig().features(5), ns.LinearConfig().runs) == (1, 5, ())


@pytest.mark.parametrize(
    ("segments", "stored"), [((1,), 1), (336, 336), ([1, 1], 2), ((1, 3, 28), [1, 3, 28]), ((1, 1, 2), [1, 1, 2])]
)
def test_single_tokens_are_stored_as_their_number(segments, stored):
    path = ns.LinearConfig(segments=segments, inputs=1, embedded=True)
    assert path.to_dict() == {"segments": stored, "inputs": 1, "embedded": True}
    assert ns.LinearConfig.from_dict(path.to_dict()) == path


def test_a_path_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ns.LinearConfig().inputs = 2
    with pytest.raises(TypeError, match="positional"):
        ns.LinearConfig((1,))

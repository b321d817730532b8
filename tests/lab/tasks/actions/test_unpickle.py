"""Pickles: all arrays written by numpy can be read, no code is run, and damage is an error."""

import builtins
import collections
import functools
import os
import pickle
import re

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nystream.lab.tasks.actions import unpickle
from nystream.lab.tasks.actions.unpickle import read_pickle

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)
PYTHON_2 = (  # np.array([1, 2], "<f4"), as Python 2 and numpy 1 write it
    b"\x80\x02cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01K\x02\x85cnumpy\ndtype\n"
    b"U\x02f4K\x00K\x01\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x08"
    b"\x00\x00\x80?\x00\x00\x00@tb."
)


@pytest.fixture
def written(tmp_path):
    def write(data):
        path = tmp_path / "held.pickle"
        path.write_bytes(data)
        return path

    return write


def of_numpy_1(data):
    """The same small pickle with the names that numpy 1 gives its functions."""
    data = data[:2] + data[11:] if data[2:3] == b"\x95" else data  # without the frame, whose length changes
    for module in (b"multiarray", b"numeric"):
        old, new = b"numpy._core." + module, b"numpy.core." + module
        data = data.replace(bytes([0x8C, len(old)]) + old, bytes([0x8C, len(new)]) + new)  # a short text, protocol 4
        data = data.replace(old, new)
    assert b"_core" not in data
    return data


def same(a, b):
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


kinds = st.sampled_from(["<f4", ">f4", "f8", "f2", "?", "i1", "u1", ">i8", "u4", "U3", "S2"])
held_arrays = kinds.flatmap(
    lambda kind: arrays.arrays(
        kind,
        arrays.array_shapes(min_dims=0, min_side=0, max_side=4),
        elements={"allow_nan": False} if "f" in kind else None,
    )
).flatmap(lambda x: st.sampled_from([x, np.asfortranarray(x), x.T]))
plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3) | held_arrays
nested = st.recursive(
    plain | st.binary(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3) | st.tuples(inner)
    ),
    max_leaves=6,
)


@given(held=nested, protocol=st.sampled_from(PROTOCOLS))
def test_arrays_and_containers_come_back(tmp_path_factory, held, protocol):
    path = tmp_path_factory.getbasetemp() / "some.pickle"
    path.write_bytes(pickle.dumps(held, protocol))
    assert same(held, read_pickle(path))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_both_numpys(written, protocol):
    held = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3),
        "b": np.float64(2.5),
        "c": np.asfortranarray(np.eye(3, 2)),
    }
    data = pickle.dumps(held, protocol)
    for found in (read_pickle(written(data)), read_pickle(written(of_numpy_1(data)))):
        assert np.array_equal(found["a"], held["a"])
        assert np.array_equal(found["c"], held["c"])
        assert found["b"] == 2.5


def test_python_2(written):
    assert same(read_pickle(written(PYTHON_2)), np.array([1, 2], "<f4"))


def test_ordered_dicts_become_dicts(written):
    held = collections.OrderedDict(b=np.ones(2), a=np.zeros(1))
    found = read_pickle(written(pickle.dumps(held)))
    assert type(found) is dict
    assert same(found, dict(held))


class Calls:
    """Pickled as a call that is made when the pickle is read."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def objects(*values):
    found = np.empty(len(values), object)
    found[:] = values
    return found


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("function", "arguments", "name"),
    [
        (os.system, ("touch {mark}",), f"{os.system.__module__}.system"),
        (builtins.eval, ("open({mark!r}, 'w')",), "(builtins|__builtin__).eval"),
        (builtins.exec, ("open({mark!r}, 'w')",), "(builtins|__builtin__).exec"),
        (builtins.open, ("{mark}", "w"), "open"),
        (builtins.getattr, ("", "join"), "(builtins|__builtin__).getattr"),
        (functools.partial, (print,), "functools.partial"),
        (np.load, ("{mark}",), "numpy.load"),
        (np.save, ("{mark}", 1), "numpy.save"),
        (np.memmap, ("{mark}", "uint8", "w+", 0, 1), "numpy.memmap|numpy._core.memmap"),
    ],
)
def test_calls_are_refused_by_name_and_do_not_happen(written, tmp_path, function, arguments, name, protocol):
    mark = str(tmp_path / "mark")
    given = [value.format(mark=mark) if isinstance(value, str) else value for value in arguments]
    for held in ({"video": Calls(function, *given)}, [np.ones(2), Calls(function, *given)]):
        with pytest.raises(ValueError, match=rf"asks for \S*({name})\S*, but only numpy arrays and plain containers"):
            read_pickle(written(pickle.dumps(held, protocol)))
        assert not os.path.exists(mark)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"cos\nsystem\n(S'true'\ntR.", "asks for os.system"),
        (b"(S'true'\nios\nsystem\n.", "asks for os.system"),
        (b"\x80\x04\x8c\x05numpy\x8c\x0endarray.tofile\x93.", "asks for numpy.ndarray.tofile"),
        (b"cnumpy.core.multiarray\nfromfile\n.", "asks for numpy.core.multiarray.fromfile"),
        (b"Ptoken\n.", "asks for an external object, 'token'"),
        (b"c_codecs\nencode\n(Vx\nVrot13\ntR.", "asks for bytes in 'rot13'"),
        (b"cnumpy\ndtype\n(VO8\ntR.", "dtype 'O8'"),
        (b"cnumpy\ndtype\n(VV8\ntR.", "dtype 'V8'"),
        (b"cnumpy\ndtype\n(Vf4\ntR.", r"contains something else \(Dtype\)"),
        (b"cnumpy\ndtype\n.", r"contains something else \(function\)"),
        (b"cnumpy\ndtype\n(Vf4\ntR(I3\nV<\nN(Va\ntNI-1\nI-1\nI0\ntb.", "array of records"),
        (
            b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntVb\ntR.",
            r"contains something else \(Array\)",
        ),
        (
            b"cnumpy.core.multiarray\n_reconstruct\n(ccollections\nOrderedDict\n(I0\ntVb\ntR.",
            "only numpy.ndarray is read",
        ),
        (
            b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntVb\ntR(I1\n(I1\ntVO\nI00\n(lp0\ntb.",
            "dtype 'O'",
        ),
        (b"]p0\ng0\na.", "containers more than 16 deep"),
    ],
)
def test_hand_made_pickles_are_refused(written, data, message):
    with pytest.raises(ValueError, match=message):
        read_pickle(written(data))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "held",
    [
        objects(1, "two"),
        objects(Calls(os.system, "true")),
        np.zeros(2, [("a", "f4"), ("b", "O")]),
        np.zeros(2, "M8[s]"),
        np.ma.masked_array([1.0, 2.0]),
        torch.zeros(2),
        range(3),
        slice(1),
        2j,
    ],
    ids=lambda held: type(held).__name__,
)
def test_other_things_are_refused(written, held, protocol):
    with pytest.raises(ValueError, match=r"asks for|of dtype|of records|something else"):
        read_pickle(written(pickle.dumps(held, protocol)))


def test_what_a_pickle_sets_on_a_function_is_gone(written):
    # Finds numpy.dtype and sets attributes of it, a plain one and one that changes what its arguments are.
    data = b"cnumpy\ndtype\n((dVmark\nI1\ns(dV__defaults__\n(I1\ntstb."
    with pytest.raises(ValueError, match=r"contains something else \(function\)"):
        read_pickle(written(data))
    assert not hasattr(unpickle.KNOWN["numpy", "dtype"], "mark")
    assert unpickle.KNOWN["numpy", "dtype"].__defaults__ == (False, False)


def test_shared_containers_take_no_longer(written):
    held = [np.ones(1)]
    for _ in range(15):
        held = [held] * 10
    assert len(read_pickle(written(pickle.dumps(held)))) == 10


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_truncation_is_an_error(written, protocol):
    data = pickle.dumps({"video": {"rgb": np.ones((2, 3), np.float32), "name": "x", "n": np.int64(3)}}, protocol)
    for end in range(len(data)):
        with pytest.raises(ValueError, match=r"cut short or damaged|asks for|something else"):
            read_pickle(written(data[:end]))


@settings(max_examples=150)
@given(data=st.data(), protocol=st.sampled_from(PROTOCOLS))
def test_damage_is_an_error_of_one_kind(tmp_path_factory, data, protocol):
    raw = bytearray(pickle.dumps({"video": {"rgb": np.ones((2, 3), np.float32)}}, protocol))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged.pickle"
    path.write_bytes(raw)
    try:
        read_pickle(path)
    except ValueError as error:
        assert re.match(re.escape(str(path)), str(error))  # noqa: PT017


def test_other_files(written, tmp_path):
    for data in (b"", b"not a pickle", b"PK\x03\x04", b"\x89HDF\r\n"):
        with pytest.raises(ValueError, match=r"held\.pickle is not a pickle, or is cut short|asks for"):
            read_pickle(written(data))
    with pytest.raises(FileNotFoundError, match=r"none\.pickle"):
        read_pickle(tmp_path / "none.pickle")

"""CUDA graphs on the CPU: a capture records operations of torch and launches of kernels, a replay does them again.

As on a GPU, a captured step reads and writes the same tensors every time, a capture launches no kernel, and graphs of
one pool of memory use the same memory: a replay first spoils what was allocated in the captures of its pool.
"""

from contextlib import contextmanager
from functools import partial

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from triton.runtime import interpreter

from nystream.stream.gpu.graphs import Graphs

WAITING = ("_local_scalar_dense", "lift_fresh")  # a number is read from the device, or copied to it
launch = interpreter.GridExecutor.__call__


class Stream:
    def __init__(self, device=None):
        self.device = device


class Event:
    """Records the end of what was launched so far: all of it is done at once."""

    recorded = False

    def record(self):
        self.recorded = True

    def synchronize(self):
        assert self.recorded, "nothing to wait for"
        self.recorded = False


class Pool(list):
    """A pool of memory: the tensors that were allocated in captures."""

    in_use = False

    def __bool__(self):
        return True


class Capture:
    """What is current: a stream, and the graph that is being captured, if there is one."""

    stream = Stream()
    graph = None


class Graph:
    """In place of `torch.cuda.CUDAGraph`. `memory` are the tensors that are allocated from its pool."""

    def __init__(self):
        self.calls, self.memory = [], None

    def replay(self):
        assert self.memory is not None, "the capture of this graph has failed"
        for x in self.memory:
            x.fill_(torch.nan if x.is_floating_point() else -1)
        for call in self.calls:
            call()


class Recorder(TorchDispatchMode):
    """Records the operations of torch, and does them, because their outputs have shapes."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.overloadpacket.__name__ in WAITING:
            raise RuntimeError(f"{function}: operation not permitted when stream is capturing")
        out = function(*args, **(kwargs or {}))
        given = {_memory(x) for x in _tensors((args, kwargs))}
        Capture.graph.memory += [x for x in _tensors(out) if _memory(x) not in given]
        if "empty" not in function.overloadpacket.__name__:
            Capture.graph.calls.append(partial(_again, function, args, kwargs or {}, out))
        return out


class graph:  # noqa: N801, as in torch
    def __init__(self, graph, pool, stream, capture_error_mode):
        assert capture_error_mode == "thread_local"  # other threads may use the device
        self.graph, self.pool, self.stream, self.recorder = graph, pool, stream, Recorder()

    def __enter__(self):
        assert Capture.graph is None, "a process can capture one graph at a time"
        assert not self.pool.in_use, "a capture with this pool has not come to its end"
        self.before, Capture.stream, Capture.graph = Capture.stream, self.stream, self.graph
        self.graph.memory, self.pool.in_use = self.pool, True
        self.recorder.__enter__()

    def __exit__(self, *error):
        self.recorder.__exit__(*error)
        Capture.graph = None
        if error[0] is None:  # torch does not get to the next line if the end of a capture fails, too
            Capture.stream, self.pool.in_use = self.before, False


def _again(function, args, kwargs, out):
    for old, new in zip(_tensors(out), _tensors(function(*args, **kwargs)), strict=True):
        if old.data_ptr() != new.data_ptr():
            old.copy_(new)


def _tensors(tree):
    return [x for x in tree_leaves(tree) if isinstance(x, torch.Tensor)]


def _memory(x):
    return x.untyped_storage().data_ptr()


def _launch(executor, *args, **kwargs):
    if Capture.graph is None:
        launch(executor, *args, **kwargs)
    else:
        Capture.graph.calls.append(partial(launch, executor, *args, **kwargs))


@contextmanager
def _selected(stream):
    before, Capture.stream = Capture.stream, stream
    try:
        yield
    finally:
        Capture.stream = before


def install(monkeypatch):
    """Make new pools use graphs; returns the list of all that are captured."""
    captured, init = [], Graphs.__init__

    def with_graphs(self, streams):
        init(self, streams)
        self._on_gpu, self._side, self._done = True, Stream(streams.device), Event()

    def new_graph():
        captured.append(Graph())
        return captured[-1]

    monkeypatch.setattr(Graphs, "__init__", with_graphs)
    monkeypatch.setattr(interpreter.GridExecutor, "__call__", _launch)
    for name, fake in {
        "CUDAGraph": new_graph,
        "Stream": Stream,
        "current_stream": lambda device=None: Capture.stream,
        "graph": graph,
        "graph_pool_handle": Pool,
        "stream": _selected,
    }.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    return captured

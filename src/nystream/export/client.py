"""Run an exported model. This file needs NumPy and ONNX Runtime only, and can be copied to a device as it is.

stream = OnnxStream("model.onnx")
y = stream.push(x)
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

KEY = "nystream"  # of the card in the metadata of a file
FORMAT = "nystream-onnx"
VERSION = 1
NOTHING = -1e30  # the logit of nothing
LIMIT = 2**53  # of the time of a stream


class OnnxStream:
    """One or several streams of an exported model, in ONNX Runtime.

    Args:
        path: A file written by `nystream.export_onnx`.
        streams: The number of streams. Each has its own state, and may be at its own time.
        threads: The number of threads of a step. More than one helps only wide models and many streams.

    Example:
        >>> import tempfile, numpy as np, nystream as ns
        >>> attention = ns.AttentionConfig("co-full-single", embed_dim=8, num_heads=2, window=6)
        >>> model = ns.StreamModel(ns.ModelConfig(input_dim=5, output_dim=3, attention=attention))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     stream = ns.OnnxStream(ns.export_onnx(model, f"{folder}/model.onnx"), streams=2)
        ...     stream.extend(np.zeros((2, 20, 5))).shape
        (2, 20, 3)

        >>> stream.push(np.zeros(5), stream=1).shape  # one of them
        (3,)
        >>> stream.push(np.zeros((2, 5))).shape  # both
        (2, 3)
        >>> stream.times
        (21, 22)
    """

    def __init__(self, path: str | os.PathLike[str], streams: int = 1, threads: int = 1) -> None:
        for name, count in (("streams", streams), ("threads", threads)):
            if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
                raise ValueError(f"{name}={count!r} must be a whole number, at least 1")
        self._path, self._threads = Path(path), int(threads)
        session, self.card = _open(self._path, self._threads)
        if _widths(session) != self.card["x"]["shape"][1:]:
            raise ValueError(f"{path} takes many tokens at once; open {self.card['files']['step']}, which uses it")
        self._runs: dict[str, Any] = {"step": session}
        self._group = self.card["x"]["shape"][1:-1]  # [r], the tokens that arrive together, or nothing
        self._input_dim, self._output_dim = self.card["x"]["shape"][-1], self.card["y"]["shape"][-1]
        self._specs = self.card["states"]
        self._x = np.zeros((streams, *self._group, self._input_dim), np.float32)
        self._y = np.zeros((streams, *self._group, self._output_dim), np.float32)
        self._states = [self._new(spec, streams) for spec in self._specs]
        # Without states that may be overwritten, two sets of them take turns.
        self._others = self._states if self.card["in_place"] else [state.copy() for state in self._states]
        self._bound: dict[Any, Any] = {}

    @property
    def streams(self) -> int:
        """The number of streams."""
        return len(self._x)

    @property
    def times(self) -> tuple[int, ...]:
        """The number of tokens that each stream has read."""
        place = next(i for i, spec in enumerate(self._specs) if spec["input"].rpartition("_")[2] == "time")
        return tuple(int(time) for time in self._states[place])

    @property
    def nbytes(self) -> int:
        """The size of the state of one stream, in bytes."""
        return sum(state[0].nbytes for state in self._states)

    def push(self, x: Any, stream: int | None = None) -> Array:
        """Process a token of one stream, or of every stream.

        Args:
            x: [input_dim], or [streams, input_dim]; [r, input_dim] or [streams, r, input_dim] if r tokens arrive
                together. In the units of the model's inputs.
            stream: The stream that a single token belongs to. May be left out if there is only one.

        Returns:
            The output, in the units of the model's outputs: [output_dim], or [streams, output_dim], and so on.
        """
        tokens, rows, single = self._arranged(x, stream, self._x.shape[1:])
        self._x[rows] = tokens
        self._step(rows)
        y = self._y[rows].copy()
        return y[0] if single else y

    def push_many(self, streams: Any, x: Any) -> Array:
        """Process a token of each of some streams: x [len(streams), input_dim] -> [len(streams), output_dim]."""
        chosen = [self._checked(stream) for stream in streams]
        if len(set(chosen)) < len(chosen):
            raise ValueError(f"streams={chosen} has a stream twice; push its tokens one after another")
        tokens = _checked("x", _as_numbers("x", x), (len(chosen), *self._x.shape[1:]))
        self._x[chosen] = tokens
        if chosen == list(range(self.streams)):
            self._step(slice(None))
        else:
            for stream in chosen:
                self._step(slice(stream, stream + 1))
        return self._y[chosen]

    def extend(self, x: Any, stream: int | None = None) -> Array:
        """Process many tokens, with the outputs of `push` for each: to catch up, or to score a recording.

        Uses the graph for many tokens, if it is next to the step; otherwise, tokens are processed one by one.

        Args:
            x: [tokens, input_dim] of one stream, or [streams, tokens, input_dim].
            stream: The stream that the tokens belong to, if they are of one. May be left out if there is only one.

        Returns:
            [tokens, output_dim] or [streams, tokens, output_dim].
        """
        tokens, rows, single = self._arranged(x, stream, (None, self._input_dim))
        length, r = tokens.shape[1], self.card["update_size"]
        if length % r:
            raise ValueError(f"x has {length} tokens, but must have a multiple of update_size={r}")
        session = self._chunk()
        if session is None:
            y = self._one_by_one(tokens, rows)
            return y[0] if single else y
        most = self.card["max_chunk"] or max(length, 1)
        answers = [np.zeros((len(tokens), 0, self._output_dim), np.float32)]
        states = [state[rows] for state in self._states]
        for start in range(0, length, most):
            feed = {"x": np.ascontiguousarray(tokens[:, start : start + most])}
            feed |= {spec["input"]: state for spec, state in zip(self._specs, states, strict=True)}
            names = ["y", *(spec["output"] for spec in self._specs)]
            y, *states = session.run(names, feed)
            answers.append(y)
        for state, new in zip(self._states, states, strict=True):
            state[rows] = new
        y = np.concatenate(answers, 1)
        return y[0] if single else y

    def _one_by_one(self, tokens: Array, rows: slice) -> Array:
        """Process tokens [rows, tokens, input_dim] step by step."""
        groups = tokens.reshape(len(tokens), -1, *self._x.shape[1:])
        answers = np.zeros((*groups.shape[:-1], self._output_dim), np.float32)
        for place in range(groups.shape[1]):
            self._x[rows] = groups[:, place]
            self._step(rows)
            answers[:, place] = self._y[rows]
        return answers.reshape(*tokens.shape[:2], self._output_dim)

    def reset(self, stream: int | None = None) -> None:
        """Start a stream anew, or all of them."""
        rows = slice(None) if stream is None else self._checked(stream)
        for spec, state in zip(self._specs, self._states, strict=True):
            state[rows] = _initial(spec)

    def snapshot(self, stream: int | None = None) -> bytes:
        """The state of a stream, for `restore` here or in a `nystream.StreamPool` of the same model."""
        row, facts = self._only(stream), self.card["snapshot"]
        states = {spec["input"]: state[row] for spec, state in zip(self._specs, self._states, strict=True)}
        leaves = {entry["leaf"]: _leaf(entry, states, self.times[row])[None] for entry in facts["leaves"]}
        meta = {key: facts[key] for key in ("format", "config", "fingerprint", "weights")}
        return _packed(leaves, meta | {"checksum": _checksum(leaves, meta)})

    def restore(self, blob: bytes, stream: int | None = None) -> None:
        """Continue a stream from a snapshot of this model, written here or by a `nystream.StreamPool`."""
        row, facts = self._only(stream), self.card["snapshot"]
        leaves, meta = _unpacked(blob)
        if meta.get("format") != facts["format"]:
            raise ValueError(f"the snapshot is {meta.get('format')!r}, but must be {facts['format']!r}")
        if meta.get("fingerprint") != facts["fingerprint"]:
            raise ValueError("the snapshot belongs to a model with another config")
        if meta.get("weights", facts["weights"]) != facts["weights"]:  # a file of save_state has none
            raise ValueError("the snapshot belongs to a model with other weights")
        dtypes = {spec["input"]: spec["dtype"] for spec in self._specs}
        for entry in facts["leaves"]:
            leaf, wanted = leaves.get(entry["leaf"]), (dtypes[entry["state"]], [1, *entry["shape"]])
            if leaf is None or (str(leaf.dtype), list(leaf.shape)) != wanted:
                found = "missing" if leaf is None else f"{leaf.dtype}{list(leaf.shape)}"
                raise ValueError(f"{entry['leaf']} of the snapshot is {found}, but must be {wanted[0]}{wanted[1]}")
        time = int(leaves[next(e["leaf"] for e in facts["leaves"] if not e["shape"])][0])
        if not 0 <= time <= LIMIT or time % self.card["update_size"]:
            raise ValueError(f"the snapshot has a time of {time}, which no stream can have")
        new = {spec["input"]: self._new(spec, 1)[0, ...] for spec in self._specs}
        for entry in facts["leaves"]:
            _restore_leaf(entry, leaves[entry["leaf"]][0], time, new)
        for recipe in facts["totals"]:
            _restore_totals(recipe, new, time)
        for spec, state in zip(self._specs, self._states, strict=True):
            state[row] = new[spec["input"]]

    def _step(self, rows: slice) -> None:
        """Run the step on some rows of the arrays, which are bound in place."""
        binding = self._binding(rows)
        self._runs["step"].run_with_iobinding(binding)
        if self._others is not self._states:
            for state, new in zip(self._states, self._others, strict=True):
                state[rows] = new[rows]

    def _binding(self, rows: slice) -> Any:
        key = (rows.start, rows.stop)
        if key not in self._bound:
            self._bound[key] = binding = self._runs["step"].io_binding()
            for name, array in (("x", self._x), *self._named("input", self._states)):
                part = array[rows]
                binding.bind_input(name, "cpu", 0, part.dtype, part.shape, part.ctypes.data)
            for name, array in (("y", self._y), *self._named("output", self._others)):
                part = array[rows]
                binding.bind_output(name, "cpu", 0, part.dtype, part.shape, part.ctypes.data)
        return self._bound[key]

    def _named(self, side: str, arrays: list[Array]) -> list[tuple[str, Array]]:
        return [(spec[side], array) for spec, array in zip(self._specs, arrays, strict=True)]

    def _chunk(self) -> Any:
        """The session of the graph for many tokens, opened when it is first needed; None if it is not there."""
        if "chunk" not in self._runs:
            name, session = self.card["files"].get("chunk"), None
            if name is not None and (path := self._path.with_name(name)).is_file():
                session, card = _open(path, self._threads)
                if card["sha256"] != self.card["sha256"]:
                    raise ValueError(
                        f"{path.name} is of another export than this stream; open it again, or export the model again"
                    )
            self._runs["chunk"] = session
        return self._runs["chunk"]

    def _new(self, spec: dict[str, Any], rows: int) -> Array:
        return np.full((rows, *spec["shape"][1:]), _initial(spec), spec["dtype"])

    def _arranged(self, x: Any, stream: int | None, shape: tuple[int | None, ...]) -> tuple[Array, slice, bool]:
        """Numbers [rows, *shape], the rows they belong to, and whether they are of a single stream."""
        array = _as_numbers("x", x)
        if array.ndim == len(shape):
            row = self._only(stream)
            return _checked("x", array, shape)[None], slice(row, row + 1), True
        if stream is not None:
            raise ValueError(f"x is {list(array.shape)}, but tokens of stream={stream} must be {_described(shape)}")
        return _checked("x", array, (self.streams, *shape)), slice(None), False

    def _only(self, stream: int | None) -> int:
        if stream is None:
            if self.streams > 1:
                raise ValueError(f"stream is missing: say which of the {self.streams} streams, from 0")
            return 0
        return self._checked(stream)

    def _checked(self, stream: Any) -> int:
        if isinstance(stream, bool) or not isinstance(stream, int | np.integer) or not 0 <= stream < self.streams:
            raise ValueError(f"stream={stream!r} must be a whole number from 0 to {self.streams - 1}")
        return int(stream)


def digest(card: dict[str, Any]) -> str:
    """The checksum of a card."""
    rest = {key: value for key, value in card.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _open(path: Path, threads: int) -> tuple[Any, dict[str, Any]]:
    """A session, and the card in its file."""
    try:
        import onnxruntime
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("OnnxStream needs ONNX Runtime: pip install onnxruntime", name=error.name) from error
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, but must be an ONNX file")
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime has a class of its own for every kind of error
        version = onnxruntime.__version__
        raise ValueError(
            f"{path} cannot be opened by ONNX Runtime {version}; it may be damaged, or need a newer one: {error}"
        ) from error
    return session, _card(session, path)


def _card(session: Any, path: Path) -> dict[str, Any]:
    text = session.get_modelmeta().custom_metadata_map.get(KEY)
    if text is None:
        raise ValueError(f"{path} was not written by nystream.export_onnx: it has no card")
    try:
        card = json.loads(text)
        known = card["format"] == FORMAT
        version = card["version"]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"the card in {path} cannot be read; export the model again") from error
    if not known or not isinstance(version, int):
        raise ValueError(f"the card in {path} is not a card of {FORMAT}; export the model again")
    if version > VERSION:
        raise ValueError(
            f"{path} was written by a newer nystream (format {version}, and this one reads up to {VERSION}); update it"
        )
    if card.get("sha256") != digest(card):
        raise ValueError(f"the card in {path} has been changed since it was written; export the model again")
    for side, places in (("input", session.get_inputs()), ("output", session.get_outputs())):
        names = {"x" if side == "input" else "y", *(spec[side] for spec in card["states"])}
        if names != {place.name for place in places}:
            raise ValueError(f"the {side}s of {path} are not those of its card; export the model again")
    return dict(card)


def _initial(spec: dict[str, Any]) -> float:
    return float(spec["initial"])


def _widths(session: Any) -> list[int | str]:
    """The shape of a token of a session."""
    shape: list[int | str] = next(place.shape for place in session.get_inputs() if place.name == "x")
    return shape[1:]


def _as_numbers(name: str, x: Any) -> Array:
    try:
        array = np.asarray(x)
        if array.dtype.kind == "c":
            raise TypeError("its numbers are complex")
        return array.astype(np.float32, copy=False)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} cannot be converted to an array of numbers: {error}") from error


def _checked(name: str, array: Array, shape: tuple[int | None, ...]) -> Array:
    """The array, if it has a given shape and finite numbers; None allows any size."""
    fits = array.ndim == len(shape) and all(b in (None, a) for a, b in zip(array.shape, shape, strict=True))
    if not fits:
        raise ValueError(f"{name} is {list(array.shape)}, but must be {_described(shape)}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} has numbers that are not finite; no stream was changed")
    return array


def _described(shape: tuple[int | None, ...]) -> str:
    return f"[{', '.join('tokens' if size is None else str(size) for size in shape)}]"


# Snapshots: a file of safetensors with the leaves of nystream's own state, whatever the layout of the graph.


def _leaf(entry: dict[str, Any], states: dict[str, Array], time: int) -> Array:
    """A leaf, from the states of one stream."""
    state = states[entry["state"]]
    if not entry["shape"]:
        return state
    if entry.get("rolled"):
        return np.roll(state, time % len(state), axis=0)
    if entry.get("edges") and time:
        edges, length = states[entry["edges"]], entry["shape"][0]
        state = state.copy()
        state[(time - 1) % length // _block(entry, state)] = edges
    ordered = state.transpose(entry["axes"]).reshape(-1, *entry["shape"][1:])
    return np.ascontiguousarray(ordered[: entry["shape"][0]])


def _restore_leaf(entry: dict[str, Any], leaf: Array, time: int, states: dict[str, Array]) -> None:
    """Write a leaf into the states of one stream."""
    state = states[entry["state"]]
    if not entry["shape"]:
        state[...] = leaf
        return
    if entry.get("rolled"):
        state[...] = np.roll(leaf, -(time % len(leaf)), axis=0)
        return
    axes = entry["axes"]
    view = state.transpose(axes)
    flat = np.ascontiguousarray(view).reshape(-1, *entry["shape"][1:])
    flat[: len(leaf)] = leaf
    view[...] = flat.reshape(view.shape)
    if entry.get("edges") and time:
        states[entry["edges"]][...] = state[(time - 1) % len(leaf) // _block(entry, state)]


def _block(entry: dict[str, Any], state: Array) -> int:
    """The number of tokens in a block of a ring: the axis that follows the first one in the order of the leaf."""
    return int(state.shape[entry["axes"][1]])


def _restore_totals(recipe: dict[str, Any], states: dict[str, Array], time: int) -> None:
    """Compute the totals of a long window, and its middle, from the rings."""
    n = recipe["window"]
    logit = states[recipe["logit"]].transpose(0, 3, 1, 2)  # [blocks, S, H, m]
    value = states[recipe["value"]].transpose(0, 2, 1, 3)
    block = logit.shape[1]
    logit, value = (x.reshape(-1, *x.shape[2:])[:n].astype(np.float64) for x in (logit, value))  # [n, H, .]
    rates = np.zeros(logit.shape[1]) if recipe["decay"] is None else np.array(recipe["decay"])
    totals, slot = states[recipe["state"]], np.arange(n)
    for tokens, first in recipe["tiers"]:
        for index in range(-(-n // tokens)):
            part = slice(index * tokens, min((index + 1) * tokens, n))
            age = part.stop - 1 - slot[part]
            totals[first + index] = _total(logit[part], value[part], age, rates)
    if time:
        start = (time - 1) % n // block * block
        rest = (slot < start) | (slot >= start + block)
        age = (start - 1 - slot[rest]) % n
        states[recipe["middle"]][...] = _total(logit[rest], value[rest], age, rates)


def _total(logit: Array, value: Array, age: Array, rates: Array) -> Array:
    """[H, m, D + 1]: the logarithm of the sum of weights, and the weighted mean of the values, of some tokens."""
    logit = np.maximum(logit - age[:, None, None] * rates[:, None], NOTHING)  # [T, H, m]
    largest = logit.max(0, initial=NOTHING)
    weight = np.exp(logit - largest)
    size = np.maximum(weight.sum(0), 1e-300)
    mean = np.einsum("thm,thd->hmd", weight, value) / size[..., None]
    return np.concatenate([(largest + np.log(size))[..., None], mean], -1)


def _packed(leaves: dict[str, Array], meta: dict[str, str]) -> bytes:
    header: dict[str, Any] = {"__metadata__": dict(sorted(meta.items()))}
    start, parts = 0, []
    for name in sorted(leaves):
        data = np.ascontiguousarray(leaves[name]).tobytes()
        dtype = {"float32": "F32", "int64": "I64"}[str(leaves[name].dtype)]
        header[name] = {"dtype": dtype, "shape": list(leaves[name].shape), "data_offsets": [start, start + len(data)]}
        start += len(data)
        parts.append(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # tensors must start at a multiple of eight
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def _unpacked(blob: Any) -> tuple[dict[str, Array], dict[str, str]]:
    if not isinstance(blob, bytes | bytearray | memoryview):
        raise TypeError(f"blob is a {type(blob).__name__}, but must be the bytes that snapshot() returned")
    blob = bytes(blob)
    try:
        size = int.from_bytes(blob[:8], "little")
        header = json.loads(blob[8 : 8 + size])
        meta, leaves = header.pop("__metadata__"), {}
        for name, entry in header.items():
            begin, end = entry["data_offsets"]
            data = np.frombuffer(blob[8 + size + begin : 8 + size + end], {"F32": "<f4", "I64": "<i8"}[entry["dtype"]])
            leaves[name] = data.reshape(entry["shape"])
        damaged = meta["checksum"] != _checksum(leaves, {key: text for key, text in meta.items() if key != "checksum"})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the snapshot cannot be read: {error!r}") from error
    if damaged:
        raise ValueError("the contents of the snapshot do not match its checksum; it is damaged")
    return leaves, meta


def _checksum(leaves: dict[str, Array], meta: dict[str, str]) -> str:
    """CRC-32 of all leaves and metadata."""
    total = zlib.crc32(json.dumps(meta, sort_keys=True).encode())
    for name in sorted(leaves):
        total = zlib.crc32(leaves[name].tobytes(), zlib.crc32(name.encode(), total))
    return f"{total:08x}"

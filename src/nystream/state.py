"""Operations on states, which are NamedTuples of tensors, batch first, possibly nested.

The functions work on the states of all modules.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from nystream import files, times

S = TypeVar("S", bound=tuple[Any, ...])

FORMAT = "nystream-state-2"
OLD_FORMAT = "nystream-state-1"  # of versions whose windows had other partial sums
SUMS = ("part_max", "part_sum")  # leaves that are a cache of the rings; a file may leave all of them out
REQUIRED_KEYS = ("format", "config", "fingerprint")  # metadata of a packed state
OPTIONAL_KEYS = ("checksum", "weights")  # older versions wrote no checksum, and only a pool writes the weights

Rows = int | slice | Sequence[int] | Tensor


class Config(Protocol):
    @property
    def fingerprint(self) -> str: ...

    def to_dict(self) -> dict[str, Any]: ...


class Stateful(Protocol):
    """A module that has states."""

    @property
    def config(self) -> Config: ...

    def init_state(self, batch_size: int = 1) -> Any: ...


def is_state(x: object) -> bool:
    """Whether `x` is a NamedTuple (of tensors or states)."""
    return isinstance(x, tuple) and hasattr(x, "_fields")


def named_leaves(state: tuple[Any, ...], prefix: str = "") -> Iterator[tuple[str, Tensor]]:
    """Yield (dotted name, tensor) for every leaf."""
    for name, leaf in zip(_names(state), state, strict=True):
        if isinstance(leaf, Tensor):
            yield prefix + name, leaf
        else:
            yield from named_leaves(leaf, f"{prefix}{name}.")


def map_state(function: Callable[..., Tensor], state: S, *others: S) -> S:
    """A state whose leaves are `function(leaf, *leaves of the others)`."""
    new = [
        function(*leaves) if isinstance(leaves[0], Tensor) else map_state(function, *leaves)
        for leaves in zip(state, *others, strict=True)
    ]
    return type(state)(*new) if is_state(state) else type(state)(new)


def clone(state: S) -> S:
    """A copy of the state."""
    return map_state(torch.clone, state)


def detach(state: S) -> S:
    """The state detached from the graph, for truncated backpropagation."""
    return map_state(torch.detach, state)


def to(state: S, device: torch.device | str) -> S:
    """The state on another device."""
    return map_state(lambda x: x.to(device), state)


def stack(states: Iterable[S]) -> S:
    """Concatenate states along the batch dimension.

    Example:
        >>> import torch, nystream as ns
        >>> cfg = ns.AttentionConfig("co-full-single", embed_dim=8, num_heads=2, window=6)
        >>> attn = ns.MultiheadAttention(cfg)

        >>> both = ns.state.stack([attn.init_state(1), attn.init_state(1)])
        >>> both.time.shape
        torch.Size([2])
    """
    if is_state(states):
        raise TypeError("states is a single state, but stack needs a list of states")
    states = list(states)
    if not states:
        raise ValueError("states is empty; stack needs at least one state")
    for other in states[1:]:
        check(other, states[0], None, "stack (to match the first state)")
    return map_state(lambda *leaves: torch.cat(leaves), *states)


def select(state: S, rows: Rows) -> S:
    """Select rows of the batch by index, slice, list or mask.

    Example:
        >>> import torch, nystream as ns
        >>> cfg = ns.AttentionConfig("co-full-single", embed_dim=8, num_heads=2, window=6)
        >>> attn = ns.MultiheadAttention(cfg)

        >>> y, state = attn.step(torch.randn(3, 8), attn.init_state(3))
        >>> ns.state.select(state, [0, 2]).time
        tensor([1, 1])
    """
    index = _index(rows)
    return map_state(lambda x: x[index].clone(), state)


def reset(state: S, rows: Rows, fresh: S) -> S:
    """Reset some rows of the batch; `fresh` is `init_state(1)` of the same module.

    Example:
        >>> import torch, nystream as ns
        >>> cfg = ns.AttentionConfig("co-full-single", embed_dim=8, num_heads=2, window=6)
        >>> attn = ns.MultiheadAttention(cfg)

        >>> y, state = attn.step(torch.randn(3, 8), attn.init_state(3))
        >>> ns.state.reset(state, [1], attn.init_state(1)).time
        tensor([1, 0, 1])
    """
    index = _index(rows)

    def replaced(x: Tensor, new: Tensor) -> Tensor:
        x = x.clone()
        x[index] = new[0].to(x.device)
        return x

    return map_state(replaced, state, fresh)


def nbytes(state: tuple[Any, ...]) -> int:
    """Total size of all leaves in bytes.

    Example:
        >>> import torch, nystream as ns
        >>> cfg = ns.AttentionConfig("co-full-single", embed_dim=8, num_heads=2, window=6)
        >>> attn = ns.MultiheadAttention(cfg)

        >>> ns.state.nbytes(attn.init_state(1))  # keys and values of the window, and the time
        392
    """
    return sum(leaf.numel() * leaf.element_size() for _, leaf in named_leaves(state))


def check(state: object, like: S, batch_size: int | None, owner: str) -> None:
    """Raise if a state differs from `like` in type, shapes or dtypes, or does not have `batch_size` rows, if given."""
    if type(state) is not type(like):
        raise TypeError(
            f"state is a {type(state).__name__}, but {owner} needs a {type(like).__name__}; "
            f"create one with init_state()"
        )
    for (name, leaf), (_, want) in zip(named_leaves(state), named_leaves(like), strict=True):
        if leaf.dim() != want.dim() or leaf.shape[1:] != want.shape[1:] or leaf.dtype != want.dtype:
            rows = batch_size if batch_size is not None else leaf.shape[0] if leaf.dim() else 1
            raise ValueError(
                f"state.{name} is {_describe(leaf)}, but {owner} needs {_describe(want, rows)}; "
                f"the state belongs to another config or dtype"
            )
        if batch_size is not None and leaf.shape[0] != batch_size:
            raise ValueError(f"state.{name} has {leaf.shape[0]} rows, but x has {batch_size}; they must be the same")


def pack(state: tuple[Any, ...], owner: Stateful, *, like: Any = None, weights: str | None = None) -> bytes:
    """Pack a state and its config into the bytes of a safetensors file.

    Equal states give equal bytes. `like` is the owner's `init_state(1)`, if the caller has it already; `weights` is a
    fingerprint of the weights that the stream was started with.
    """
    from safetensors.torch import save  # imported here, because streaming alone needs only torch

    return _in_order(save(*_contents(state, owner, weights, like)))


def unpack(blob: bytes, owner: Stateful, *, like: Any = None, source: str = "the blob") -> Any:
    """Unpack the bytes from `pack` or from a file of `save_state`; raise if damaged or of another config.

    `like` is the owner's `init_state(1)`, if the caller has it already; `source` is the name of the blob in errors.
    """
    import safetensors
    from safetensors.torch import load

    if not isinstance(blob, bytes):
        raise TypeError(f"{source} is a {type(blob).__name__}, but must be bytes")
    try:
        tensors = load(blob)
    except (safetensors.SafetensorError, KeyError) as error:  # KeyError: a dtype that torch does not have
        raise ValueError(f"{source} cannot be read as safetensors: {error}") from error
    return _restored(tensors, metadata(blob), owner, source, like)


def metadata(blob: bytes) -> dict[str, str]:
    """The metadata of a packed state: config, checksum, and the fingerprint of the weights if it has one."""
    return _header(blob).get("__metadata__", {})


def save_state(path: str | os.PathLike[str], state: tuple[Any, ...], owner: Stateful) -> None:
    """Write a state and its config to a safetensors file.

    Example:
        >>> import tempfile, torch, nystream as ns
        >>> cfg = ns.AttentionConfig("co-full-single", embed_dim=8, num_heads=2, window=6)
        >>> attn = ns.MultiheadAttention(cfg).eval()
        >>> y, state = attn.steps(torch.randn(1, 10, 8), attn.init_state(1))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ns.save_state(f"{folder}/stream.safetensors", state, attn)
        ...     again = ns.load_state(f"{folder}/stream.safetensors", attn)
        >>> again.time
        tensor([10])
    """
    from safetensors.torch import save_file

    tensors, meta = _contents(state, owner)
    if not Path(path).resolve().parent.is_dir():
        raise FileNotFoundError(f"the folder of {os.fspath(path)} does not exist; create it first")
    files.replace(Path(path), lambda partial: save_file(tensors, partial, meta))


def load_state(path: str | os.PathLike[str], owner: Stateful) -> Any:
    """Read a file of `save_state`, or a snapshot of a pool; raise if it is damaged or of another config."""
    import safetensors

    source = os.fspath(path)
    if Path(path).is_dir():
        raise IsADirectoryError(f"{source} is a folder, but must be a file")
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            tensors, meta = {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118
    except safetensors.SafetensorError as error:
        raise ValueError(f"{source} cannot be read as a safetensors file: {error}") from error
    return _restored(tensors, meta or {}, owner, source)


def raw_bytes(x: Tensor) -> Any:
    """The bytes of a tensor, uint8 [nbytes], to be hashed: a copy, since axes of size 1 may have any stride."""
    flat = torch.empty(x.numel(), dtype=x.dtype, device="cpu").copy_(x.detach().reshape(-1))
    return flat.view(torch.uint8).numpy()


def _contents(
    state: tuple[Any, ...], owner: Stateful, weights: str | None = None, like: Any = None
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the metadata of a packed state."""
    check(state, owner.init_state(1) if like is None else like, None, type(owner).__name__)
    times.check(named_leaves(state), owner.config, "state")  # never save what cannot be loaded
    tensors = {name: leaf.detach().to("cpu", copy=True).contiguous() for name, leaf in named_leaves(state)}
    meta = {
        "format": FORMAT,
        "config": json.dumps(owner.config.to_dict(), sort_keys=True),
        "fingerprint": owner.config.fingerprint,
    }
    if weights is not None:
        meta["weights"] = weights
    return tensors, meta | {"checksum": checksum(tensors, meta)}


def _restored(tensors: dict[str, Tensor], meta: dict[str, str], owner: Stateful, source: str, like: Any = None) -> Any:
    """Build the owner's state from named leaves, on its device; raise if they do not belong to it."""
    _check_metadata(tensors, meta, source)
    if meta["fingerprint"] != owner.config.fingerprint:
        raise ValueError(f"{source} belongs to another config: {_differences(meta, owner)}")
    like = owner.init_state(1) if like is None else like
    names = [name for name, _ in named_leaves(like)]
    old, has_sums = meta["format"] == OLD_FORMAT, any(map(_is_sum, tensors))
    if missing := [name for name in names if name not in tensors and (old or has_sums or not _is_sum(name))]:
        raise ValueError(f"{source} lacks {', '.join(missing)}; the file is damaged")
    if extra := sorted(tensors.keys() - names):
        raise ValueError(f"{source} has {extra[0]!r:.40}, which is not in a state of this config; the file is damaged")
    without_sums = old or (any(map(_is_sum, names)) and not has_sums)
    state = _filled(like, tensors | _void_sums(tensors, like) if without_sums else tensors)
    check(state, like, None, type(owner).__name__)
    rows = {name: leaf.shape[0] for name, leaf in named_leaves(state)}
    if len(set(rows.values())) > 1:
        listed = ", ".join(f"{count} of {name}" for name, count in rows.items())
        raise ValueError(f"{source} has leaves with different numbers of rows ({listed}); the file is damaged")
    times.check(named_leaves(state), owner.config, source)
    state = map_state(lambda leaf, fresh: leaf.to(fresh.device), state, like)
    return _with_sums(state, owner) if without_sums else state


def _is_sum(name: str) -> bool:
    return name.rpartition(".")[2] in SUMS


def _void_sums(tensors: dict[str, Tensor], like: tuple[Any, ...]) -> dict[str, Tensor]:
    """Leaves in the place of partial sums that are missing or of an earlier version, with the shapes of today."""
    sums, first = ((name, leaf) for name, leaf in named_leaves(like) if _is_sum(name)), next(iter(tensors.values()))
    return {name: leaf.new_zeros((*tensors.get(name, first).shape[:1], *leaf.shape[1:])) for name, leaf in sums}


def _with_sums(state: Any, owner: Any) -> Any:
    """The state with partial sums that its attentions compute from the rings."""
    attentions = (module for module in owner.modules() if hasattr(module, "with_sums"))

    def visit(part: Any) -> Any:
        if "time" in _names(part):  # the state of one attention
            attention = next(attentions, None)
            return part if attention is None else attention.with_sums(part)
        new = [leaf if isinstance(leaf, Tensor) else visit(leaf) for leaf in part]
        return type(part)(*new) if is_state(part) else type(part)(new)

    return visit(state)


def _check_metadata(tensors: dict[str, Tensor], meta: dict[str, str], source: str) -> None:
    """Raise if this is not a state, or not as it was saved.

    An unknown key is an error: it may be the damaged name of a known one, whose check would be skipped.
    """
    if meta.get("format") not in (FORMAT, OLD_FORMAT):
        raise ValueError(f"{source} is not a nystream state, as written by save_state")
    unknown = [key for key in meta if key not in (*REQUIRED_KEYS, *OPTIONAL_KEYS)]
    if unknown:
        raise ValueError(f"{source} has unknown metadata {unknown[0]!r:.40}; the file is damaged")
    needed = (*REQUIRED_KEYS, "checksum") if "weights" in meta else REQUIRED_KEYS
    missing = [key for key in needed if key not in meta]
    if missing:
        raise ValueError(f"{source} lacks its {' and '.join(missing)}; the file is damaged")
    rest = {key: text for key, text in meta.items() if key != "checksum"}
    if "checksum" in meta and meta["checksum"] != checksum(tensors, rest):
        raise ValueError(f"the contents of {source} do not match its checksum; the file is damaged")


def checksum(tensors: dict[str, Tensor], meta: dict[str, str]) -> str:
    """CRC-32 of all leaves and metadata: detects damage, not tampering."""
    total = zlib.crc32(json.dumps(meta, sort_keys=True).encode())
    for name in sorted(tensors):
        total = zlib.crc32(raw_bytes(tensors[name]), zlib.crc32(name.encode(), total))
    return f"{total:08x}"


def _header(blob: bytes) -> dict[str, Any]:
    """The header of a safetensors file: JSON, after its length."""
    return json.loads(blob[8 : 8 + int.from_bytes(blob[:8], "little")])


def _in_order(blob: bytes) -> bytes:
    """The same file with sorted metadata; safetensors writes it in arbitrary order."""
    size = int.from_bytes(blob[:8], "little")
    header = _header(blob)
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # tensors must start at a multiple of eight
    return len(text).to_bytes(8, "little") + text + blob[8 + size :]


def _filled(like: S, tensors: dict[str, Tensor], prefix: str = "") -> S:
    new = [
        tensors[prefix + name] if isinstance(leaf, Tensor) else _filled(leaf, tensors, f"{prefix}{name}.")
        for name, leaf in zip(_names(like), like, strict=True)
    ]
    return type(like)(*new) if is_state(like) else type(like)(new)


def _index(rows: Rows) -> slice | Tensor:
    if isinstance(rows, slice):
        return rows
    index = torch.as_tensor(rows).reshape(-1)
    return index if index.numel() else index.long()  # an empty list would be a float tensor


def _names(state: tuple[Any, ...]) -> tuple[str, ...]:
    return getattr(state, "_fields", tuple(str(i) for i in range(len(state))))


def _describe(x: Tensor, rows: int | None = None) -> str:
    shape = list(x.shape) if rows is None else [rows, *x.shape[1:]]
    return f"{str(x.dtype).removeprefix('torch.')}{shape}"


def _differences(meta: dict[str, str], owner: Stateful) -> str:
    try:
        theirs = _flat(json.loads(meta["config"]))
    except (KeyError, ValueError, AttributeError, RecursionError):
        return "its config cannot be read"
    ours = _flat(json.loads(json.dumps(owner.config.to_dict())))
    names = [name for name in {**ours, **theirs} if theirs.get(name) != ours.get(name)]
    listed = [f"{name} is {theirs.get(name)!r} there and {ours.get(name)!r} here" for name in names]
    return ", ".join(listed) or "other fields"


def _flat(fields: Any, prefix: str = "") -> dict[str, Any]:
    """The fields of a nested config, by dotted name."""
    if not isinstance(fields, dict | list):
        return {prefix[:-1]: fields}
    items = fields.items() if isinstance(fields, dict) else enumerate(fields)
    return {key: value for name, field in items for key, value in _flat(field, f"{prefix}{name}.").items()}

"""The reader of a model's records."""

from __future__ import annotations

from nystream.config import ModelInfo
from nystream.data.reader import LiveReader, Policy, reader_from_dict, reject_gaps
from nystream.data.table_reader import TableReader
from nystream.data.vectors import LiveVectors
from nystream.models import StreamModel


def live_reader(model: StreamModel, missing: Policy | None = None, gaps: Policy | None = None) -> LiveReader:
    """Return the reader of a model's records: the one it was trained with, or one of plain vectors if it has none.

    Example:
        >>> import nystream as ns
        >>> from nystream.live import Session, live_reader
        >>> attention = ns.AttentionConfig("co-full-single", embed_dim=8, num_heads=2, window=6)
        >>> info = ns.ModelInfo(inputs=("a", "b"))
        >>> config = ns.ModelConfig(input_dim=2, output_dim=1, attention=attention)
        >>> model = ns.StreamModel(config, info)
        >>> session = Session(model, live_reader(model, missing="fill"))
        >>> [answer.filled for answer in session.take({"a": 1.0, "b": 2.0})]
        [()]
        >>> [answer.filled for answer in session.take({"a": 1.5})]
        [('b',)]
    """
    if model.info.reader is None:
        reject_gaps(gaps)
        config = model.config
        return LiveVectors(config.input_dim, model.info.inputs, config.update_size, missing or "fail")
    reader = reader_from_dict(model.info.reader)
    if len(reader.names) != model.config.input_dim:
        raise ValueError(
            f"the model's reader makes tokens of {len(reader.names)} numbers, but its input_dim is "
            f"{model.config.input_dim}"
        )
    return reader.live(missing, gaps)


def gaps_when_skipping(info: ModelInfo, gaps: Policy | None) -> Policy | None:
    """Return the policy for gaps if records that cannot be read are skipped.

    If a gap were an error and its record skipped, all later records would follow a gap.
    """
    reader = None if info.reader is None else reader_from_dict(info.reader)
    if not isinstance(reader, TableReader) or reader.time is None:
        return gaps
    if gaps == "fail":
        raise ValueError("`gaps='fail'`: no record after a gap could be read; give fill or skip")
    return gaps or ("fill" if reader.gaps == "fail" else reader.gaps)

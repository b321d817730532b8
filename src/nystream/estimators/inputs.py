"""What `fit` and `predict` accept: paths, DataFrames, arrays, and lists of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from nystream import extras
from nystream.data.table import Table, require


def is_source(data: Any) -> bool:
    """Whether these are data in files."""
    return isinstance(data, str | Path)


def are_sources(data: Any) -> bool:
    """Whether these are several files."""
    return isinstance(data, list | tuple) and bool(data) and all(map(is_source, data))


def is_frame(data: Any) -> bool:
    """Whether these are a DataFrame of any kind."""
    return hasattr(data, "columns") and not isinstance(data, np.ndarray)


def as_table(data: Any) -> Table:
    """A pandas or polars DataFrame, or any other that narwhals knows, as a table. An index of times is a column."""
    index = getattr(data, "index", None)
    if index is not None and str(getattr(index, "dtype", "")).startswith("datetime64"):
        data = data.reset_index(names=index.name or "time")
    pl, nw = require(), extras.require("a DataFrame", "narwhals.stable.v2")
    try:
        frame = nw.from_native(data, eager_only=True)
    except TypeError as error:
        raise TypeError(f"data is a {type(data).__name__}, which is not a DataFrame: {error}") from error
    columns = {}
    for name in frame.columns:
        series = frame[name]
        plain = series.dtype.is_numeric() or series.dtype == nw.Boolean
        columns[str(name)] = pl.Series(series.to_list(), strict=False) if plain else pl.Series(series.to_list())
    table = Table("data", pl.DataFrame(columns))
    if not len(table) or not table.names:
        raise ValueError("data has no rows")
    return table


def streams(estimator: Any, data: Any, reset: bool) -> tuple[list[NDArray[np.float32]], bool]:
    """Streams [T, width] in `data`, and whether it is a list of them: [N, T, width], or a list of arrays."""
    if hasattr(data, "ndim") and data.ndim == 3:
        data = list(np.asarray(data))
    if isinstance(data, list | tuple) and data and all(np.ndim(one) == 2 for one in data):
        checked = [check_array(one, dtype=np.float32, input_name=f"data[{i}]") for i, one in enumerate(data)]
        widths = {one.shape[1] for one in checked}
        if len(widths) > 1:
            raise ValueError(f"data has arrays of {len(widths)} widths, {sorted(widths)}, but all need the same")
        if reset:
            estimator.n_features_in_ = checked[0].shape[1]
        elif checked[0].shape[1] != estimator.n_features_in_:
            raise ValueError(
                f"data has {checked[0].shape[1]} features, but {type(estimator).__name__} was fitted to "
                f"{estimator.n_features_in_}"
            )
        return [np.array(one) for one in checked], True
    x = validate_data(estimator, data, reset=reset, dtype=np.float32, ensure_min_samples=2 if reset else 1)
    return [np.array(x)], False


def feature_names(estimator: Any) -> Sequence[str]:
    """The names of the features, if the data had any."""
    return tuple(map(str, getattr(estimator, "feature_names_in_", ())))

"""The estimator of forecasts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted, validate_data

from nystream.data.forecast_options import horizon_setting, horizons_in, quantiles_in
from nystream.data.forecast_problem import Forecast, levels
from nystream.data.forecast_values import Layout, forecasts, layout_of, middle, without_axes
from nystream.data.open_source import forecast_again, forecast_table, least, linear_path
from nystream.data.option_groups import ModelOptions, TableOptions
from nystream.data.ordered_rows import rows_in_order, series_in_order
from nystream.data.reader import reader_from_dict
from nystream.data.scoring import scored_from
from nystream.data.series import SeriesTables, as_series, read_for, series_in
from nystream.data.table_reader import TableReader
from nystream.estimators.arrays import aligned
from nystream.estimators.base import Estimator, paths_of, silent
from nystream.estimators.inputs import are_sources, as_table, feature_names, is_frame, is_source
from nystream.train import StreamData, TrainConfig, predict
from nystream.train.sampler import warm_up


@dataclass(kw_only=True, eq=False, repr=False)
class Forecaster(RegressorMixin, Estimator, ModelOptions, TableOptions):  # type: ignore[misc]
    """Forecasts columns of a table some rows ahead, or any numbers that belong to the rows of an array.

    The parameters are the options of `nystream train`. Several names, horizons or quantiles can also be given as a
    tuple, and horizons as a `range`.

    Example:
        >>> import numpy as np, polars as pl, nystream as ns
        >>> noise = np.random.default_rng(0).normal(size=600)
        >>> load = np.sin(np.arange(600) / 24 * 2 * np.pi) + 0.1 * noise
        >>> table = pl.DataFrame({"load": load})
        >>> model = ns.Forecaster(target="load", horizon=3, epochs=2, window=24).fit(table[:500])
        >>> forecasts = model.predict(table[500:])  # of the three rows after the table too
        >>> forecasts.shape
        (100,)
    """

    tasks: ClassVar[tuple[str, ...]] = ("forecasting",)

    def fit(
        self, data: Any, y: Any = None, *, out: str | Path | None = None, log: Callable[[str], None] = silent
    ) -> Self:
        """Fit a table, or rows and their targets.

        Args:
            data: The path of a table or a DataFrame, whose rows are in order of time; or an array [N, features]. With
                `series`, the column that names the series of a row, it may have several; the path of a folder of tables
                and a list of paths have one in each.
            y: Targets [N] or [N, targets] of the rows of an array: what is to be predicted from a row and those before
                it. For a forecast, shift them before; `horizon` is for tables.
            out: A folder for the run, which `load` and `nystream stream` read; a run that was stopped is resumed.
            log: Is called with each line that `nystream train` prints.
        """
        if y is not None:
            return self._fit_arrays(data, y, out, log)
        if is_source(data) or are_sources(data):
            self._fit_source(data, out, log)
        elif is_frame(data):
            settings = self.settings()
            table = as_table(data)
            problem = forecast_table(settings, series_in(table, settings.series) if settings.series else table)
            self.fit_problem(settings, problem, None if out is None else Path(out), log)
        else:
            raise ValueError(
                f"Forecaster requires y to be passed, but the target y is None; only a path or a DataFrame has columns "
                f"to forecast, and data is a {type(data).__name__}"
            )
        return self

    def _fit_arrays(self, data: Any, y: Any, out: str | Path | None, log: Callable[[str], None]) -> Self:
        x, y = validate_data(self, data, y, dtype=np.float32, y_numeric=True, multi_output=True, ensure_min_samples=2)
        y = np.array(y, np.float64)
        settings, columns = self.settings(), y.reshape(len(y), -1)
        self._one_target_ = y.ndim == 1
        if len(horizons_in(settings.horizon)) > 1:
            raise ValueError(
                f"horizon={self.horizon!r} is for tables; give y one column of targets for each number of rows ahead"
            )
        levels = quantiles_in(settings.quantiles)
        problem = aligned(np.array(x), columns, feature_names(self), linear_path(settings), levels, least(settings))
        self._fit_arrays_problem(settings, problem, out, log)
        return self

    def predict(self, data: Any) -> NDArray[np.float64]:
        """Return the forecasts after every row, [N], or [N, targets] if there are several targets.

        Several horizons have an axis of their own, [N, horizons] or [N, targets, horizons], and quantiles one more, the
        last. For a table, row i has the forecast of row i + `horizon`, in the units of the targets. It is NaN if
        columns that must be known in advance are not. Rows must be complete: if some are missing, this raises. Of
        several series, each is forecast on its own, and the forecasts are in the order of the rows; those of several
        files come file after file.
        """
        check_is_fitted(self, "model_")
        if self._reads_tables:
            output = self._forecasts(data)
        else:
            x = validate_data(self, data, reset=False, dtype=np.float32)
            base = np.zeros((len(x), self._layout.targets))
            output = without_axes(forecasts(self._outputs([np.array(x)]), self._layout, base), self._layout)
        one = output.shape[1] == 1 and (self._reads_tables or getattr(self, "_one_target_", True))
        return output[:, 0] if one else output

    def score(self, data: Any, y: Any = None) -> float:
        """Return R², the mean over targets, horizons and series: 1 for perfect forecasts, 0 for those of the mean.

        The median stands for quantiles. For tables, the first rows of a
        series, which only fill the window, do not count.
        """
        check_is_fitted(self, "model_")
        if not self._reads_tables:
            if y is None:
                raise ValueError("y=None: the score of an array needs its targets")
            predicted = self.predict(data)
            return float(
                r2_score(y, middle(predicted, self._layout.quantiles) if self._layout.quantiles else predicted)
            )
        problem = self._open(data)
        skip = scored_from(self.model_, problem, "all", warm_up(self.model_.config, TrainConfig()))
        output, _ = predict(self.model_, problem.part("all", skip), skip=skip)
        _, predicted, truth = (part.reshape(len(part), -1) for part in levels(problem, "all", skip, output))
        of_series = problem.split.table_of(problem.scored("all", skip))
        known = ~np.isnan(truth).any(1)
        scores = []
        for number in np.unique(of_series):
            rows = known & (of_series == number)
            if rows.sum() >= 2:
                scores.append(float(r2_score(truth[rows], predicted[rows])))
        if not scores:
            raise ValueError(f"data has {len(problem.y)} rows to score, too few: the first {skip} only fill the window")
        return float(np.mean(scores))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    @property
    def _reads_tables(self) -> bool:
        return bool((self.model_.info.reader or {}).get("kind") == "table")

    def _open(self, data: Any, **options: Any) -> Forecast:
        if is_source(data) or are_sources(data):
            problem = super()._open(data, **options)
            assert isinstance(problem, Forecast)
            return problem
        if not self._reads_tables:
            raise ValueError("the model was fitted to arrays, which `score` takes; only tables have baselines")
        policies = {name: options.pop(name, None) for name in ("missing", "gaps")}
        for name, value in options.items():
            if value:
                raise ValueError(f"{name}={value!r} is for files, but data is a {type(data).__name__}")
        table = as_table(data)
        source = table if self._reader.series is None else as_series(table, self._reader.series)
        return forecast_again(self.model_.info, source, **policies)

    def _forecasts(self, data: Any) -> NDArray[np.float64]:
        """Forecasts [N, targets, …] after every row of a table, in the order of its rows."""
        reader = self._reader
        if is_source(data) or are_sources(data):
            table = read_for(reader, paths_of(data))
        else:
            table = as_table(data) if reader.series is None else as_series(as_table(data), reader.series)
        if isinstance(table, SeriesTables):
            rows, starts, turned = series_in_order(reader, table)
            lengths, places = [len(each) for each in table.tables], table.rows
        else:
            rows, notes = rows_in_order(reader, table)
            starts, turned, lengths, places = (0,), (bool(notes),), [len(table)], np.arange(len(table))
        if len(rows.x) != sum(lengths) or np.diff([*starts, len(rows.x)]).tolist() != lengths or rows.notes:
            raise ValueError(
                f"{table.name} has {sum(lengths)} rows, but there are forecasts after {len(rows.x)} "
                f"({'; '.join(rows.notes)}), which would not be those of its rows: fill or drop rows first, or use "
                f"sessions()"
            )
        outputs = self._outputs(np.split(rows.x, starts[1:]))
        found = without_axes(forecasts(outputs, self._layout, rows.base, rows.scale), self._layout)
        output = np.empty_like(found)
        for start, length, newest_first in zip(starts, lengths, turned, strict=True):
            part = found[start : start + length]
            if reader.known and not reader.has_ahead(table.names):
                part[-reader.known_rows :] = np.nan  # what is known in advance ends with the table
            output[places[start : start + length]] = part[::-1] if newest_first else part
        return output

    @property
    def _layout(self) -> Layout:
        return layout_of(self.model_.info, self.model_.config.output_dim)

    @property
    def _reader(self) -> TableReader:
        reader = reader_from_dict(self.model_.info.reader or {})
        assert isinstance(reader, TableReader)
        return reader

    def _about(self) -> dict[str, Any]:
        return {**super()._about(), "one_target": getattr(self, "_one_target_", True)}

    def _restore(self, about: dict[str, Any]) -> None:
        super()._restore(about)
        self._one_target_ = about.get("one_target", True)
        info = self.model_.info
        self.horizon = horizon_setting(info.horizons or info.horizon or self.horizon)

    def _outputs(self, streams: Sequence[NDArray[np.float32]]) -> NDArray[np.float64]:
        """The model's outputs after every token of streams [T, input_dim], stream after stream."""
        empty = [np.zeros((len(x), self.model_.config.output_dim), np.float32) for x in streams]
        return predict(self.model_, StreamData(streams, empty))[0].double().numpy()

"""Your own data: from a file or a folder to training data, and from live records to tokens."""

from nystream.data.forecast import forecast
from nystream.data.forecast_problem import Forecast
from nystream.data.reader import LiveReader, Reader, RecordError, Token, reader_from_dict
from nystream.data.table import Table, read_table

# The function `forecast` hides the module of that name; `from nystream.data.forecast import ...` still finds it.

__all__ = [
    "Forecast",
    "LiveReader",
    "Reader",
    "RecordError",
    "Table",
    "Token",
    "forecast",
    "read_table",
    "reader_from_dict",
]

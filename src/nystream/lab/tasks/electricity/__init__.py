"""Electricity: total demand a while ahead, from the demand of every area or customer and the time."""

from nystream.lab.tasks.electricity.embedded import sample
from nystream.lab.tasks.electricity.features import Forecast, forecast
from nystream.lab.tasks.electricity.series import Series

__all__ = ["Forecast", "Series", "forecast", "sample"]

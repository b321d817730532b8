"""Electricity: total demand some hours ahead, from the demand of every area or customer and the time."""

from nystream.lab.tasks.electricity.eia930 import sample
from nystream.lab.tasks.electricity.features import DemandForecast, forecast
from nystream.lab.tasks.electricity.series import Series

__all__ = ["DemandForecast", "Series", "forecast", "sample"]

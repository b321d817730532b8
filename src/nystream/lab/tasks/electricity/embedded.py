"""A small real series that comes with the package, for the demo and the tests."""

from __future__ import annotations

from nystream.data.sample import FILE
from nystream.lab.tasks.electricity.eia930 import read
from nystream.lab.tasks.electricity.series import Series

# fmt: off
AREAS = (
    "SOCO", "TVA", "DUK", "FPL",  # the south-east
    "PJM-AEP", "PJM-CE", "PJM-DOM",  # the middle Atlantic and Chicago
    "MISO-0001", "MISO-0027", "MISO-8910",  # the Mississippi, from north to south
    "SWPP-OKGE", "ERCO-COAS", "ERCO-FWES", "ERCO-NCEN",  # Oklahoma and Texas
    "ISNE-4008", "NYIS-ZONJ", "NYIS-ZONK",  # Boston and New York
    "AZPS", "BPAT", "CISO-PGAE", "CISO-SCE", "NEVP", "PACE", "PSCO",  # the west
)
# fmt: on
YEARS = (2022, 2024)  # the first and the last


def sample() -> Series:
    """Hourly demand of 24 areas of the United States, 2022 to 2024, in megawatts; times are UTC.

    A slice of EIA-930 in the layout of `eia930`, its numbers unchanged: the cleaned demand of T. H. Ruggles et al.,
    Developing reliable hourly electricity demand data through screening and imputation, Scientific Data 7, 155, 2020.
    Licensed CC BY 4.0, unlike the code: https://creativecommons.org/licenses/by/4.0/

    Example:
        >>> from nystream.lab.tasks import electricity
        >>> series = electricity.sample()
        >>> series.values.shape, str(series.time[0])
        ((26304, 24), '2022-01-01T00:00')
    """
    return read(FILE)

"""`python -m nystream` is the command `nystream`."""

import sys

from nystream.cli import main

if __name__ == "__main__":
    sys.exit(main())

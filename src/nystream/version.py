"""The version, alone in a file: models write it into what they save."""

__version__ = "0.1.0"

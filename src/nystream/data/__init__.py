"""Data of the user's own: from a file or a folder to training data, and from live records to tokens."""

from nystream.data.reader import LiveReader, Reader, RecordError, Token, reader_from_dict

__all__ = ["LiveReader", "Reader", "RecordError", "Token", "reader_from_dict"]

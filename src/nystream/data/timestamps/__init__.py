"""The times of rows.

- `parse`: one timestamp, in a known format.
- `formats`: the known formats, and detecting the one that a column uses.
- `clock`: a date and a time of day from two columns.
- `zone`: local times of a time zone.
- `spacing`: the time step between rows.
- `timeline`: which rows of a table or stream are accepted, filled in or dropped, given their times.
- `column`: finding the time column of a table.
"""

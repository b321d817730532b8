"""`nystream report`: the records of a folder as tables, plots, Markdown and one HTML page.

records reads them, compare subtracts them pair by pair, tables and sections lay them out as a `document`, and markdown
and html write that down.
"""

"""`nystream report`: the records of a folder as tables, plots, Markdown and one HTML page.

records reads them, grouping sorts them by table, stacks picks the models that are shown side by side, compare subtracts
them pair by pair, tables, stack_table, plots and sections lay them out as a `document`, and markdown and html write
that down.
"""

"""The paper's tables and figures from one command.

cells       a row of a table, a point of a sweep or a line of an ablation: one record each
problems    the three tasks: data, sizes, training, baselines
train       one cell: all its runs trained together, then scored as streams
job, run    from a cell to its record; many cells, one after another or on a Ray cluster
report      from records to Markdown, HTML and plots
"""

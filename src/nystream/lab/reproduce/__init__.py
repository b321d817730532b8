"""The paper's tables and figures from one command: what is trained, how it is scored, and what is written down.

cells       a row of a table, a point of a sweep, a line of an ablation: one record each
problems    the three tasks: data, sizes, training, baselines
train       one cell: all its runs trained together, then scored as streams
run         many cells, one after another or on a Ray cluster; those that are done are not run again
report      from records to Markdown, HTML and plots
"""

"""The measurements of `nystream bench`: the cost of a step, compared with alternatives.

Every contender is checked against float64 before anything is timed, and a wrong one stops the run. Contenders are timed
in turns, a few steps each, so that other work on the machine affects all of them alike: ratios are more reliable than
times.
"""

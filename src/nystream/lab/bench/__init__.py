"""What a step costs, beside what else there is, in one run: the measurements behind `nystream bench`.

Every contender is checked against float64 before anything is timed, and one that is wrong stops the run. Contenders are
timed in turns, a few steps of one after a few steps of another, so that whatever else the machine does falls on all of
them alike: the ratios can be trusted further than the times.
"""

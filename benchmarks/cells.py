"""Time a step of every cell in results/, those of a task side by side in one run, and write it to their records.

    python benchmarks/cells.py thumos14

`nystream reproduce` times the cells of one command; tables that compare cells of several commands need one run.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from nystream.lab.reproduce import paper, store
from nystream.lab.reproduce.report import records
from nystream.lab.reproduce.steps import time_steps

RESULTS = Path(__file__).parent.parent / "results"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=list(paper.TASKS))
    task = parser.parse_args().task
    found = [dict(one.raw) for one in records.read(RESULTS) if "cell" in one.raw and one.group.task == task]
    by_width: dict[int, list[store.RecordDict]] = {}
    for record in found:
        by_width.setdefault(record["input_dim"], []).append(record)
    for cells in by_width.values():
        for record in time_steps(cells, f"python benchmarks/cells.py {task}"):
            store.write(RESULTS, record)
            print(f"{record['name']}: {record['step']['median_microseconds']:,.1f} µs", flush=True)


if __name__ == "__main__":
    main()

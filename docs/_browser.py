"""Block about the page in the browser, for `render.py`."""

from __future__ import annotations

from _source import results, source, table, us


def browser() -> str:
    """The time of a step in the browser, next to Python's."""
    record = results("browser")
    versions = record["versions"]
    chromium = versions["chromium"].partition(".")[0]
    rows = [
        [
            f"`{row['model']}`",
            f"{row['n']}/{row['d']}/{row['heads']}/{row['m']}",
            us(row["microseconds"]["onnxruntime"]),
            us(row["microseconds"]["browser"]),
            f"{row['ratio']:.1f}",
            f"{row['state_bytes']:,}",
        ]
        for row in record["models"]
    ]
    gtzan = record["models"][0]["microseconds"]
    whole, full, small = (
        gtzan[name] for name in ("browser", "browser, nothing computed", "browser, nothing computed, small states")
    )
    return (
        f"A step with one thread, in Python (onnxruntime {versions['onnxruntime']}, states overwritten in place) and "
        f"in headless Chromium {chromium} (onnxruntime-web {versions['onnxruntime-web']}); "
        f"medians of one run ({source(record)}):\n\n"
        + table(["model", "n/d/heads/m", "Python", "browser", "ratio", "bytes of state"], rows)
        + f"\n\nOf the {us(whole)} of the larger model, about {us(full - small)} go into moving its state: a graph "
        f"that computes nothing takes {us(full)} with states of that size, and {us(small)} with as many small ones. "
        f"Its own copy from input to output is part of that, so this is an upper bound."
    )

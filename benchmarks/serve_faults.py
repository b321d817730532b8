"""A service that is killed under load: nothing that was acknowledged is lost or applied twice.

    python benchmarks/serve_faults.py --write        # about three minutes, writes results/serve_faults.json
    python benchmarks/serve_faults.py --streams 20 --kills 2

Clients (`ns.AsyncClient`) push records of 200 streams of GTZAN's one-block model, each as soon as the last one was
answered and a short random pause is over. Ten times, at a random moment after it is ready, the service gets SIGKILL and
is started again. Then every answer is compared with that of an uninterrupted run, and the number of records that the
service has taken in with the number of answers. If any of them differs, the exit status is 1. A small form of it is
`tests/serve/test_killed.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import numpy as np
from _common import write_results
from _service import Service, gtzan_model, record
from numpy.typing import NDArray

import nystream as ns
from nystream.live import Sessions

RATE = 8.0  # records a second and stream, at most
CLIENTS = 10  # that share the streams
UP_SECONDS = 8.0  # that the service runs at most before it is killed
MOST_SECONDS = 240.0
TOLERANCE = 1e-5


class Follower:
    """Pushes the records of one stream.

    Attributes:
        answers: To each of its records.
        longest_wait: Seconds for one of them.
    """

    def __init__(self, place: int) -> None:
        self.place, self.key = place, f"stream {place}"
        self._chance = random.Random(place)
        self.answers: list[list[dict[str, Any]]] = []
        self.longest_wait = 0.0

    async def follow(self, client: ns.AsyncClient, stop: asyncio.Event) -> None:
        """Push until told to stop."""
        while not stop.is_set():
            began = time.perf_counter()
            self.answers.append(await client.push(self.key, record(self.place, len(self.answers) + 1)))
            self.longest_wait = max(self.longest_wait, time.perf_counter() - began)
            await asyncio.sleep(self._chance.expovariate(RATE))

    def values(self) -> NDArray[np.float64]:
        """Probabilities, [records, classes]."""
        return np.array([list(answers[0]["probabilities"].values()) for answers in self.answers])

    def is_numbered(self) -> bool:
        """Whether record i was token i of the stream: none was lost before it, and none applied twice."""
        numbers = [[(answer["record"], answer["token"]) for answer in answers] for answers in self.answers]
        return numbers == [[(number, number)] for number in range(1, len(self.answers) + 1)]


async def disturbed(service: Service, followers: list[Follower], kills: int, seed: int) -> list[float]:
    """Push records while the service is killed; return how many seconds each of its starts took."""
    chance, stop, starts = random.Random(seed), asyncio.Event(), list[float]()
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(ns.AsyncClient(service.url)) for _ in range(CLIENTS)]
        tasks = [
            asyncio.create_task(follower.follow(clients[follower.place % CLIENTS], stop)) for follower in followers
        ]
        for kill in range(1, kills + 1):
            await asyncio.sleep(chance.uniform(0.0, UP_SECONDS))
            await asyncio.to_thread(service.kill)
            await asyncio.to_thread(service.start)
            starts.append(service.start_seconds)
            print(f"kill {kill}: {sum(len(follower.answers) for follower in followers):,} answers", flush=True)
        await asyncio.sleep(UP_SECONDS / 2)
        stop.set()
        await asyncio.gather(*tasks)
    return starts


async def taken(service: Service, followers: list[Follower]) -> list[int]:
    """The number of records of each stream that the service has taken in."""
    async with ns.AsyncClient(service.url) as client:
        return [await client.open(follower.key) - 1 for follower in followers]


def uninterrupted(model: ns.StreamModel, followers: list[Follower]) -> list[NDArray[np.float64]]:
    """The probabilities of all streams, [records, classes] each, from sessions in this process."""
    sessions = Sessions(model, capacity=len(followers))
    rows = [list[NDArray[Any]]() for _ in followers]
    for number in range(1, max(len(follower.answers) for follower in followers) + 1):
        places = [follower.place for follower in followers if len(follower.answers) >= number]
        answers = sessions.take_many(places, [record(place, number) for place in places])
        for place, of_record in zip(places, answers, strict=True):
            rows[place].append(of_record[0].values)
    return [np.array(values, dtype=np.float64) for values in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--write", action="store_true", help="write results/serve_faults.json")
    arguments = parser.parse_args()
    model, followers = gtzan_model(), [Follower(place) for place in range(arguments.streams)]
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(Path(folder) / "model")
        service = Service(Path(folder) / "model", Path(folder) / "streams.db")
        try:
            run = disturbed(service, followers, arguments.kills, arguments.seed)
            starts = asyncio.run(asyncio.wait_for(run, MOST_SECONDS))
            counts = asyncio.run(taken(service, followers))
        finally:
            service.kill()
    answered = [len(follower.answers) for follower in followers]
    unequal = sum(count != number for count, number in zip(counts, answered, strict=True))
    misnumbered = sum(not follower.is_numbered() for follower in followers)
    worst = 0.0
    if not misnumbered:
        expected = uninterrupted(model, followers)
        pairs = zip(followers, expected, strict=True)
        worst = max(float(np.abs(follower.values() - values).max()) for follower, values in pairs)
    figures: dict[str, Any] = {
        "streams": arguments.streams,
        "kills": arguments.kills,
        "seed": arguments.seed,
        "records": sum(answered),
        "records_of_a_stream": [min(answered), max(answered)],
        "streams_with_another_count": unequal,
        "streams_with_other_numbers": misnumbered,
        "largest_difference": worst,
        "tolerance": TOLERANCE,
        "longest_wait_seconds": round(max(follower.longest_wait for follower in followers), 2),
        "longest_start_seconds": round(max(starts, default=0.0), 2),
        "seconds": round(time.perf_counter() - began),
    }
    print(json.dumps(figures))
    if unequal or misnumbered or not worst <= TOLERANCE:
        sys.exit("records were lost or applied twice, or answers differ from those of an uninterrupted run")
    if arguments.write:
        write_results("serve_faults", figures)


if __name__ == "__main__":
    main()

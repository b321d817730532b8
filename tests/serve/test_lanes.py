"""The requests of a gateway on their way to replicas, which are functions here."""

import asyncio
import random

import pytest

from nystream.serve.cluster import lanes as module
from nystream.serve.cluster.lanes import Condition, Lanes, received, returned
from nystream.serve.lanes import LANES, lane_of
from nystream.serve.metrics import Metrics
from nystream.serve.protocol import Push, RequestError
from nystream.serve.settings import Settings
from nystream.serve.view.looking import Look

IDLE = Condition("somewhere 1", 3, 1000)


def answers(requests):
    return [{"number": value.number, "answers": [value.record]} for _, _, value in requests], IDLE


def ask(send, requests, **settings):
    """The replies to (kind, value), and the lanes."""

    async def work():
        lanes = Lanes(send, Settings(**settings), Metrics())
        return await lanes.ask_all([(kind, "owner", value) for kind, value in requests]), lanes

    return asyncio.run(work())


def test_records_of_a_stream_stay_in_order_and_go_together():
    sent, chance = [], random.Random(0)

    async def send(lane, requests):
        sent.append((lane, [value for _, _, value in requests]))
        await asyncio.sleep(chance.random() / 100)
        return answers(requests)

    async def work():
        lanes = Lanes(send, Settings(max_batch=8), Metrics())
        pushes = [Push(f"stream {number % 5}", number, number) for number in range(200)]
        tasks = []
        for push in pushes:
            tasks.append(asyncio.create_task(lanes.ask("push", "owner", push)))
            await asyncio.sleep(0)
        replies = [reply for (reply,) in await asyncio.gather(*tasks)]
        assert [reply["number"] for reply in replies] == list(range(200))
        assert lanes.replicas == [IDLE]

    asyncio.run(work())
    assert max(len(values) for _, values in sent) == 8
    for key in range(5):
        numbers = [value.number for _, values in sent for value in values if value.key == f"stream {key}"]
        assert numbers == sorted(numbers)
    assert all(lane == lane_of("owner", value.key) for lane, values in sent for value in values)


@pytest.mark.parametrize("how", ["error", "cancelled", "silence"])
def test_a_replica_that_gives_no_reply_is_taken_for_lost(monkeypatch, how):
    monkeypatch.setattr(module, "REPLY_SECONDS", 0.05)
    calls = []

    async def send(lane, requests):
        calls.append(lane)
        if len(calls) > 1:
            return answers(requests)
        if how == "error":
            raise ConnectionError("the actor died")
        if how == "cancelled":
            raise asyncio.CancelledError
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:  # a call that does not end, even if it is cancelled
            await asyncio.sleep(60)

    async def work():
        lanes = Lanes(send, Settings(), Metrics())
        (lost,) = await lanes.ask("push", "owner", Push("key", 1, "record"))
        assert (lost.code, lost.details) == ("moved", {"retry_after": module.RETRY_SECONDS})
        (reply,) = await lanes.ask("push", "owner", Push("key", 1, "record"))
        assert reply["number"] == 1
        assert lanes.ready

    asyncio.run(asyncio.wait_for(work(), 20))


def test_lists_and_looks_find_a_replica():
    seen = []

    async def send(lane, requests):
        seen.append(lane)
        return [{}] * len(requests), IDLE

    requests = [("list", ("", 10)), ("find", "key"), ("look", Look(search="a")), ("look", Look(key="key"))]
    ask(send, requests)
    anywhere, there = lane_of("owner", ""), lane_of("owner", "key")
    assert anywhere != there
    assert sorted(seen) == sorted([anywhere, there])
    assert all(0 <= lane < LANES for lane in seen)


def test_the_queue_is_bounded():
    async def send(lane, requests):
        return answers(requests)

    pushes = [("push", Push("key", number, None)) for number in range(3)]
    with pytest.raises(RequestError, match="may; send 3 later"):
        ask(send, pushes, max_queue=2)


def test_errors_travel():
    error = RequestError("gap", "number 3 came", expected=2, retry_after=0.5)
    again = received(returned(error))
    assert again.to_dict() == error.to_dict()
    assert received(returned({"number": 1})) == {"number": 1}

"""The service on a Ray cluster of this machine: whatever happens to its replicas, nothing is lost."""

import asyncio
import json
import os
import secrets
import signal
import socket
import time
import urllib.request

import numpy as np
import pytest
from websockets.sync.client import connect

import nystream as ns
from nystream import clusters
from nystream.serve.cluster import deployments
from nystream.serve.cluster import run as cluster_run
from nystream.serve.cluster.deployments import APPLICATION, REPLICA, cluster_application
from nystream.serve.lanes import LANES, lane_of
from nystream.serve.settings import Settings

pytestmark = pytest.mark.deploy
# The clusters of these tests have a token of their own; Ray would else keep one in the home folder.
os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
pytest.importorskip("ray.serve", reason="a cluster needs Ray Serve: pip install -c constraints.txt '.[ray]'")

STREAMS = 24


@pytest.fixture(scope="module")
def port():
    """That of a Ray cluster on this machine."""
    from ray import serve

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with clusters.connected(clusters.LOCAL, cpus=4):
        yield port
        serve.shutdown()


@pytest.fixture(params=["redis", "folder"])
def cluster(request, port, model, tmp_path, monkeypatch):
    """A service with two replicas; `cluster.scale` changes that."""
    monkeypatch.setattr(deployments, "HEALTH_SECONDS", 600.0)  # a paused replica is not replaced, however slow the test
    from ray import serve

    is_redis = request.param == "redis"
    store = f"{request.getfixturevalue('redis_url')}#{tmp_path.name}" if is_redis else f"{tmp_path}/streams/"
    settings = Settings(store=store, port=port, snapshot_every=20, backend="torch")
    cluster = Cluster(model, cluster_run.prepared(model, settings))
    application = cluster_application(model, cluster.settings, cluster_run.Tokens(), 2, 1)
    cluster_run.deploy(application, cluster.settings)
    yield cluster
    serve.delete(APPLICATION)


class Cluster:
    def __init__(self, model, settings):
        self.model, self.settings = model, settings
        self.url = f"ws://127.0.0.1:{settings.port}"

    def processes(self):
        """Which process has each lane."""
        from ray import serve

        handle = serve.get_deployment_handle(REPLICA, APPLICATION)
        calls = [handle.options(session_id=str(lane)).about.remote() for lane in range(LANES)]
        return [call.result(timeout_s=180)["process"] for call in calls]

    def scale(self, replicas):
        cluster_run.run_on_ray(self.model, self.settings, clusters.LOCAL, replicas)  # as the command, run again

    def wait_for(self, replicas, seconds=180):
        from ray import serve

        end = time.monotonic() + seconds
        while time.monotonic() < end:
            deployment = serve.status().applications[APPLICATION].deployments[REPLICA]
            if deployment.replica_states.get("RUNNING", 0) == replicas and deployment.status == "HEALTHY":
                return
            time.sleep(0.1)
        pytest.fail(f"there are not {replicas} replicas after {seconds} s: {deployment}")


class Load:
    """Streams that are pushed to all the time."""

    def __init__(self, cluster, records):
        self._cluster, self._records = cluster, records
        self.got = [[] for _ in range(STREAMS)]

    async def _follow(self, client, stream, stop):
        while not stop.is_set():
            number = len(self.got[stream]) + 1
            self.got[stream].append(await client.push(f"stream {stream}", self._records(stream, number)))

    async def grown(self, by=15, streams=range(STREAMS)):
        before = [len(answers) for answers in self.got]
        while any(len(self.got[stream]) < before[stream] + by for stream in streams):
            await asyncio.sleep(0.02)

    def run(self, story, seconds=400):
        """Push while `story`, a coroutine, happens."""

        async def work():
            stop = asyncio.Event()
            async with ns.AsyncClient(self._cluster.url) as client:
                tasks = [asyncio.create_task(self._follow(client, stream, stop)) for stream in range(STREAMS)]
                await self.grown()
                await story(self)
                await self.grown()
                stop.set()
                await asyncio.gather(*tasks)
            async with ns.AsyncClient(self._cluster.url) as client:
                self.next = [await client.open(f"stream {stream}") for stream in range(STREAMS)]

        asyncio.run(asyncio.wait_for(work(), seconds))

    def check(self, uninterrupted):
        """Every record was applied once, with the answers of a service that was never disturbed."""
        for stream, answers in enumerate(self.got):
            expected = uninterrupted([self._records(stream, number) for number in range(1, len(answers) + 1)])
            assert [answer[0]["token"] for answer in answers] == list(range(1, len(answers) + 1))
            assert self.next[stream] == len(answers) + 1
            values = [[answer[0]["output"]["sum"] for answer in these] for these in (answers, expected)]
            np.testing.assert_allclose(*values, rtol=0, atol=1e-5)


def check_page(cluster):
    """The page sees the streams of all replicas."""
    http = cluster.url.replace("ws", "http")
    with urllib.request.urlopen(http) as page:
        assert b"<title>" in page.read()
    with urllib.request.urlopen(f"{http}/v1/status") as reply:
        status = json.load(reply)
    assert status["streams_in_memory"] >= STREAMS
    assert status["records"]["answered"] > 0
    with connect(f"{cluster.url}/v1/live") as feed:
        feed.send(json.dumps({"type": "watch", "keys": ["stream 3"], "search": "stream"}))
        seen = {}
        while "answers" not in seen:
            messages = json.loads(feed.recv(timeout=10))
            seen |= {message["type"]: message for message in messages}
    assert len(seen["streams"]["streams"]) == STREAMS
    assert seen["answers"]["key"] == "stream 3"


def test_a_killed_replica_is_replaced(cluster, records, uninterrupted):
    load = Load(cluster, records)

    async def story(load):
        process = (await asyncio.to_thread(cluster.processes))[0]
        os.kill(process, signal.SIGKILL)
        await load.grown()
        await asyncio.to_thread(cluster.wait_for, 2)
        assert process not in await asyncio.to_thread(cluster.processes)

    load.run(story)
    load.check(uninterrupted)


def test_a_change_of_the_number_of_replicas_moves_streams(cluster, records, uninterrupted):
    load, seen = Load(cluster, records), []

    async def story(load):
        seen.append(await asyncio.to_thread(cluster.processes))
        for replicas in (3, 1):
            await asyncio.to_thread(cluster.scale, replicas)
            await asyncio.to_thread(cluster.wait_for, replicas)
            await load.grown()
            seen.append(await asyncio.to_thread(cluster.processes))

    load.run(story)
    check_page(cluster)
    two, three, one = map(set, seen)
    assert (len(two), len(three), len(one)) == (2, 3, 1)
    assert two < three  # none was replaced
    assert one < three
    load.check(uninterrupted)


def test_a_replica_that_comes_back_from_a_pause_changes_nothing(cluster, records, uninterrupted):
    load, moved = Load(cluster, records), []

    async def story(load):
        before = await asyncio.to_thread(cluster.processes)
        paused = before[0]
        os.kill(paused, signal.SIGSTOP)  # with records on their way to it
        try:
            await asyncio.to_thread(cluster.scale, 4)
            await asyncio.to_thread(cluster.wait_for, 4)
            others = [stream for stream in range(STREAMS) if before[lane_of("", f"stream {stream}")] != paused]
            await load.grown(streams=others)
            # Streams of the paused replica whose lanes have moved go on; it does not know that.
            grown = [len(answers) for answers in load.got]
            theirs, end = set(range(STREAMS)) - set(others), time.monotonic() + 60
            while not moved and time.monotonic() < end:
                await asyncio.sleep(0.5)
                moved.extend(stream for stream in theirs if len(load.got[stream]) > grown[stream] + 5)
        finally:
            os.kill(paused, signal.SIGCONT)
        await load.grown()
        assert paused in await asyncio.to_thread(cluster.processes)  # it was not replaced

    load.run(story)
    assert moved
    load.check(uninterrupted)

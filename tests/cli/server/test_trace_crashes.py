"""A receiver of traces that is killed under load: what it has acknowledged is scored, and each trace once."""

import asyncio
import contextlib
import json
import os
import random
import threading
import time
from collections import Counter
from datetime import UTC, datetime

import httpx

from assay.auth import keys
from assay.backends.stores.open import open_store
from assay.cases.outcomes import RESULTS
from assay.fep.trace_windows.registry import HOST
from assay.fep.trace_windows.verdict_sender import SENDER
from assay.fep.trace_windows.window import windows_of
from assay.ports import DeleteDocument, Transaction
from assay.runs.log_reader import read_chunks
from support.servers.server_group import ServerGroup
from support.traces.received import model_call, new_trace, request, root
from support.traces.receivers import Receiver, records_of_protobuf
from support.waiting import PATIENCE, wait_until

SETTINGS = """
[traces.support]
checks = [{contains = "degrees"}]
settle = "0s"
quiet = "600s"
"""


class Sender(threading.Thread):
    """Sends traces one after another, each in two requests, and remembers those whose requests were answered."""

    def __init__(self, key):
        super().__init__(daemon=True)
        self.address, self.acknowledged, self.stopped = "", [], threading.Event()
        self._headers = {"authorization": f"Bearer {key}"}

    def run(self):
        with httpx.Client(headers=self._headers, timeout=PATIENCE) as client:
            while not self.stopped.is_set():
                trace = new_trace()
                if self._send(client, model_call(trace)) and self._send(client, root(trace)):
                    self.acknowledged.append(trace)

    def _send(self, client, span):
        while not self.stopped.is_set():
            try:
                answer = client.post(f"{self.address}/v1/traces", json=request(span))
            except httpx.TransportError:
                time.sleep(0.02)  # it is sent again, as exporters do
                continue
            assert (answer.status_code, answer.json()) == (200, {}), answer.text
            return True
        return False


class Record:
    """What the store holds, seen from outside."""

    def __init__(self, loop, address):
        self._loop, self._store = loop, loop.run(open_store(address))

    def key(self):
        made = keys.create(self._store, tenant="acme", scopes={"traces:write"}, now=datetime.now(UTC))
        return self._loop.run(made)[1].reveal()

    def windows(self):
        return self._loop.run(windows_of(self._store, "acme", "support"))

    def scored(self):
        return sum(window.counts.scored for window in self.windows())

    def results(self):
        """The traces that have a result, each as often as it has one."""

        async def read(run):
            return [line async for chunk in read_chunks(self._store, run, RESULTS) for line in chunk.lines()]

        lines = [line for window in self.windows() for line in self._loop.run(read(window.run.id))]
        return Counter(json.loads(line)["execution_context"]["test_case"]["id"] for line in lines)

    def forget_the_leases(self):
        """As if the time had passed after which another process may take up what a dead one held."""
        for window in self.windows():
            if window.run.holder is not None:
                self._loop.run(self._store.release(window.run.id, window.run.holder))
        for document in self._loop.run(self._store.documents(HOST, SENDER)):
            gone = DeleteDocument(tenant=HOST, kind=SENDER, key=document.key, version=None)
            self._loop.run(self._store.commit(Transaction(documents=[gone])))

    def close(self):
        self._loop.run(self._store.close())


@contextlib.contextmanager
def life(zygote, folder, address, senders):
    """A receiver until it is killed."""
    environ = {**os.environ, "PYTHONUNBUFFERED": "1", "ASSAY_DATABASE_URL": address}
    process = zygote.start("serve", "--port", "0", folder=folder, pipe=True, environ=environ)
    try:
        url = ServerGroup(process, folder).address
        for sender in senders:
            sender.address = url
        yield
    finally:
        process.kill()
        process.wait(PATIENCE)
        process.close()


def test_what_a_killed_receiver_has_acknowledged_is_scored_once(zygote, disk, tmp_path, series):
    (tmp_path / "assay.toml").write_text(SETTINGS)
    with asyncio.Runner() as loop, contextlib.closing(Record(loop, disk)) as record:
        senders = [Sender(record.key()) for _ in range(3)]
        for number in range(series(1, 10)):
            before = record.scored()
            with life(zygote, tmp_path, disk, senders):
                if not number:
                    _ = [sender.start() for sender in senders]
                wait_until(lambda before=before: record.scored() > before + 20)
                time.sleep(random.random() / 4)  # the kill comes at any instant
            record.forget_the_leases()
        with life(zygote, tmp_path, disk, senders):
            _ = [sender.stopped.set() for sender in senders]
            _ = [sender.join(PATIENCE) for sender in senders]
            acknowledged = {trace for sender in senders for trace in sender.acknowledged}
            wait_until(lambda: acknowledged <= set(record.results()))
        found = record.results()
        assert len(acknowledged) > 20
        assert set(found.values()) == {1}
        assert found.total() == record.scored()


def test_verdicts_of_a_killed_sender_arrive_and_what_was_acknowledged_is_not_sent_again(
    zygote, disk, tmp_path, series
):
    with (
        Receiver() as backend,
        asyncio.Runner() as loop,
        contextlib.closing(Record(loop, disk)) as record,
    ):
        (tmp_path / "assay.toml").write_text(f'{SETTINGS}to = "otlp={backend.url}"\n')
        sender, kills = Sender(record.key()), series(1, 10)
        for number in range(kills):
            before = backend.asked
            with life(zygote, tmp_path, disk, [sender]):
                if not number:
                    sender.start()
                wait_until(lambda before=before: backend.asked > before + 2)
                time.sleep(random.random() / 10)  # the kill comes at any instant
            record.forget_the_leases()
        with life(zygote, tmp_path, disk, [sender]):
            sender.stopped.set()
            sender.join(PATIENCE)
            acknowledged = set(sender.acknowledged)
            wait_until(lambda: acknowledged <= {one["trace"] for one in list(backend.events)})
        sent = [
            {one["log.record.uid"] for one in records_of_protobuf(body)} for _, _, body in backend.requests
        ]
        again = [at for at, uids in enumerate(sent) if any(uids & other for other in sent[:at])]
        assert len(again) <= kills  # a batch whose acknowledgement the kill took
        verdicts = {one["log.record.uid"]: one["trace"] for one in backend.events}
        assert set(Counter(verdicts.values()).values()) == {1}

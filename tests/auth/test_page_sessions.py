"""Sessions of the page: a code works once and for minutes; a session ends by its time, by its key, and by its own wish."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from assay.auth import keys, one_time_code, page_sessions
from assay.auth.authenticator import Authenticator
from assay.backends.stores.memory import MemoryStore
from assay.errors import Unauthenticated
from assay.ports import Principal

NOW = datetime(2026, 7, 1, tzinfo=UTC)
PRINCIPAL = Principal(tenant="acme", id="command", scopes=frozenset({"runs:read"}))


class SettableClock:
    """A clock that a test sets."""

    def __init__(self):
        self.at = NOW

    def now(self):
        return self.at


def opened(store, **more):
    async def work():
        code = await one_time_code.create_code(store, PRINCIPAL, NOW, **more)
        return await one_time_code.exchange(store, code.reveal(), NOW)

    return asyncio.run(work())


def test_a_code_works_once_even_for_concurrent_callers():
    store = MemoryStore()

    async def work():
        code = (await one_time_code.create_code(store, PRINCIPAL, NOW)).reveal()
        many = [one_time_code.exchange(store, code, NOW) for _ in range(20)]
        return await asyncio.gather(*many, return_exceptions=True)

    answers = asyncio.run(work())
    refused = [one for one in answers if isinstance(one, Unauthenticated)]
    assert len(refused) == 19
    assert {one.code for one in refused} == {"code_refused"}


@pytest.mark.parametrize("after", [one_time_code.CODE_LIFE, timedelta(days=1)])
def test_a_code_is_refused_after_its_time(after):
    store = MemoryStore()

    async def work():
        code = (await one_time_code.create_code(store, PRINCIPAL, NOW)).reveal()
        await one_time_code.exchange(store, code, NOW + after)

    with pytest.raises(Unauthenticated, match="one-time code"):
        asyncio.run(work())


@pytest.mark.parametrize(
    "text", ["", "x", one_time_code.CODE_PREFIX, page_sessions.PREFIX + "x" * 43, "\udcff", "a" * 10_000]
)
def test_an_invalid_code_is_refused(text):
    with pytest.raises(Unauthenticated, match="one-time code"):
        asyncio.run(one_time_code.exchange(MemoryStore(), text, NOW))


def test_a_session_acts_for_its_opener_until_it_expires_or_ends():
    store, clock = MemoryStore(), SettableClock()
    text = opened(store).text.reveal()
    gate = Authenticator(store, clock=clock, seconds=0)
    assert asyncio.run(gate.authenticate(text)) == PRINCIPAL
    clock.at = NOW + page_sessions.LIFE
    with pytest.raises(Unauthenticated, match="expired"):
        asyncio.run(gate.authenticate(text))
    clock.at = NOW
    assert asyncio.run(page_sessions.end(store, text))
    assert not asyncio.run(page_sessions.end(store, text))
    with pytest.raises(Unauthenticated):
        asyncio.run(gate.authenticate(text))


def test_a_session_ends_with_the_key_that_opened_it():
    store, gate_clock = MemoryStore(), SettableClock()

    async def work():
        key, _ = await keys.create(store, tenant="acme", now=NOW)
        code = await one_time_code.create_code(store, PRINCIPAL, NOW, key=key.id)
        text = (await one_time_code.exchange(store, code.reveal(), NOW)).text.reveal()
        gate = Authenticator(store, clock=gate_clock, seconds=0)
        await gate.authenticate(text)
        await keys.revoke(store, key.id, now=NOW)
        await gate.authenticate(text)

    with pytest.raises(Unauthenticated) as refused:
        asyncio.run(work())
    assert refused.value.code == "key_revoked"


def test_the_store_has_neither_code_nor_key_in_clear():
    store = MemoryStore()
    text = opened(store).text.reveal()

    async def work():
        code = (await one_time_code.create_code(store, PRINCIPAL, NOW)).reveal()
        codes = await store.documents("", one_time_code.CODE)
        return code, [*codes, *await store.documents("", page_sessions.SESSION)]

    code, documents = asyncio.run(work())
    everything = b"".join(document.key.encode() + document.data for document in documents)
    assert len(documents) == 2
    assert code.encode() not in everything
    assert text.encode() not in everything

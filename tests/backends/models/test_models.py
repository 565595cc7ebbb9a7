"""Models against a real local provider (FEP 2.3.6, FEP-25, FEP-26, FEP-39): what fails, how it is called, what it costs."""

import asyncio
import json
import logging
import math
import ssl
import traceback
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import genai_prices
import msgspec
import pytest
import trustme

from assay.backends.models.cached import CachedModel, DiskCache, key_of
from assay.backends.models.json_reply import read_value
from assay.backends.models.key_scrubbing import looks_random, scrub
from assay.backends.models.openai_compatible import OpenAICompatibleModel, is_strict
from assay.backends.models.prices import TokenCounts, cost, published_cost
from assay.backends.models.provider_client import ProviderClient
from assay.backends.models.provider_faults import Backoff, may_pass, pause, retry_after, throttles
from assay.backends.models.rate_limit import AdaptiveLimiter, RequestRate, adjust, spacing
from assay.backends.models.transport import ConnectionLost, HttpAnswer, TimedOut, TooLargeReply
from assay.errors import Fault, ForeignFault, TimeFault, UsageError, ValueFault
from assay.ports import Completion, CompletionRequest, Message, Prices, Provider, Secret
from assay.testing import ScriptedModel
from support.models.provider_server import STEPS, ProviderServer
from support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

CANARY = "sk-canary-7d1f9b3e5a"
SCHEMA = {
    "type": "object",
    "required": ["passed"],
    "properties": {"passed": {"type": "boolean"}},
    "additionalProperties": False,
}


@pytest.fixture(scope="session", params=[False, True], ids=["asyncio", "libuv"])  # of a command, of a server
def anyio_backend(request):
    return "asyncio", {"use_uvloop": request.param}


@pytest.fixture
def server():
    with ProviderServer() as server:
        yield server


def provider(server, **more: Any) -> Provider:
    known: dict[str, Any] = {"name": "local", "base_url": server.base_url, "api_key": Secret(CANARY)}
    known |= {"timeout": 30.0, "deadline": 60.0}
    return Provider(**{**known, **more})


@asynccontextmanager
async def model(server, *, max_bytes=1_000_000, **more):
    line = ProviderClient(provider(server, **more), backoff=Backoff(base=0.002), max_bytes=max_bytes)
    model = OpenAICompatibleModel(line)
    yield model
    await model.close()


def ask(script="ok", **more: Any) -> CompletionRequest:
    known: dict[str, Any] = {"messages": (Message("user", "Is it good?"),), "model": script, "schema": SCHEMA}
    return CompletionRequest(**{**known, **more})


# what a provider answers


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("ok", {"value": {"passed": True}, "finish_reason": "stop", "structured": True, "attempts": 1}),
        ("slow:0.05", {"value": {"passed": True}}),
        ("500,500,ok", {"value": {"passed": True}, "attempts": 3}),
        ("429,ok", {"value": {"passed": True}, "attempts": 2}),
        ("429:0.05,ok", {"value": {"passed": True}, "attempts": 2}),
        ("hidden:502,ok", {"value": {"passed": True}, "attempts": 2}),  # an error under a 200
        ("drop,ok", {"value": {"passed": True}, "attempts": 2}),
        ("cut,ok", {"value": {"passed": True}, "attempts": 2}),
        (
            "plain",
            {"value": {"passed": True}, "structured": False, "attempts": 2},
        ),  # the schema went into the prompt
        (
            "wrong",
            {"value": {"unexpected": 1}, "problem": None},
        ),  # JSON; whether it fits is the check's to say
        ("prose", {"value": msgspec.UNSET, "problem": "is not JSON: Expecting value at character 0"}),
        (
            "twice",
            {"value": msgspec.UNSET, "problem": "has the member 'passed' twice"},
        ),  # it contradicts itself
        ("length", {"value": msgspec.UNSET, "finish_reason": "length", "text": '{"passed": tru'}),
        ("refusal", {"text": "", "refusal": "I cannot judge this."}),
        ("filter", {"finish_reason": "content_filter"}),
        ("endless", {"finish_reason": "unknown"}),
        ("parts", {"value": {"passed": True}}),
        ("chunks", {"value": {"passed": True}, "attempts": 1}),
        ("gzip", {"value": {"passed": True}, "attempts": 1}),  # which nobody asked for
        ("until_closed", {"value": {"passed": True}, "attempts": 1}),  # of no length: the end is the end
        ("continue", {"value": {"passed": True}, "attempts": 1}),  # a 100 before the 200
        ("noise,ok", {"value": {"passed": True}, "attempts": 2}),
        ("unused", {"input_tokens": None, "output_tokens": None, "cost_usd": None}),
        (
            "misused",
            {"input_tokens": None, "output_tokens": None, "cost_usd": None},
        ),  # less than none, and a word
    ],
)
async def test_a_reply_has_text_tokens_and_model(server, script, expected):
    async with model(server) as judge:
        reply = await judge.complete(ask(script))
    assert {name: getattr(reply, name) for name in expected} == expected
    assert reply.provider == "local"
    assert reply.model == script
    assert not reply.cached


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("script", "options", "fault", "recoverable", "says", "requests"),
    [
        (
            "429",
            {},
            ForeignFault,
            True,
            "answered 429 (Too Many Requests) 3 times; lower its max_concurrency",
            3,
        ),
        ("429:5000", {}, ForeignFault, True, "answered 429", 1),  # longer than it may wait: not sat through
        ("quota", {}, ForeignFault, True, "You exceeded your current quota", 1),  # no waiting ends it
        ("529", {}, ForeignFault, True, "lower its max_concurrency", 3),
        ("500", {}, ForeignFault, True, "answered 500 (Internal Server Error) 3 times: no: 500", 3),
        ("503:0.01", {}, ForeignFault, True, "answered 503", 3),
        ("408", {}, ForeignFault, True, "answered 408", 3),
        ("409", {}, ForeignFault, True, "answered 409", 3),
        ("hidden", {}, ForeignFault, True, "answered 502 (Bad Gateway) 3 times: the upstream is gone", 3),
        ("drop", {}, ForeignFault, True, "could not be reached 3 times", 3),
        ("cut", {}, ForeignFault, True, "could not be reached 3 times", 3),
        ("noise", {}, ForeignFault, True, "could not be reached 3 times", 3),  # no HTTP
        ("hang", {"timeout": 1.0}, TimeFault, True, "gave no answer 3 times, ", 3),
        ("hang", {"deadline": 0.9}, TimeFault, True, "gave no answer in 0.", 1),  # what is left of 0.9 s
        ("drip", {"timeout": 1.0}, TimeFault, True, "gave no answer 3 times, ", 3),
        ("400", {}, ForeignFault, False, "answered 400 (Bad Request): no: 400", 1),
        ("401", {}, ForeignFault, False, "answered 401 (Unauthorized); check its api_key", 1),
        ("403", {}, ForeignFault, False, "answered 403 (Forbidden); its api_key may not do this", 1),
        ("404", {}, ForeignFault, False, "check its base_url and the model's name", 1),
        ("redirect", {}, ForeignFault, False, "answered 307", 1),  # a key is not carried elsewhere
        ("half", {}, ForeignFault, False, "answered 200 without a chat completion", 1),
        ("page", {}, ForeignFault, False, "answered 200 without a chat completion", 1),
        ("flood", {}, ForeignFault, False, "sent more than 1000000 bytes in one answer", 1),
        ("bomb", {}, ForeignFault, False, "sent more than 1000000 bytes in one answer", 1),
        ("flood:500", {}, ForeignFault, False, "sent more than 1000000 bytes in one answer", 1),
    ],
)
async def test_a_failure_is_a_fault_that_is_transient_or_not(
    server, script, options, fault, recoverable, says, requests
):
    async with model(server, max_retries=2, max_concurrency=1, **options) as judge:
        with pytest.raises(fault) as raised:
            await judge.complete(ask(script))
    assert says in str(raised.value)
    assert str(raised.value).startswith("provider 'local'")
    assert raised.value.recoverable is recoverable
    assert raised.value.type == ("timeout_error" if fault is TimeFault else "unknown_error")
    assert len(server.seen) == requests


async def test_a_refused_connection_is_transient():
    with ProviderServer() as gone:
        there = provider(gone, max_retries=1)
    judge = OpenAICompatibleModel(ProviderClient(there, backoff=Backoff(base=0.001)))
    with pytest.raises(ForeignFault, match=rf"at {gone.base_url} could not be reached 2 times") as raised:
        await judge.complete(ask())
    await judge.close()
    assert raised.value.recoverable


@pytest.mark.sample(2)
async def test_retry_after_is_waited_for(server):
    loop = asyncio.get_running_loop()
    async with model(server) as judge:
        started = loop.time()
        reply = await judge.complete(ask("429:0.2,ok"))
        took = loop.time() - started
    assert took >= 0.2
    assert reply.seconds <= took - 0.19  # it waited in line, where its deadline does not run


@pytest.mark.parametrize(
    ("script", "options", "requests"),
    [
        ("429", {"max_retries": 0}, 1),
        ("429", {"max_retries": 0, "max_concurrency": 64}, 1),
        ("429", {"max_retries": 5, "max_concurrency": 64}, 6),
        ("503:0.01", {"max_retries": 1, "max_concurrency": 64}, 2),
        ("429:0.5", {"queue_timeout": 0.4, "max_retries": 9}, 1),  # it would wait longer than it may
        ("429:1", {"queue_timeout": 1.8, "max_retries": 9}, 2),
    ],
)
async def test_max_retries_and_the_queue_timeout_hold_for_429(server, script, options, requests):
    async with model(server, **options) as judge:
        with pytest.raises(ForeignFault, match=r"answered (429|503)"):
            await judge.complete(ask(script))
    assert len(server.seen) == requests


async def test_a_retry_after_beyond_the_deadline_is_waited_for(server):
    async with model(server, deadline=1.5, timeout=1.5) as judge:
        await judge.complete(ask())
        assert (await judge.complete(ask("429:2,ok"))).attempts == 2


async def test_a_call_that_gets_no_slot_times_out(server):
    async with model(server, max_concurrency=1, queue_timeout=0.1) as judge:
        first = asyncio.create_task(judge.complete(ask("slow:2")))
        await asyncio.sleep(0.02)
        with pytest.raises(TimeFault, match=r"the call waited 0\.1 s in the queue; raise its queue_timeout"):
            await judge.complete(ask())
        first.cancel()


@pytest.mark.sample(2)
async def test_a_half_open_connection_is_replaced(server):
    async with model(server, timeout=1.5) as judge:
        reply = await judge.complete(ask("hang,drip,ok"))
    assert reply.attempts == 3


async def test_a_call_has_its_own_timeout(server):
    async with model(server) as judge:
        with pytest.raises(TimeFault):
            await judge.complete(ask("hang", timeout=0.05))
        with pytest.raises(ForeignFault, match="answered 500"):  # it would have to wait longer than it has
            await judge.complete(ask("500:30,ok", timeout=10))


async def test_a_cancelled_call_leaves_the_queue_unchanged(server):
    async with model(server, max_concurrency=1) as judge:
        for _ in range(3):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await judge.complete(ask("hang"))
        assert (await judge.complete(ask())).value == {"passed": True}


async def test_one_pool_serves_all_calls(server):
    async with model(server, max_concurrency=4) as judge:
        await asyncio.gather(*(judge.complete(ask("slow:0.005")) for _ in range(40)))
    assert server.most_at_once == 4
    assert server.connections == 4


async def test_a_connection_the_server_closed_is_replaced(server):
    async with model(server, max_concurrency=1) as judge:
        for _ in range(5):
            assert (await judge.complete(ask("stale"))).value == {"passed": True}


async def test_unsolicited_bytes_answer_no_request(server):
    """A second answer behind the first, on a connection that is kept: the next request must not be given it."""
    async with model(server, max_concurrency=1) as judge:
        for script in ("twofold", "ok", "twofold", "twofold"):
            assert (await judge.complete(ask(script))).model == script


async def test_a_long_request_is_sent_whole(server):
    long = "word " * 1_000_000  # more than a socket takes at once
    async with model(server) as judge:
        reply = await judge.complete(ask(messages=(Message("user", long),)))
    assert reply.input_tokens == 1_000_000


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
async def test_the_certificate_of_a_provider_is_verified(tmp_path, monkeypatch, name):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(name).configure_cert(tls)
    with ProviderServer(tls=tls) as server:
        there = {"base_url": server.base_url.replace("127.0.0.1", name)}
        async with model(server, max_retries=0, **there) as judge:
            with pytest.raises(ForeignFault, match="certificate verify failed"):
                await judge.complete(ask())
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        async with model(server, **there) as judge:
            replies = await asyncio.gather(*(judge.complete(ask("slow:0.005")) for _ in range(3)))
            replies.append(await judge.complete(ask()))
        other = "localhost" if name == "127.0.0.1" else "127.0.0.1"
        async with model(server, max_retries=0, base_url=there["base_url"].replace(name, other)) as judge:
            with pytest.raises(ForeignFault, match="certificate verify failed"):
                await judge.complete(ask())
    assert [reply.value for reply in replies] == [{"passed": True}] * 4


def test_each_event_loop_has_its_own_connections(server):
    line = ProviderClient(provider(server))
    judge = OpenAICompatibleModel(line)

    async def once():
        reply = await judge.complete(ask())
        await judge.close()
        return reply

    assert [asyncio.run(once()).value for _ in range(3)] == [{"passed": True}] * 3
    assert len(line._states) == 0


async def test_refused_structured_output_puts_the_schema_into_the_prompt_from_then_on(server):
    async with model(server) as judge:
        first, second = await judge.complete(ask("plain")), await judge.complete(ask("plain"))
        other = await judge.complete(
            ask("plain", schema={"type": "object", "properties": {"score": {"type": "number"}}})
        )
    assert [first.attempts, second.attempts, other.attempts] == [
        2,
        1,
        2,
    ]  # another schema is another question
    sent = server.seen[2].body
    assert "response_format" not in sent
    assert sent["messages"][0]["role"] == "system"
    assert json.loads(sent["messages"][0]["content"].splitlines()[-1]) == SCHEMA


async def test_a_provider_without_structured_output_gets_the_schema_in_the_prompt(server):
    rules = (Message("system", "You are strict."), Message("user", "Is it good?"))
    async with model(server, structured=False) as judge:
        reply = await judge.complete(ask(messages=rules))
    assert reply.value == {"passed": True}
    assert "response_format" not in server.seen[0].body
    assert [message["role"] for message in server.seen[0].body["messages"]] == ["system", "user"]
    assert (
        server.seen[0].body["messages"][0]["content"].startswith("You are strict.\n\nAnswer with exactly one")
    )


async def test_parameters_are_sent_unchanged_and_reserved_ones_refused(server):
    async with model(server) as judge:
        await judge.complete(ask(schema=None, parameters={"temperature": 0, "seed": 7, "max_tokens": 9}))
        with pytest.raises(ValueFault, match="may not set n, stream"):
            await judge.complete(ask(parameters={"stream": True, "n": 2}))
    sent = server.seen[0].body
    assert (sent["temperature"], sent["seed"], sent["max_tokens"]) == (0, 7, 9)
    assert "response_format" not in sent


async def test_a_lone_surrogate_is_sent(server):
    async with model(server) as judge:
        reply = await judge.complete(ask(messages=(Message("user", "\ud83d"),)))
    assert reply.value == {"passed": True}
    assert server.seen[0].body["messages"][0]["content"] == "\ud83d"


# keys


@pytest.mark.sample(2)
async def test_no_failure_contains_the_key(server, caplog):
    caplog.set_level(logging.DEBUG)
    texts: list[str] = []
    scripts = (STEPS.keys() - {"busy", "leak", "slow"}) | {"429", "500", "401"}
    scripts |= {f"leak:{status}" for status in (400, 401, 403, 404, 429, 500)}
    async with model(server, timeout=0.5, max_retries=1) as judge:
        for script in sorted(scripts):
            try:
                reply = await judge.complete(ask(script))
                texts += [repr(reply), msgspec.json.encode(reply).decode()]
            except Fault as fault:
                texts += [repr(fault), "".join(traceback.format_exception(fault)), repr(vars(fault))]
                texts += [repr(fault.__cause__), repr(fault.__context__)]
        line = judge._line
        texts += [repr(judge), repr(vars(judge)), repr(line.provider), f"{line.provider.api_key}"]
    assert any(request.headers["authorization"] == f"Bearer {CANARY}" for request in server.seen)
    assert [text for text in [*texts, caplog.text] if CANARY[:12] in text] == []


async def test_without_a_key_none_is_sent(server, monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, CANARY)
    async with model(server, api_key=None) as judge:
        await judge.complete(ask())
    assert CANARY not in str(server.seen[0].headers)
    assert "authorization" not in server.seen[0].headers


@pytest.mark.parametrize("key", ["two words", "line\nbreak", "schlüssel"])
def test_a_key_that_no_header_can_carry_is_refused_without_it(server, key):
    with pytest.raises(UsageError, match="the key of provider 'local'") as refused:
        ProviderClient(provider(server, api_key=Secret(key)))
    assert key not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"key {CANARY} is wrong", "key [REDACTED] is wrong"),
        (f"it began with '{CANARY[:9]}***' and so", "it began with '[REDACTED]' and so"),
        ("sk- is how they begin", "sk- is how they begin"),
        ("", ""),
    ],
)
def test_scrub_takes_the_key_out_of_a_text(text, left):
    assert scrub(text, CANARY) == left


@pytest.mark.parametrize(
    ("key", "searched"),
    [
        (CANARY, True),
        ("0123456789abcdef0123456789abcdef", True),
        ("c2VjcmV0LWtleS1mb3ItYS10ZXN0", True),
        ("mgslkfwpqzjhvnbxtyrcdeuioaMGSLKFW", True),  # long, and of no digits
        ("test", False),
        ("1", False),
        ("", False),
        ("sk-1234", False),
        ("not-needed", False),
        ("a-key-of-words-1", False),
        ("text-embedding-3-small", False),
        ("1234567890123456", False),
        ("-" * 64, False),
    ],
)
def test_which_keys_are_searched_for_in_content(key, searched):
    assert looks_random(key) is searched


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "key", ["test", "1", "passed", "choices", "content", "true", "unit", "e", '"', "\\", "{"]
)
async def test_a_reply_is_parsed_before_keys_are_removed(key):
    answer = {"passed": True, "reason": "the unit test 1 is true"}
    with ProviderServer(lambda _: answer) as server:
        async with model(server, api_key=Secret(key)) as judge:
            reply = await judge.complete(ask())
    assert (reply.value, reply.problem) == (answer, None)


@pytest.mark.parametrize("key", ["response_format", "argument", "Unrecognized"])
async def test_a_refused_schema_is_recognized_with_any_key(server, key):
    async with model(server, api_key=Secret(key)) as judge:
        assert (await judge.complete(ask("plain"))).structured is False


async def test_a_key_in_a_response_is_removed_from_the_reply():
    answer = {"passed": True, "reason": f"you came with {CANARY}", CANARY: [CANARY]}
    with ProviderServer(lambda _: answer) as server:
        async with model(server) as judge:
            reply = await judge.complete(ask())
    assert reply.value == {"passed": True, "reason": "you came with [REDACTED]", "[REDACTED]": ["[REDACTED]"]}
    assert CANARY not in repr(reply)


@pytest.mark.parametrize(
    ("text", "key"),
    [("unit test", "test"), ("a 1", "1"), ("localhost is gone", "localhost"), ("no-key here", "no-key-1")],
)
def test_a_key_that_is_a_word_is_not_removed(text, key):
    assert scrub(text, key) == text


def test_a_secret_is_shown_only_on_request():
    secret = Secret(CANARY)
    assert [str(secret), repr(secret), f"{secret}", f"{secret!r}"] == ["[REDACTED]"] * 4
    assert secret.reveal() == CANARY
    assert secret == Secret(CANARY) != Secret("another")
    with pytest.raises(TypeError):
        msgspec.json.encode(Provider(name="local", api_key=secret))


async def test_a_missing_extra_names_the_command_that_installs_it(server, monkeypatch):
    monkeypatch.setattr("assay.extras.find_spec", lambda name: None if name == "aiohttp" else True)
    judge = OpenAICompatibleModel(ProviderClient(provider(server)))
    with pytest.raises(UsageError, match=r"a model needs aiohttp: pip install 'openassay\[judges\]'"):
        await judge.complete(ask())


# when to try again


@pytest.mark.parametrize(
    ("outcome", "passes", "for_all"),
    [
        (HttpAnswer(429, {}, b""), True, True),
        (HttpAnswer(529, {}, b""), True, True),
        (HttpAnswer(503, {"retry-after": "1"}, b""), True, True),
        (HttpAnswer(503, {}, b""), True, False),
        (HttpAnswer(500, {"retry-after": "1"}, b""), True, False),  # its own trouble, not ours
        (HttpAnswer(408, {}, b""), True, False),
        (HttpAnswer(409, {}, b""), True, False),
        (HttpAnswer(400, {}, b""), False, False),
        (HttpAnswer(401, {}, b""), False, False),
        (HttpAnswer(302, {}, b""), False, False),
        (ConnectionLost("refused"), True, False),
        (TimedOut(1.0), True, False),
        (TooLargeReply(10), False, False),  # the next one would be as long
    ],
)
def test_transient_faults_and_faults_that_slow_the_provider(outcome, passes, for_all):
    assert (may_pass(outcome), throttles(outcome)) == (passes, for_all)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "Wed, 01 Jan 2025 00:00:10 GMT"}, 10.0),
        ({"retry-after": "Wed, 01 Jan 2025 00:00:10 -0000"}, 10.0),  # a date without a zone is UTC
        ({"retry-after": "Tue, 31 Dec 2024 00:00:00 GMT"}, 0.0),  # past
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "9" * 400}, math.inf),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
    ],
)
def test_retry_after_header(headers, seconds):
    assert retry_after(headers, datetime(2025, 1, 1, tzinfo=UTC)) == seconds


@pytest.mark.parametrize(
    ("attempt", "asked", "roll", "seconds"),
    [
        (1, None, 1.0, 0.5),
        (1, None, 0.0, 0.25),
        (3, None, 1.0, 2.0),
        (50, None, 1.0, 30.0),  # the cap
        (1, 7.0, 1.0, 7.0),
        (5, 1.0, 1.0, 8.0),  # at least what was asked for
    ],
)
def test_the_pause_before_an_attempt_follows_the_provider_or_grows(attempt, asked, roll, seconds):
    assert pause(attempt, retry_after=asked, backoff=Backoff(), random_fraction=roll) == seconds


# how fast


@pytest.mark.parametrize(
    ("pace", "event", "then"),
    [
        (RequestRate(64, 10), "throttled", RequestRate(16, 5, 64)),
        (RequestRate(16, 10, 64), "throttled", RequestRate(4, 5, 16)),
        (RequestRate(16, 10, 16.5), "throttled", RequestRate(8, 5, 16)),  # where it failed before
        (RequestRate(1.5, 0.2, 2), "throttled", RequestRate(1, 10 / 64, 1.5)),  # never nothing
        (
            RequestRate(32, 5, 64),
            "answered",
            RequestRate(32 + 1 / 32, 5.2, 64),
        ),  # a slot for each round of answers
        (RequestRate(64, 10), "answered", RequestRate(64, 10)),  # never beyond the ceiling
        (RequestRate(4, 10, 5), "answered", RequestRate(4.025, 10, 5)),  # carefully, where it failed before
        (RequestRate(1, 10, 2), "answered", RequestRate(1.1, 10, 2)),
    ],
)
def test_pace_adapts(pace, event, then):
    assert adjust(pace, event, RequestRate(64, 10)) == pytest.approx(then)


def test_a_rate_that_was_never_set_stays_unlimited():
    assert adjust(RequestRate(8), "throttled", RequestRate(8)) == RequestRate(2, math.inf, 8)
    assert adjust(RequestRate(4), "answered", RequestRate(8)) == RequestRate(4.25, math.inf)


@pytest.mark.parametrize(
    ("due", "now", "rate", "wait"),
    [
        (0.0, 100.0, math.inf, 0.0),
        (0.0, 100.0, 2.0, 0.0),
        (100.5, 100.0, 2.0, 0.0),  # a second's worth may go at once
        (101.0, 100.0, 2.0, 0.5),
        (101.5, 100.0, 2.0, 1.0),
        (110.0, 100.0, 0.1, 10.0),  # slower than one a second: no burst
    ],
)
def test_spacing_keeps_calls_to_the_rate(due, now, rate, wait):
    assert spacing(due, now, rate)[0] == pytest.approx(wait)


async def test_the_queue_is_ordered_and_a_retry_goes_before_later_calls(server):
    async with model(server, max_concurrency=1) as judge:
        asks = [ask("429:0.02,ok", messages=(Message("user", str(number)),)) for number in range(4)]
        await asyncio.gather(*map(judge.complete, asks))
    assert [seen.body["messages"][0]["content"] for seen in server.seen] == ["0", "0", "1", "2", "3"]


async def test_the_429s_of_one_burst_count_once(server):
    async with model(server, max_concurrency=8) as judge:
        await asyncio.gather(*(judge.complete(ask("429:0.05,429:0.05,slow:0.002")) for _ in range(8)))
        assert 4 <= judge._line._state(asyncio.get_running_loop()).gate.pace.slots < 8


async def test_an_unknown_limit_is_found_and_no_call_fails(server):
    async with model(server, max_concurrency=64) as judge:
        replies = await asyncio.gather(*(judge.complete(ask("busy:4")) for _ in range(64)))
        assert 2 <= judge._line._state(asyncio.get_running_loop()).gate.pace.slots <= 8
    assert all(reply.value == {"passed": True} for reply in replies)


async def test_a_rate_is_kept(server):
    started = asyncio.get_running_loop().time()
    async with model(server, requests_per_minute=60 * 20) as judge:
        await asyncio.gather(*(judge.complete(ask()) for _ in range(26)))
    assert asyncio.get_running_loop().time() - started >= 0.3  # 20 at once, 6 more at 20 a second


async def test_a_call_that_left_the_queue_is_skipped():
    gate = AdaptiveLimiter(RequestRate(1))
    await gate.enter(0)
    waiting = [asyncio.create_task(gate.enter(ticket)) for ticket in (1, 2)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    gate.leave()
    await asyncio.wait_for(waiting[1], PATIENCE)


async def test_a_cancelled_call_releases_the_slot_it_got():
    gate = AdaptiveLimiter(RequestRate(1))
    await gate.enter(0)
    waiting = asyncio.create_task(gate.enter(1))
    await asyncio.sleep(0)
    gate.leave()  # lets it in
    waiting.cancel()  # before it knows
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.wait_for(gate.enter(2), PATIENCE)


# replies


@pytest.mark.parametrize(
    ("text", "value", "problem"),
    [
        ('{"passed": true}', {"passed": True}, None),
        (" 3 \n", 3, None),
        ('```json\n{"a": 1}\n```', {"a": 1}, None),
        ('<think>hm {"a": 2}</think>\n{"a": 1}', {"a": 1}, None),
        ("", msgspec.UNSET, "is not JSON: Expecting value at character 0"),
        ('{"a": 1} and more', msgspec.UNSET, "is not JSON: Extra data at character 9"),
        ('{"a": 1}{"a": 2}', msgspec.UNSET, "is not JSON: Extra data at character 8"),
        ('The answer: ```json\n{"a": 1}\n```', msgspec.UNSET, "is not JSON: Expecting value at character 0"),
        ('{"a": {"b": 1, "b": 1}}', msgspec.UNSET, "has the member 'b' twice"),
        ('{"score": NaN}', msgspec.UNSET, "contains NaN, which is not a JSON number"),
        ('{"score": -Infinity}', msgspec.UNSET, "contains -Infinity, which is not a JSON number"),
        ("[" * 100_000, msgspec.UNSET, "is nested too deeply"),
    ],
)
def test_read_value(text, value, problem):
    assert read_value(text) == (value, problem)


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (SCHEMA, True),
        ({"type": "boolean"}, True),
        ({**SCHEMA, "additionalProperties": True}, False),
        ({**SCHEMA, "required": []}, False),
        ({"type": "object"}, False),
        ({"type": "array", "items": SCHEMA}, True),
        ({"type": "array", "items": {"type": "object"}}, False),
        ({"anyOf": [SCHEMA, {"type": "null"}]}, True),
        ({"$defs": {"a": {"properties": {"b": {}}}}}, False),
    ],
)
def test_a_schema_that_a_provider_enforces_is_strict(schema, strict):
    assert is_strict(schema) is strict


# what it cost


@pytest.mark.parametrize(
    ("options", "models", "usage", "dollars"),
    [
        ({"base_url": None}, ("gpt-4o-mini-2024-07-18",), TokenCounts(1_000_000, 1_000_000), 0.75),
        (
            {"base_url": None},
            ("gpt-4o-mini-2024-07-18",),
            TokenCounts(1_000_000, 0, 1_000_000),
            0.075,
        ),  # read from its cache
        ({"base_url": None}, ("made-up", "gpt-4o-mini"), TokenCounts(1_000_000, 0), 0.15),
        ({"base_url": None}, ("made-up",), TokenCounts(10, 10), None),
        (
            {"base_url": "http://127.0.0.1:1/v1"},
            ("gpt-4o-mini",),
            TokenCounts(10, 10),
            None,
        ),  # the same name at home
        ({"base_url": None}, ("gpt-4o-mini",), TokenCounts(None, 10), None),
        ({"prices": Prices(input=2.5, output=10)}, ("gpt-4o-mini",), TokenCounts(1000, 100), 0.0035),
        ({"prices": Prices(input=0, output=0)}, ("mine",), TokenCounts(1000, 100), 0.0),  # free
    ],
)
def test_cost(options, models, usage, dollars):
    assert cost(Provider(name="some", **options), models, usage) == (
        None if dollars is None else pytest.approx(dollars)
    )


@pytest.mark.parametrize(
    "where", [{"provider": "openai"}, {"provider": "", "url": "https://api.openai.com/v1"}]
)
def test_the_search_for_a_model_without_a_price_is_made_once(monkeypatch, where):
    """It takes as long as some calls of a framework. A price is that of the tokens."""
    asked, calculate = [], genai_prices.calc_price

    def counted(usage, model, **how):
        asked.append(model)
        return calculate(usage, model, **how)

    monkeypatch.setattr(genai_prices, "calc_price", counted)
    name = f"no-such-model-{len(where)}"
    assert [published_cost(model=name, sent=at, received=1, **where) for at in range(5)] == [None] * 5
    assert asked == [name]
    paid = [published_cost(model="gpt-4o-mini", sent=10_000 * at, received=7, **where) for at in (1, 3)]
    assert 2 * paid[0] < paid[1] < 3 * paid[0]


async def test_a_reply_has_its_price(server):
    async with model(server, prices=Prices(input=1_000_000, output=0)) as judge:
        reply = await judge.complete(ask())
    assert (reply.input_tokens, reply.output_tokens, reply.cost_usd) == (3, 2, 3.0)


# the script


async def test_a_scripted_model_is_marked():
    judge = ScriptedModel([{"passed": True}, "well", TimeFault("too slow")])
    first, second = await judge.complete(ask()), await judge.complete(ask())
    assert (first.value, first.model, first.cost_usd) == ({"passed": True}, "scripted:ok", None)
    assert second.problem == "is not JSON: Expecting value at character 0"
    with pytest.raises(TimeFault, match="too slow"):
        await judge.complete(ask())
    with pytest.raises(ForeignFault, match="no more answers"):
        await judge.complete(ask())
    assert len(judge.requests) == 4


async def test_a_script_may_be_a_table_or_a_function():
    table = ScriptedModel({"good": {"passed": True}})
    assert (await table.complete(ask())).value == {"passed": True}
    with pytest.raises(ForeignFault, match="no phrase of the script is in the messages: good"):
        await table.complete(ask(messages=(Message("user", "bad"),)))
    model = ScriptedModel(
        lambda ask: Completion(text="", finish_reason="length", model=ask.model, provider="me")
    )
    assert (await model.complete(ask())).finish_reason == "length"


# the cache

WHERE = Provider(name="local", api_key=Secret(CANARY), prices=Prices(input=1.0))


def counting(cost_usd: float | None = 0.5):
    numbers = iter(range(100))
    return ScriptedModel(
        lambda ask: Completion(
            text=str(next(numbers)), finish_reason="stop", model="m", provider="p", cost_usd=cost_usd
        )
    )


async def test_a_cache_hit_is_marked_with_its_saved_cost(tmp_path):
    judge = CachedModel(counting(), DiskCache(tmp_path), WHERE)
    new, kept = await judge.complete(ask()), await judge.complete(ask(timeout=3.0))  # time changes no answer
    assert (new.text, new.cached, new.cost_usd, new.saved_usd) == ("0", False, 0.5, None)
    assert (kept.text, kept.cached, kept.cost_usd, kept.saved_usd) == ("0", True, 0.0, 0.5)


async def test_the_saved_cost_of_an_unknown_price_is_unknown(tmp_path):
    judge = CachedModel(counting(None), DiskCache(tmp_path), WHERE)
    await judge.complete(ask())
    assert (await judge.complete(ask())).saved_usd is None


@pytest.mark.parametrize(
    "change",
    [
        {"model": "another"},
        {"messages": (Message("user", "Is it bad?"),)},
        {"messages": (Message("system", "Is it good?"),)},
        {"schema": None},
        {"parameters": {"temperature": 1}},
        {"check_version": "2.0.0"},
        {"repeat": 1},
    ],
)
async def test_whatever_changes_the_answer_changes_the_key(tmp_path, change):
    judge = CachedModel(counting(), DiskCache(tmp_path), WHERE)
    await judge.complete(ask())
    assert not (await judge.complete(msgspec.structs.replace(ask(), **change))).cached


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"name": "another"}, False),
        ({"base_url": "http://elsewhere/v1"}, False),
        ({"structured": False}, False),
        ({"api_key": Secret("another")}, True),
        ({"max_retries": 9, "timeout": 1.0}, True),
    ],
)
def test_which_parts_of_a_provider_change_the_key(change, same):
    other = msgspec.structs.replace(WHERE, **change)
    assert (key_of("reply", other, a=1) == key_of("reply", WHERE, a=1)) is same


@pytest.mark.parametrize("rot", [b"", b"{", b"\xff\xfe", b'{"text": 3}', b"[" * 100_000])
async def test_a_corrupt_entry_is_a_miss_and_is_replaced(tmp_path, rot):
    judge = CachedModel(counting(), DiskCache(tmp_path), WHERE)
    await judge.complete(ask())
    (entry,) = tmp_path.rglob("*.json")
    entry.write_bytes(rot)
    assert not (await judge.complete(ask())).cached
    assert (await judge.complete(ask())).text == "1"


async def test_an_entry_is_the_owners_alone_and_holds_no_key(tmp_path):
    await CachedModel(counting(), DiskCache(tmp_path), WHERE).complete(ask())
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path.suffix for path in files] == [".json"]  # nothing half-written stays
    assert files[0].stat().st_mode & 0o077 == 0
    assert CANARY not in files[0].read_text()


async def test_a_cache_that_cannot_write_loses_no_answer(tmp_path, caplog):
    (tmp_path / "file").write_text("in the way")
    judge = CachedModel(counting(), DiskCache(tmp_path / "file"), WHERE)
    assert (await judge.complete(ask())).text == "0"
    assert "could not store an answer" in caplog.text


@pytest.mark.parametrize("script", ["length", "refusal", "filter", "prose", "twice"])
async def test_an_incomplete_answer_is_not_cached(server, tmp_path, script):
    async with model(server) as judge:
        cached = CachedModel(judge, DiskCache(tmp_path), provider(server))
        await cached.complete(ask(script))
        assert not (await cached.complete(ask(script))).cached

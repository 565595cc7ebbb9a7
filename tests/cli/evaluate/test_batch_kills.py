"""
`--batch` of every verb, killed at every step: each answer of the agent is asked for once and each prompt is paid once,
though the agent answers otherwise each time. The scores are those of single calls.
"""

import signal

import pytest

from support.models.batch_kills import VERBS, Killed, plain, verdict
from support.models.batch_server import BatchServer

REQUESTS = {"openai_compatible": 11, "anthropic": 7}  # of a run with two batches, and one more for chance
STEPS = [
    (kind, number, effect)
    for kind, many in REQUESTS.items()
    for number in range(1, many + 1)
    for effect in ("lost", "done")
]
COUNTS = (*range(9, 24), *range(2, 9))  # of commits; `make test` takes the first and the last of a table
COMMITS = [f"{when}:{count}" for count in COUNTS for when in ("commit.before", "commit.after")]
AGENTS = [verb for verb in VERBS if verb != "evaluate --save"]
LIMITS = {"run --trials": "11"}  # dollars; of other verbs 6
_single = {}  # what each verb gets by single calls, by provider: exit code, results, prompts


@pytest.fixture
def server():
    with BatchServer(["flaky", "ok"], verdict) as server:
        yield server


@pytest.fixture
def killed(zygote, command, server, tmp_path, disk):
    def make(verb, kind, price=0.001):
        if (verb, kind) not in _single:
            cheap = Killed(zygote, tmp_path, server, verb, kind, disk, 0.001)
            code, results = cheap.single(command)
            _single[verb, kind] = code, results, prompts(server.singles)
            server.singles.clear()
        return Killed(zygote, tmp_path, server, verb, kind, disk, price), _single[verb, kind]

    return make


def check_the_end(server, ended, one, single):
    for got, wanted in zip(one.results(), single[1], strict=True):
        assert got == wanted
    assert ended.code == (0 if one.exported else single[0]), ended.err
    assert prompts(server.paid) == single[2], "a prompt is paid once"
    assert not server.singles
    assert not one.waiting, "an answer is deleted with the end of its unit"


def prompts(asked):
    return sorted(map(plain, asked))


SCRIPTS = [
    "ok",
    "shuffled",
    "doubled",
    "malformed",
    "busy",
    "expired ok",
    "flaky flaky ok",
    "lost ok",
    "unavailable ok",
]


@pytest.mark.sample(13)
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("kind", REQUESTS)
@pytest.mark.parametrize("script", SCRIPTS)
def test_whatever_a_batch_does_the_results_are_those_of_single_calls(server, killed, verb, kind, script):
    one, single = killed(verb, kind)
    server.script = script.split()
    check_the_end(server, one.live(False), one, single)


@pytest.mark.sample(6)
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("kind", REQUESTS)
@pytest.mark.parametrize("script", ["hold", "unavailable"])
def test_on_request_what_is_late_is_asked_by_single_calls(server, killed, verb, kind, script):
    one, single = killed(verb, kind)
    server.script = [script] * 9
    ended = one.live(False, "--batch-hours", "0.00001")
    assert (ended.code, one.results()) == single[:2], ended.err
    assert prompts(server.paid + server.singles) == single[2]
    assert all(batch.cancelled for batch in server.batches)


ENDS = {  # when a person ends the command
    "submitting": lambda when, method, path: (when, method) == ("after", "POST") and path.endswith("batches"),
    "waiting": lambda when, method, path: method == "GET" and "batches/" in path,
    "reading": lambda when, method, path: method == "GET" and path.endswith(("/content", "/results")),
}


@pytest.mark.sample(7)
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("kind", REQUESTS)
@pytest.mark.parametrize("when", ENDS)
def test_a_command_that_is_ended_cancels_its_batch_and_pays_once(server, killed, verb, kind, when):
    one, single = killed(verb, kind)
    server.script = ["ok"] if when == "reading" else ["hold", "ok"]
    ended = one.live(False, end=lambda _, *request: ENDS[when](*request), sign=signal.SIGINT)
    ends = (
        {1, single[0]} if when == "reading" else {1}
    )  # with the last answers it may end before it is cancelled
    assert ended.code in ends, ended.err
    assert server.batches[0].cancelled or when == "reading"
    check_the_end(server, one.live(True), one, single)


@pytest.mark.sample(8)
@pytest.mark.parametrize("verb", AGENTS)
@pytest.mark.parametrize("kind", REQUESTS)
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("batch", [True, False])
def test_what_was_answered_before_is_judged_by_single_calls_on_request(
    server, killed, verb, kind, sign, batch
):
    """What the batch had answered when it was cancelled counts."""
    one, single = killed(verb, kind)
    server.script = ["hold"] * 9
    ended = one.live(False, end=lambda _, *request: ENDS["waiting"](*request), sign=sign)
    asked = len(one.asked)
    ended = one.live(True, *(("--batch-hours", "0.00001") if batch else ()), batch=batch)
    assert (ended.code, one.results()) == single[:2], ended.err
    assert prompts((server.paid if batch else []) + server.singles) == single[2]
    assert len(one.asked) == asked, "no agent was asked again"
    assert not one.waiting


@pytest.mark.sample(4)
@pytest.mark.parametrize("verb", AGENTS)
@pytest.mark.parametrize("kind", REQUESTS)
def test_a_command_that_is_ended_twice_asks_no_agent_again(server, killed, verb, kind):
    one, single = killed(verb, kind)
    server.script = ["hold", "ok"]
    for resume in (False, True):
        one.live(resume, end=lambda _, *request: ENDS["waiting"](*request), sign=signal.SIGINT)
    asked = len(one.asked)
    check_the_end(server, one.live(True), one, single)
    assert len(one.asked) == asked


@pytest.mark.sample(6)
@pytest.mark.parametrize("kind", REQUESTS)
@pytest.mark.parametrize("number", [3, 6, 9, 12])
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT])
def test_a_command_that_stops_when_it_has_decided_asks_for_no_more_than_that(
    server, killed, kind, number, sign
):
    """Each round is a batch. After the last one nobody is asked, also if the command was ended in between."""
    one, single = killed("run --until", kind)
    assert len(single[1]) < 60, "it decides before its last task"
    server.script = ["ok"]
    one.live(False, end=lambda at, now, *_: (at, now) == (number, "after"), sign=sign)
    asked = len(one.asked)
    check_the_end(server, one.live(True), one, single)
    assert asked <= len(set(one.asked)) == len(single[1])


@pytest.mark.sample(5)
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("kind", REQUESTS)
def test_the_money_bounds_batches_and_a_higher_limit_continues(server, killed, verb, kind):
    """Of a limit of 6 dollars 3 are what the agents cost, which are asked first."""
    one, single = killed(verb, kind, price=400_000)
    ended = one.live(False, "--max-cost", LIMITS.get(verb, "6"))
    assert ended.code == 1
    paid = len(server.paid)
    assert 0 < paid < len(single[1])
    assert "cost limit" in ended.err + ended.out
    assert "error" not in {line["status"] for line in one.results()} or verb.startswith("run")
    ended = one.live(True, "--max-cost", "1000")
    check_the_end(server, ended, one, single)


@pytest.mark.sample(13)
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(("kind", "number", "effect"), STEPS)
def test_a_command_killed_at_a_request_goes_on_and_pays_once(server, killed, verb, kind, number, effect):
    one, single = killed(verb, kind)
    when = {"lost": "before", "done": "after"}[effect]
    ended = one.live(False, end=lambda at, now, *_: (at, now) == (number, when))
    for step in (2, 4):  # killed again, while it takes over
        if ended.code >= 0:
            break
        ended = one.live(True, end=lambda at, now, *_, step=step: (at, now) == (step, when))
    if ended.code < 0:
        ended = one.live(True)
    check_the_end(server, ended, one, single)


@pytest.mark.sample(45)
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("kind", REQUESTS)
@pytest.mark.parametrize("failpoint", COMMITS)
def test_a_command_killed_at_a_commit_goes_on_and_pays_once(server, killed, verb, kind, failpoint):
    one, single = killed(verb, kind)
    ended = one.live(False, failpoint=failpoint)
    if ended.code < 0:
        ended = one.live(True)
    check_the_end(server, ended, one, single)

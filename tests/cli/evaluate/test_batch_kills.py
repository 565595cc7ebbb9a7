"""`--batch` of the command, killed at every step: each prompt is paid once, and the scores are those of single calls."""

from collections import Counter

import pytest

from support.models.batch_kills import VERBS, Killed, verdict
from support.models.batch_server import BatchServer

REQUESTS = {"openai_compatible": 11, "anthropic": 7}  # of a run with two batches, and one more for chance
STEPS = [
    (kind, number, effect)
    for kind, many in REQUESTS.items()
    for number in range(1, many + 1)
    for effect in ("lost", "done")
]
COMMITS = [f"{when}:{count}" for when in ("commit.before", "commit.after") for count in (2, 3, 4, 5)]
_single = {}  # what each verb gets by single calls, by provider


@pytest.fixture
def server():
    with BatchServer(["flaky", "ok"], verdict) as server:
        yield server


@pytest.fixture
def killed(zygote, command, server, tmp_path, disk):
    def make(verb, kind):
        one = Killed(zygote, tmp_path, server, verb, kind, disk)
        if (verb, kind) not in _single:
            _single[verb, kind] = one.single(command)
        server.singles.clear()
        return one, _single[verb, kind]

    return make


def check_the_end(server, ended, one, single):
    assert (ended.code, one.results()) == single, ended.err
    assert max(Counter(server.paid).values()) == 1, "a prompt is paid once"
    assert len(server.paid) == len(single[1])
    assert not server.singles


@pytest.mark.sample(40)
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(("kind", "number", "effect"), STEPS)
def test_a_command_killed_at_a_request_goes_on_and_pays_once(server, killed, verb, kind, number, effect):
    one, single = killed(verb, kind)
    ended = one.live(False, die=(number, effect))
    for step in (2, 4):  # killed again, while it takes over
        if ended.code >= 0:
            break
        ended = one.live(True, die=(step, effect))
    if ended.code < 0:
        ended = one.live(True)
    check_the_end(server, ended, one, single)


@pytest.mark.sample(20)
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("kind", REQUESTS)
@pytest.mark.parametrize("failpoint", COMMITS)
def test_a_command_killed_at_a_commit_goes_on_and_pays_once(server, killed, verb, kind, failpoint):
    one, single = killed(verb, kind)
    ended = one.live(False, failpoint=failpoint)
    if ended.code < 0:
        ended = one.live(True)
    check_the_end(server, ended, one, single)

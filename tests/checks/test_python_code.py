"""The check that runs code: its answers, its limits, and hosts that refuse it."""

import asyncio
import time
from inspect import isawaitable
from pathlib import Path

import pytest

import assay
from assay.checks import STANDARD
from assay.checks.arguments import bind
from assay.checks.programs import code_process
from assay.checks.runner import ResultOptions, call, prepare, to_result
from assay.errors import Fault, InvalidRequest
from assay.ports import Limits, Services
from assay.protocol.evaluation import Check

CASE = {
    "test_case": {"id": "a", "input": "1+1?", "expected": "2"},
    "output": {"value": "It is 2", "metadata": {"tokens": 7}},
}
ALLOWED = Services(allow_python_code=True)


async def _ask(code, services):
    bound = bind(Check(type="python_code", arguments={"code": code}), STANDARD, "checks[0]", services)
    prepared = prepare(bound, CASE, services)
    try:
        answer = call(prepared, services)
        answer = await answer if isawaitable(answer) else answer
    except Fault as fault:
        answer = fault
    return to_result(prepared, answer, services, ResultOptions())


def ask(code, services=ALLOWED):
    return asyncio.run(_ask(code, services))


@pytest.mark.parametrize(
    ("code", "results"),
    [
        ("def check(output): return '2' in output", {"passed": True}),
        ("def check(output, expected): return len(expected) / 4", {"score": 0.25}),
        ("def check(input, metadata, test_case): return {'passed': False, 'reason': input, 'n': metadata['tokens'], 'id': test_case['id']}",
         {"passed": False, "reason": "1+1?", "n": 7, "id": "a"}),
        ("import os\ndef check(output): return {'n': len([k for k in os.environ if 'ASSAY' in k or 'HOME' in k or 'PATH' in k])}", {"n": 0}),
        ("def check(output):\n    print('x' * 100)\n    return True", {"passed": True}),
    ],
)  # fmt: skip
def test_code_answers_as_a_function_does(code, results):
    result = ask(code)
    assert result.status == "completed", result.error
    assert result.results == results
    assert set(result.resolved_arguments) == {"code"}


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        ("def check(output): return None", "unknown_error", "the code failed: ValueError: check returned nothing"),
        ("def check(output):\n    return 1 / 0", "unknown_error", "the code failed: ZeroDivisionError in line 2: division by zero"),
        ("def check(", "unknown_error", "the code failed: SyntaxError in line 1"),
        ("x = 1", "unknown_error", "the code failed: ValueError: expected code that defines check"),
        ("def check(answer): return True", "unknown_error", "the code failed: ValueError: check takes answer; there are output"),
        ("def check(output): return {'score': float('nan')}", "unknown_error", "the code failed: ValueError"),
        ("def check(output): return {'passed': 'yes'}", "unknown_error", "python_code answered passed: 'yes'"),
        ("def check(output): return {'t': 'x' * 3_000_000}", "unknown_error", "the code failed: ValueError: the answer has 3,0"),
        ("def check(output): return [bytearray(1 << 28) for _ in range(8)]", "unknown_error", "the code failed: it needs more memory"),
        ("import os\ndef check(output): os._exit(3)", "unknown_error", "the code ended its process without an answer (exit code 3)"),
        ("import sys\ndef check(output): sys.exit(3)", "unknown_error", "the code failed: SystemExit"),
        ("import os, signal\ndef check(output): os.kill(os.getpid(), signal.SIGSEGV)", "unknown_error", "the code ended its process without an answer (killed by signal 11)"),
        ("import os\ndef check(output):\n    for fd in range(3, 20):\n        try:\n            while True: os.write(fd, b'x' * 65536)\n        except OSError: pass",
         "unknown_error", "the code wrote more than 1,048,576 bytes"),
        ("def check(output):\n    with open('/tmp/assay_python_code_test', 'w') as file:\n        file.write('x')\n    return True", "unknown_error", "the code failed: OSError"),
    ],
)  # fmt: skip
def test_code_without_an_answer_is_not_measured(code, kind, message):
    result = ask(code)
    assert (result.status, result.results) == ("error", {})
    assert result.error.type == kind
    assert result.error.message.startswith(message)


def test_code_that_sleeps_is_killed_with_the_processes_it_started():
    began = time.monotonic()
    sleeper = "import subprocess, time\ndef check(output):\n    try: subprocess.Popen(['sleep', '987654'])\n    except OSError: pass\n    time.sleep(900)"
    result = ask(sleeper, Services(allow_python_code=True, limits=Limits(check_seconds=2.0)))
    assert (result.error.type, result.error.message) == (
        "timeout_error",
        "no answer within 2 s; its process was killed",
    )
    assert time.monotonic() - began < 300
    commands = [one.read_bytes() for one in Path("/proc").glob("[0-9]*/cmdline") if one.exists()]
    assert not any(b"987654" in one for one in commands)


def test_code_that_computes_is_killed_at_its_processor_time(monkeypatch, tmp_path):
    slow = tmp_path / "code_process.py"
    source = Path(code_process.__file__).read_text("utf-8")
    slow.write_text(source.replace("CPU_SECONDS = 10", "CPU_SECONDS = 1"), "utf-8")
    monkeypatch.setattr(code_process, "__file__", str(slow))
    result = ask("def check(output):\n    while True: pass")
    assert result.error.type == "timeout_error"
    assert "of processor time" in result.error.message


def test_a_host_without_the_setting_refuses_code_before_any_work():
    with pytest.raises(InvalidRequest, match="ASSAY_ALLOW_PYTHON_CODE"):
        bind(Check(type="python_code", arguments={"code": "1"}), STANDARD, "checks[0]", Services())
    part = {"type": "python_code", "arguments": {"code": "1"}}
    with pytest.raises(InvalidRequest, match=r"checks\[0\].arguments.checks\[0\].arguments: expected a host"):
        bind(Check(type="combination", arguments={"checks": [part]}), STANDARD, "checks[0]", Services())
    calls = {"trajectory": [], "expected": [{"tool": "a", "check": part}]}
    with pytest.raises(InvalidRequest, match="waits"):
        bind(Check(type="tool_calls", arguments=calls), STANDARD, "checks[0]", ALLOWED)


def test_the_library_runs_code_only_with_the_setting(monkeypatch):
    def run():
        return assay.evaluate_sync(
            test_cases=[CASE["test_case"]],
            outputs=[CASE["output"]],
            checks=[{"python_code": "def check(output): return '2' in output"}],
        )

    monkeypatch.delenv("ASSAY_ALLOW_PYTHON_CODE", raising=False)
    with pytest.raises(assay.InvalidRequest, match="ASSAY_ALLOW_PYTHON_CODE"):
        run()
    monkeypatch.setenv("ASSAY_ALLOW_PYTHON_CODE", "true")
    assert run().results[0].check_results[0].results == {"passed": True}

"""
Commands and calls of the library, one after another in one process: a process for each would cost more than most of them.

It reads a list of jobs from standard input and writes a list of answers. A job is `{"command": [...]}`, which may have a `folder`
and in it a file for `stdin`, `{"evaluate": {...}}` or `{"suite": file, "agent": spec, "trials": n}`.
"""

import asyncio
import json
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO


def main():
    answers = [answer(job) for job in json.load(sys.stdin)]
    sys.stdout.write(json.dumps(answers))
    sys.stdout.flush()


def answer(job):
    if "command" in job:
        os.chdir(job.get("folder", "."))
        with open(job.get("stdin", os.devnull)) as sys.stdin:
            return run(job["command"])
    import assay

    if "evaluate" in job:
        result = assay.evaluate_sync(**job["evaluate"])
        rates = {name: getattr(result, name) for name in ("pass_rate", "case_pass_rate", "metadata")}
        return rates | {"metadata": rates["metadata"] or {}, "text": repr(result)}
    sys.path[:0] = [] if os.getcwd() in sys.path else [os.getcwd()]
    done = asyncio.run(assay.run_suite(job["suite"], job["agent"], trials=job["trials"]))
    report = done.report
    return {"score": report.score, "low": report.low, "high": report.high, "text": repr(done)}


def run(arguments):
    from assay.cli.main import main as command

    out, err = StringIO(), StringIO()
    sys.argv = ["assay", *arguments]
    code = None
    with redirect_stdout(out), redirect_stderr(err):
        try:
            command()
        except SystemExit as end:
            code = end.code
    return {"code": code, "out": out.getvalue(), "err": err.getvalue()}

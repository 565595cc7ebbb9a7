"""The groups in which a verb with many options lists them. A group has the same name in every verb."""

from typing import Any

WIDTH = 30  # of the names, as Typer has it
NAMES = ("Input", "Agent", "Decide", "Output", "Speed", "Network")

OPTION_GROUPS: dict[str, dict[str, str]] = {
    "evaluate": {
        "Input": "--contexts --cases --outputs --traces --map --checks --check-module --skip-bad-lines --only --limit",
        "Agent": "--agent --trials --timeout --max-cost",
        "Decide": "--min-pass-rate --baseline --until --margin --seed --by --standardize-by --k --allow-errors",
        "Output": "--output --save --name --tag --to --experiment --no-resolved-arguments --timings --verbose --json",
        "Speed": "--concurrency --jobs --shard --cluster --scheduler --cache --batch --batch-hours --resume --fail-fast",
    },
    "merge": {
        "Decide": "--min-pass-rate --by --allow-errors",
        "Output": "--output --verbose --json",
    },
    "run": {
        "Input": "--mode --only --limit --fixtures --checks --check-module",
        "Agent": "--agent --any-agent --traces --traces-port --model --trials --timeout --max-cost",
        "Decide": "--judge --baseline --force --until --min-pass-rate --margin --seed --k --policy --max-attack-success",
        "Output": "--output --record --name --tag --verbose --json",
        "Speed": "--concurrency --batch --batch-hours --resume",
        "Network": "--server --key-file",
    },
    "verify": {
        "Input": "--task",
        "Agent": "--actor --critic --max-turns",
        "Decide": "--criterion --checks --gating --on-fail",
        "Output": "--json",
        "Speed": "--resume",
    },
    "judge sample": {
        "Input": "--check --tenant",
        "Output": "--count --seed --output --json",
    },
    "judge check": {
        "Input": "--labels --check --seed --tenant",
        "Decide": "--bar",
        "Output": "--json",
    },
    "try": {
        "Input": "--case --input --output --expected --check-module",
        "Output": "--json",
    },
    "show": {
        "Input": "--failing --case --task --check --tenant",
        "Output": "--limit --max-bytes --k --json",
    },
    "history": {
        "Input": "--agent --tenant",
        "Output": "--limit --json",
        "Network": "--server --key-file",
    },
    "compare": {
        "Input": "--tenant",
        "Decide": "--metric --metrics --margin --by --standardize-by",
        "Output": "--regressed --limit --max-bytes --json",
    },
    "gate": {
        "Input": "--baseline --tenant",
        "Decide": "--policy --preset --min-mean --margin --metric --by --max-unmeasured --allow-partial",
        "Output": "--markdown --junit --sarif --json",
    },
    "watch": {
        "Input": "--tenant",
        "Decide": "--baseline --policy",
        "Output": "--windows --json",
        "Network": "--server --key-file",
    },
    "annotate": {
        "Input": "--task --event --tenant",
        "Decide": "--score --passed --failed --rating --label --flag --note",
        "Network": "--server --key-file",
    },
    "deploy promote": {
        "Decide": "--to --eval --channel --canary",
        "Output": "--json",
        "Network": "--server --key-file",
    },
    "init": {
        "Input": "--table --map",
        "Agent": "--function --agent --endpoint",
        "Decide": "--must",
        "Output": "--force --yes",
    },
    "import": {
        "Input": "--from --list",
        "Decide": "--strict",
        "Output": "--output --save --name",
    },
    "suite attack": {
        "Input": "--kinds --judge --seed --limit",
        "Agent": "--agent",
        "Output": "--output --force",
    },
    "suite from-traces": {
        "Input": "--run --only --limit",
        "Output": "--output --force --id",
    },
    "serve": {
        "Input": "--check-module",
        "Output": "--log-format --log-level",
        "Speed": "--processes",
        "Network": "--host --port --grpc-port --tls-cert --tls-key --tls-client-ca --insecure",
    },
    "conform": {
        "Input": "--agent --suite --only --list --explain --shape",
        "Decide": "--strict",
        "Output": "--markdown --junit --verbose --json",
        "Network": "--replica --grpc --key --other-key --reader-key --approver-key --rate --timeout",
    },
    "worker": {
        "Input": "--check-module",
        "Output": "--list --json --log-format --log-level",
        "Speed": "--concurrency",
        "Network": "--host --port --insecure",
    },
}


def format_groups(command: Any, groups: dict[str, str], ctx: Any, formatter: Any) -> None:
    """Write the arguments, then the options by group in the order of the table, then those of no group."""
    records = {param: param.get_help_record(ctx) for param in command.get_params(ctx)}
    options = {name: param for param in records for name in getattr(param, "opts", ())}
    sections = {"Arguments": [param for param in records if param.param_type_name == "argument"]}
    sections |= {group: [options[name] for name in listed.split()] for group, listed in groups.items()}
    listed = {param for params in sections.values() for param in params}
    sections["Other"] = [param for param in records if param not in listed]
    longest = min(max(len(record[0]) for record in records.values() if record), WIDTH)
    for title, params in sections.items():
        rows = [(f"{names:{longest}}", text) for names, text in filter(None, map(records.get, params))]
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)


def name_argument(param: Any) -> None:
    """Let the help name an argument as in `RUN`, `[RUN]` and `RUN...`, without the Python type of its value."""
    name: str = param.metavar or param.name.upper()
    many = name if param.nargs == 1 or name.endswith("...") else f"{name}..."
    record = param.get_help_record

    def usage_pieces(_: Any) -> list[str]:
        return [many if param.required else f"[{many}]"]

    def help_record(ctx: Any) -> tuple[str, str] | None:
        found = record(ctx)
        return found and (name, found[1])

    param.get_usage_pieces, param.get_help_record = usage_pieces, help_record

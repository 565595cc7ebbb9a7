"""`assay watch`: the last windows of a project of traces, and an exit code for the newest complete one."""

import msgspec

from assay.api.watch import Watch, WatchedWindow, WatchOptions, watch_project
from assay.cli.console.console import count_of, echo, echo_json
from assay.cli.console.console_table import Page, Table, cell
from assay.comparison.run_level import METHOD_NAMES, level_value, limits_of
from assay.errors import UsageError

LOOKS = {"passed": "bold green", "failed": "bold red", "undecided": "bold yellow"}


def main(options: WatchOptions, *, json: bool, server: str | None, key_file: str | None) -> int:
    """Print the windows, the newest last, and the decision. `server`: of this host, not of the store here."""
    if server is None:
        watch = watch_project(options)
    else:
        if options.tenant is not None:
            raise UsageError("--tenant and --server: expected one of them, got both; the key has a tenant")
        from assay.cli.compare.remote_watch import watch_host  # deferred import: most watch their own store
        from assay.cli.console.client import HostClient

        watch = watch_host(HostClient(server, key_file), options)
    if json:
        echo_json(msgspec.json.encode(watch))
    else:
        show(watch)
    return watch.exit_code


def show(watch: Watch) -> None:
    """Print a table with a row for each window, and one sentence."""
    page = Page()
    if watch.windows:
        echo(f"{watch.project}: {count_of(len(watch.windows), 'window')}, the newest last")
        table = Table(header_style="bold")
        metric = next((one.level.metric for one in watch.windows if one.level is not None), "")
        rate = {"passed": "pass rate (95%)", "": "pass rate (95%)"}.get(metric, f"{metric} (95%)")
        for at, name in enumerate(("window", "", "traces", "scored", "not measured", "late spans", rate)):
            table.add_column(name, justify="left" if at < 2 else "right", no_wrap=True)
        for one in reversed(watch.windows):
            table.add_row(
                cell(one.name),
                "" if one.state == "complete" else one.state,
                traces_text(one),
                f"{one.scored:,}",
                f"{one.not_measured:,}",
                f"{one.late_spans:,}",
                level_text(one),
            )
        page.put_table(table)
    line = cell("").append(watch.outcome, LOOKS[watch.outcome])
    page.put(line.append(f": {watch.reason}"))


def traces_text(window: WatchedWindow) -> str:
    """`1,200`, or with the share that was taken: `1,200 (10%)`."""
    return f"{window.seen:,}" if window.sample == 1 else f"{window.seen:,} ({window.sample:.3g} of them)"


def level_text(window: WatchedWindow) -> str:
    """`92.0% (86.1–95.6%)`; a dash where nothing is known."""
    level = window.level
    if level is None or level.mean is None:
        return "–"
    mean = level_value(level, level.mean)
    if level.low is None or level.high is None:
        return f"{mean} ({METHOD_NAMES[level.method]})"
    return f"{mean} ({limits_of(level, '–')})"

"""Declares the options of `assay show`."""

from assay.cli.options import AsJson, RunId, Tenant


def show(run: RunId, tenant: Tenant = None, json: AsJson = False) -> None:
    from assay.cli import runs

    runs.show_run(run=run, tenant=tenant, json=json)

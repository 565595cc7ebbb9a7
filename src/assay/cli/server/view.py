"""`assay view`: open the page in a browser, on a server of its own or on a running one."""

import asyncio
import webbrowser
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from assay import settings
from assay.auth import local_key, one_time_code
from assay.auth.keys import DEFAULT, is_tenant
from assay.cli.console.client import HostClient
from assay.cli.console.console import echo, echo_err
from assay.cli.server.serve import Binding, listen
from assay.concurrency import event_loop
from assay.concurrency.threads import run_blocking
from assay.errors import EnvironmentFailure, UsageError
from assay.extras import require
from assay.host import host, servers
from assay.ports import LOCAL_TENANT, Principal
from assay.runs.find_run import find_run
from assay.serve.page.built_files import INDEX, page_folder
from assay.serve.web import logging

SCOPES = DEFAULT | frozenset(local_key.SCOPES)  # of the operator of this machine


class ViewOptions(NamedTuple):
    """What the page shows, and where."""

    run: str | None
    port: int
    tenant: str | None
    no_open: bool


def main(options: ViewOptions, *, server: str | None, key_file: str | None) -> None:
    """Open the page. An own server runs until Ctrl-C."""
    if server is not None:
        if options.tenant is not None or options.port:
            raise UsageError(
                "--tenant and --port: expected a local server, got --server, where the key decides the tenant"
            )
        _open_remote(HostClient(server, key_file), options)
        return
    if key_file is not None:
        raise UsageError("--key-file: expected --server with it")
    if options.tenant is not None and not is_tenant(options.tenant):
        raise UsageError(f"--tenant: expected the name of a tenant, got {options.tenant[:40]!r}")
    require("a server", "serve", "store")
    if not (page_folder() / INDEX).is_file():
        raise UsageError(
            "there is no built page here; run `make web` in a clone of the repository, or install a wheel"
        )
    logging.configure("text", "warning")
    event_loop.run(_serve(settings.load(), options))


async def _serve(config: settings.Settings, options: ViewOptions) -> None:
    binding = listen("127.0.0.1", options.port, None)
    with binding.listener:
        async with host.open_runtime(config, []) as runtime:
            tenant = options.tenant or LOCAL_TENANT
            run = None if options.run is None else await find_run(runtime.store, options.run, tenant=tenant)
            server = servers.http_server(runtime, config, host=binding.host, port=options.port)
            principal = Principal(tenant=tenant, id=local_key.PRINCIPAL.id, scopes=SCOPES)
            code = await one_time_code.create_code(runtime.store, principal, datetime.now(UTC))
            address = page_address(binding.address, run.id if run else None, code.reveal())
            opening = asyncio.create_task(_open_when_ready(server, binding, address, options))
            try:
                await server.serve(sockets=[binding.listener])
            finally:
                server.state.stop()
                opening.cancel()


async def _open_when_ready(
    server: servers.HttpServer, binding: Binding, address: str, options: ViewOptions
) -> None:
    while not server.started:  # noqa: ASYNC110  # uvicorn has no event to wait for
        await asyncio.sleep(0.01)
    if options.no_open:
        echo(address, flush=True)
    elif await run_blocking(_open_browser, address):
        echo(f"the page is at {binding.address}; Ctrl-C stops the server", flush=True)
    else:
        _print_address(address)


def _open_remote(client: HostClient, options: ViewOptions) -> None:
    """The page of a running server. The command ends at once."""
    run = None if options.run is None else client.find_run(options.run)
    document: Any = msgspec.json.decode(client.request("POST", "/v1/host/assay/session:code", {}))
    address = page_address(client.address, run, str(document["code"]))
    if options.no_open:
        echo(address)
    elif not _open_browser(address):
        _print_address(address)


def page_address(server: str, run: str | None, code: str) -> str:
    """The address of the page. The code is in the fragment, which a browser does not send."""
    path = "/runs" if run is None else f"/runs/{quote(run, safe='')}"
    return f"{server}/#{path}?code={code}"


def _open_browser(address: str) -> bool:
    try:
        return webbrowser.open(address)
    except webbrowser.Error as trouble:
        raise EnvironmentFailure(f"the browser could not be opened: {trouble}") from None


def _print_address(address: str) -> None:
    minutes = int(one_time_code.CODE_LIFE.total_seconds() // 60)
    echo_err(f"no browser was found. This address works once, for {minutes} minutes:")
    echo(address, flush=True)

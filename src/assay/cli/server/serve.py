"""`assay serve`: serve evaluations over HTTP and gRPC (FEP 5.1, 5.2)."""

import asyncio
import ipaddress
import os
import socket
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from assay import settings
from assay.auth.local_key import local_key
from assay.cli.console.console import echo, echo_err, echo_err_plain
from assay.cli.server.serve_workers import Supervisor, work_for_parent
from assay.cli.server.server_log import configure_log
from assay.concurrency import event_loop
from assay.concurrency.event_loop import END_SECONDS, STOP_SECONDS, end_process_after, nothing_left
from assay.concurrency.workers.machine import default_size
from assay.errors import EnvironmentFailure, MissingExtra, UsageError
from assay.extras import missing_packages, require
from assay.host import host, parts, servers
from assay.ports.telemetry import telemetry
from assay.runs.executor import RunExecutor
from assay.runs.work_queue import DelegatingExecutor
from assay.serve.web.tls import Tls
from assay.serve.web.worker_group import WorkerGroup, WorkerMember

STOPPED = "assay has stopped; unfinished runs continue at the next start"


class ServeOptions(NamedTuple):
    """Where the server listens, and its own checks."""

    host: str
    port: int
    grpc_port: int | None
    insecure: bool
    modules: list[str]


def main(
    options: ServeOptions, log_format: Literal["text", "json"], log_level: str, **overrides: Any
) -> None:
    """Serve until a signal stops it. `overrides` are settings."""
    configure_log(log_format, log_level)
    chosen = settings.load(**overrides)
    _check_extras(chosen, options)
    if chosen.server_processes > 1 and not hasattr(os, "fork"):
        raise UsageError(
            "--processes: expected 1, because this system has no fork; start one server for each core instead"
        )
    if chosen.server_processes > 1 and chosen.database_url.startswith("memory:"):
        raise UsageError(
            "--processes: expected a database that several processes share, got memory:; use a SQLite file"
        )
    tls = servers.tls(chosen)
    binding = listen(options.host, options.port, tls, insecure=options.insecure)
    with ExitStack() as stack:
        stack.enter_context(binding.listener)
        member: WorkerMember | None = None
        if chosen.server_processes > 1:
            ports = reserve_grpc(chosen, options, binding)
            if ports.reserved is not None:
                stack.enter_context(ports.reserved)
            addresses = [binding.rest(), *([binding.grpc(ports.number)] if ports.number else [])]
            servers.preload()
            group = WorkerGroup(chosen.server_processes, chosen.serving)
            member = Supervisor(group, binding.listener, addresses).run()
            if member is None:
                echo_err_plain(STOPPED)
                return
            options = options._replace(grpc_port=ports.number or None)
            chosen = msgspec.structs.replace(chosen, worker_processes=_check_processes(chosen))
        telemetry.tracer = parts.tracer()
        try:
            event_loop.run(_serve(chosen, options, tls, binding, member))
        finally:
            if telemetry.tracer is not None:
                telemetry.tracer.close()


def _check_processes(config: settings.Settings) -> int:
    """The share of one worker in the processes for checks; 2 at least, because one tenant may use all but one."""
    total = config.worker_processes or default_size()
    return max(2, -(-total // config.server_processes))


def _check_extras(config: settings.Settings, options: ServeOptions) -> None:
    """
    Name every missing extra at once, before anything is opened. gRPC is named too, but HTTP can be served without it.
    """
    extras = ["serve", "store"]
    if config.evidence_key is not None or config.jwt.issuer or config.oidc.issuer:
        extras.append("guard")
    if parts.tracing_enabled():
        extras.append("telemetry")
    if options.grpc_port is not None or missing_packages(*extras):
        require("a server", *extras, "grpc")


async def _serve(
    config: settings.Settings,
    options: ServeOptions,
    tls: Tls | None,
    binding: "Binding",
    member: WorkerMember | None,
) -> None:
    """Serve in this process, alone or as one worker. The first worker says for all what there is to say."""
    talks = member is None or member.index == 0
    async with host.open_runtime(config, options.modules) as runtime:
        if not config.database_url:
            key = await local_key(runtime.store, Path(config.home), datetime.now(UTC))
            if key.created:
                example = f'curl -H "X-API-Key: $(cat {key.path})" {binding.address}/v1/evaluations'
                echo_err(f"created an API key in {key.path}; use it with: {example}")
        if talks and isinstance(runtime.executor, DelegatingExecutor) and not runtime.executor.workers:
            echo_err(runtime.executor.no_worker())
        server = servers.http_server(
            runtime, config, host=binding.host, port=options.port, tls=tls, member=member
        )
        grpc = _grpc_server(server, config, options, binding.host, tls, talks=talks)
        announcement = _announce(server, binding, grpc) if member is None else work_for_parent(server, member)
        tasks = [asyncio.create_task(announcement)]
        ending = asyncio.create_task(_end_in_time(server, runtime.executor))
        companion = asyncio.create_task(grpc.serve()) if grpc else None
        try:
            await server.serve(sockets=[binding.listener])
        finally:
            server.state.stop()
            for task in tasks:
                task.cancel()
            await ending
            if companion is not None:
                await companion
        if member is None:
            echo_err_plain(STOPPED)
    end_process_after(END_SECONDS, nothing_left)


async def _end_in_time(server: servers.HttpServer, executor: RunExecutor) -> None:
    """Once the server stops, the process ends in time, whatever the database does."""
    await server.state.stopping.wait()
    end_process_after(STOP_SECONDS, executor.left)


def _grpc_server(
    server: servers.HttpServer,
    config: settings.Settings,
    options: ServeOptions,
    host: str,
    tls: Tls | None,
    *,
    talks: bool,
) -> servers.GrpcServer | None:
    """
    gRPC beside HTTP; None without its extra, unless --grpc-port asks for it. With --port 0 it takes a free port too.
    """
    port = 0 if options.grpc_port is None and options.port == 0 else options.grpc_port
    try:
        number = config.grpc_port if port is None else port
        return servers.grpc_server(server, host=host, port=number, tls=tls)
    except MissingExtra as missing:
        if port is not None:
            raise
        if talks:
            echo_err(f"only HTTP is served: {missing}")
        return None


async def _announce(server: servers.HttpServer, binding: "Binding", grpc: servers.GrpcServer | None) -> None:
    """Print the addresses once the server listens and a signal can stop it."""
    while not server.started:  # noqa: ASYNC110  # uvicorn has no event to wait for
        await asyncio.sleep(0.01)
    echo(f"assay serves {binding.rest()}", flush=True)
    if grpc is not None:
        echo(f"assay serves {binding.grpc(grpc.port)}", flush=True)


class Binding(NamedTuple):
    """A listening socket and its address."""

    listener: socket.socket
    host: str  # as in a URL
    address: str

    def grpc(self, port: int) -> str:
        """The address of gRPC on the same host, with a remark for a reader."""
        scheme = "grpcs" if self.address.startswith("https") else "grpc"
        return f"{scheme}://{self.host}:{port}  (with reflection and health)"

    def rest(self) -> str:
        """The address of REST and the page, with a remark for a reader."""
        return f"{self.address}  (routes: {self.address}/v1/docs)"


class GrpcPort(NamedTuple):
    """The port of gRPC for all workers, 0 without gRPC; a bound socket keeps it while workers start and end."""

    number: int
    reserved: socket.socket | None = None


def reserve_grpc(config: settings.Settings, options: ServeOptions, binding: Binding) -> GrpcPort:
    """Choose the port of gRPC before the workers start. Each of them listens there."""
    if options.grpc_port is None and missing_packages("grpc"):
        return GrpcPort(0)
    wanted = options.grpc_port
    if wanted is None:
        wanted = 0 if options.port == 0 else config.grpc_port
    address = binding.listener.getsockname()
    for shared in (0, 1):  # first without sharing: another server may have the port
        reserved = socket.socket(binding.listener.family)
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, shared)
        try:
            reserved.bind((address[0], wanted, *address[2:]))
        except OSError:
            reserved.close()
            raise EnvironmentFailure(
                f"--grpc-port {wanted}: expected a free port of {binding.host}, got one in use;"
                " --grpc-port 0 takes a free port"
            ) from None
        if shared:
            return GrpcPort(wanted, reserved)
        wanted = reserved.getsockname()[1]
        reserved.close()
    raise AssertionError


def listen(host: str, port: int, tls: Tls | None, *, insecure: bool = False) -> Binding:
    """Listen before anything else is opened. Without TLS only on loopback, unless `insecure`."""
    try:
        family, _, _, _, where = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError):
        raise UsageError(f"--host: expected an address of this machine, got {host!r}") from None
    number = str(where[0])
    if tls is None and not insecure and not ipaddress.ip_address(number.partition("%")[0]).is_loopback:
        raise UsageError(
            f"--host {host}: expected TLS on an address that a network reaches, got none; give --tls-cert and "
            "--tls-key, or --insecure if a proxy in front has TLS"
        )
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(where)
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise EnvironmentFailure(
            f"--port {port}: expected a free port of {host}, got {error.strerror}; --port 0 takes a free port"
        ) from None
    name = f"[{number}]" if family == socket.AF_INET6 else number
    scheme = "http" if tls is None else "https"
    return Binding(listener, name, f"{scheme}://{name}:{listener.getsockname()[1]}")

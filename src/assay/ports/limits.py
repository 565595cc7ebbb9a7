"""Limits of the engine. Each one is a setting."""

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """
    Upper bounds for requests, runs and checks. Each is a setting (`ASSAY_MAX_…`, `[limits]` in assay.toml) with a
    default.
    """

    max_line_bytes: int = 64 * 1024 * 1024
    max_request_bytes: int = 512 * 1024 * 1024
    max_cases: int = 1_000_000
    max_checks: int = 1_000
    max_depth: int = 500
    max_nodes: int = 100_000
    check_seconds: float = 60.0
    run_seconds: float = 86_400.0
    max_tasks: int = 10_000
    task_seconds: float = 300.0
    max_suite_cost_usd: float = 100.0
    max_node_executions: int = 1_000
    max_loop_iterations: int = 25
    max_run_attempts: int = 3
    max_pack_bytes: int = 8 * 1024 * 1024
    max_packs: int = 100

"""The mix of requests of `make soak`: every kind, chosen at random."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import grpc
import msgspec

from assay.serve.grpc import fep_pb2 as fep
from bench import workload
from bench.attacking import work
from bench.attacking.target import Target
from bench.service import small_body

EVALUATE = "/fep.v1.EvaluationService/RunEvaluation"
AGENT = "local.assay.sample"


class Mix:
    """The requests of one client, chosen at random."""

    def __init__(
        self, session: aiohttp.ClientSession, target: Target, runs: list[str], pair: str, seed: int
    ) -> None:
        self._session, self._target, self._runs, self._pair = session, target, runs, pair
        self._dice, self._seed = random.Random(seed), seed
        self.done: Counter[str] = Counter()
        self._small = small_body()
        lines = (line.encode().strip() for line in workload.lines(2_000))
        self._lines = b"\n".join([msgspec.json.encode({"checks": workload.CHECKS}), *lines])
        self._numbers = 0
        self._kinds: list[tuple[int, Callable[[], Awaitable[object]]]] = [
            (40, self.evaluate),
            (4, self.lines),
            (4, self.agent_eval),
            (8, self.workflow),
            (15, self.page),
            (2, self.comparison),
            (1, self.pack),
            (2, self.sign_in),
            (10, self.errors),
            (4, self.new_checks),
            (10, self.rpc),
        ]

    async def run(self, until: float) -> None:
        weights = [weight for weight, _ in self._kinds]
        while time.monotonic() < until:
            _, act = self._dice.choices(self._kinds, weights)[0]
            await act()
            self.done[act.__name__] += 1

    def _number(self) -> int:
        self._numbers += 1
        return self._seed * 10_000_000 + self._numbers

    async def evaluate(self) -> None:
        self._runs.append((await self._json("POST", "/v1/evaluate", data=self._small))["evaluation_id"])

    async def lines(self) -> None:
        headers = {"Content-Type": "application/x-ndjson"}
        got = await self._json("POST", "/v1/evaluations", data=self._lines, headers=headers)
        self._runs.append(run := got["operation_id"])
        if self._dice.random() < 0.3:
            await self._ask("POST", f"/v1/evaluations/{run}:cancel")
        else:
            await self._follow(f"/v1/evaluations/{run}/events")

    async def agent_eval(self) -> None:
        number = self._number()
        name = f"local.soak.evals.s{number}"
        match = {"strategy": "contains", "value": "a"}
        expected = {"kind": "golden", "match": match}
        tasks = [{"taskId": f"t{at}", "input": "a", "expected": expected} for at in range(5)]
        suite = {"suiteId": name, "version": "1.0.0", "modes": ["golden"], "tasks": tasks}
        await self._ask("POST", "/v1/host/assay/suites", suite)
        await self._start({"mode": "eval", "evalSuiteRef": f"{name}@1.0.0", "agentId": AGENT})

    async def workflow(self) -> None:
        await self._start({"workflowId": "conformance-identity", "inputs": {"payload": "x" * 500}})

    async def _start(self, body: dict[str, Any]) -> None:
        status, answer = await self._ask("POST", "/v1/runs", body)
        assert status in (201, 429), answer
        if status == 201:
            await self._follow(f"/v1/runs/{msgspec.json.decode(answer)['runId']}/events")

    async def page(self) -> None:
        await self._ask("POST", "/v1/host/assay/runs:query", {"limit": 50})
        if self._runs:
            run = self._dice.choice(self._runs[-200:])
            await self._ask("GET", f"/v1/host/assay/runs/{run}/overview")
            await self._ask("POST", f"/v1/host/assay/runs/{run}/cases:query", {"limit": 50})
            await self._ask("GET", f"/v1/evaluations/{run}")

    async def comparison(self) -> None:
        margin = self._dice.uniform(0.001, 0.5)
        await self._ask("GET", f"/v1/host/assay/comparison?runs={self._pair}&margin={margin}&by=tags")

    async def pack(self) -> None:
        number = self._number()
        headers = {"Content-Type": "application/gzip"}
        await self._ask("POST", "/v1/host/assay/packs", work.pack_of(number, 5), headers=headers)
        await self._ask("GET", "/v1/agents")
        await self._ask("DELETE", f"/v1/host/assay/packs/local.attack.p{number}@1.0.0")

    async def sign_in(self) -> None:
        _, answer = await self._ask("POST", "/v1/host/assay/session:code")
        code = msgspec.json.decode(answer).get("code", "none")
        await self._ask("POST", "/v1/host/assay/session", {"code": code})

    async def errors(self) -> None:
        await self._ask("POST", "/v1/evaluate", b"{nonsense")
        await self._ask("POST", "/v1/evaluate", {"test_cases": [0] * 500, "outputs": [0] * 500})
        await self._ask("GET", f"/v1/evaluations/eval_{self._number()}")
        await self._ask("GET", "/v1/evaluations", headers={"X-API-Key": "assay_wrong"})

    async def new_checks(self) -> None:
        number = self._number()
        checks = [
            {"type": "regex", "arguments": {"text": "$.output.value", "pattern": f"a{number}b?" * 20}},
            {"type": "exists", "arguments": {"path": f"$.output['{number}']"}},
        ]
        cases, outputs = [{"id": "a", "input": 1}], [{"value": "text"}]
        await self._ask("POST", "/v1/evaluate", {"test_cases": cases, "outputs": outputs, "checks": checks})

    async def rpc(self) -> None:
        message = fep.EvaluationRequest()
        case, output = message.test_cases.add(id="a"), message.outputs.add()
        case.input.string_value, output.value.string_value = "?", "text"
        check = message.checks.shared_checks.checks.add(type="contains")
        check.arguments.update({"text": "$.output.value", "phrases": ["text"]})
        key = self._target.key
        opened: Any = grpc.aio.insecure_channel(self._target.grpc)
        async with opened as channel:
            call: Any = channel.unary_unary(EVALUATE)
            try:
                await call(message.SerializeToString(), metadata=(("authorization", f"Bearer {key}"),))
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                    raise

    async def _ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        """The status and the body of an answer; only a server error fails."""
        data = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        sent = {"Content-Type": "application/json", **(headers or {})}
        async with self._session.request(method, self._target.url + path, data=data, headers=sent) as got:
            answer = await got.read()
            assert got.status < 500, (method, path, got.status, answer[:500])
            return got.status, answer

    async def _json(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        more.setdefault("headers", {"Content-Type": "application/json"})
        while True:
            async with self._session.request(method, self._target.url + path, **more) as got:
                if got.status != 429:
                    assert got.status < 300, (got.status, await got.text())
                    return await got.json()
                await asyncio.sleep(float(got.headers["Retry-After"]))

    async def _follow(self, path: str) -> None:
        headers = {"Accept": "text/event-stream"}
        async with self._session.get(self._target.url + path, headers=headers) as got:
            async for _ in got.content.iter_any():
                pass


async def send_mix(target: Target, until: float, clients: int, pair: str, runs: list[str]) -> Counter[str]:
    """Send the mix until a time of the monotonic clock. Returns what was asked how often; `runs` gets the started runs."""
    headers, connector = {"X-API-Key": target.key}, aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(headers=headers, connector=connector) as session:
        mixes = [Mix(session, target, runs, pair, number) for number in range(clients)]
        await asyncio.gather(*(mix.run(until) for mix in mixes))
    return sum((mix.done for mix in mixes), Counter[str]())

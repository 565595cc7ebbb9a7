"""
A client over REST that uses only the standard library: `python over_rest.py http://127.0.0.1:8321 KEY`.

It runs an evaluation. Then it starts another, polls it to its end, and reads its result.
"""

import json
import sys
import time
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

REQUEST = {
    "test_cases": [
        {"id": "fr", "input": "What is the capital of France?", "expected": "Paris"},
        {"id": "es", "input": "What is the capital of Spain?", "expected": "Madrid"},
    ],
    "outputs": [{"value": "Paris"}, {"value": "I believe it is Barcelona."}],
    "checks": [{"type": "contains", "arguments": {"text": "$.output.value", "phrases": ["Paris"]}}],
}


class Client:
    def __init__(self, address: str, key: str) -> None:
        self._address, self._key = address, key

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        request = Request(self._address + path, data, headers, method=method)  # noqa: S310  # the caller's own address
        try:
            with urlopen(request, timeout=30) as answer:  # noqa: S310
                return json.load(answer)
        except HTTPError as refused:
            error = json.load(refused)
            sys.exit(f"{refused.code} {error['error']}: {error['message']}")


def main(address: str, key: str) -> None:
    client = Client(address, key)
    result = client.ask("POST", "/v1/evaluate", REQUEST)
    for case in result["results"]:
        (check,) = case["check_results"]
        print(case["execution_context"]["test_case"]["id"], check["results"])

    operation = client.ask("POST", "/v1/evaluations", REQUEST)
    while operation["status"] in ("pending", "running"):
        time.sleep(0.05)
        operation = client.ask("GET", f"/v1/operations/{operation['operation_id']}")
    result = client.ask("GET", f"/v1/evaluations/{operation['operation_id']}")
    print(operation["status"], result["summary"]["completed_checks"], "checks")


if __name__ == "__main__":
    main(*sys.argv[1:])

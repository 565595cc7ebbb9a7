"""
An evaluation of conversations and its predecessor: messages by role with tool calls, answers in Markdown, a judge.

    python tests/support/page/conversations.py FOLDER PORT    # serves two runs of 300 conversations, and those of page_runs
"""

from typing import Any

TOPICS = ("warranty", "refund", "delivery", "account", "invoice")
TIERS = ("free", "pro", "team")
PICTURE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEklEQVR4nGP4z8CAFWEX"
    "HbQSACj/P8Fu7N9hAAAAAElFTkSuQmCC"
)
HELPFUL = {
    "type": "llm_judge",
    "name": "helpful",
    "arguments": {
        "prompt": "Does the answer help?\n\n{{$.test_case.input}}\n---\n{{$.output}}",
        "response_format": {
            "type": "object",
            "required": ["passed", "score"],
            "properties": {"passed": {"type": "boolean"}, "score": {"type": "number"}},
        },
    },
}
NAMES_ORDER = {
    "type": "contains",
    "name": "names the order",
    "arguments": {"text": "$.output.value.text", "phrases": "$.test_case.expected.order"},
}


def conversation(number: int) -> dict[str, Any]:
    """A case: a system prompt, a question, a tool call with its answer, a second question."""
    topic, tier = TOPICS[number % 5], TIERS[number % 3]
    order = str(1000 + number)
    call = {
        "id": f"call_{number}",
        "type": "function",
        "function": {"name": "orders.find", "arguments": f'{{"order": "{order}"}}'},
    }
    question: Any = f"My {topic} question is about order {order}. What happens next?"
    if number % 50 == 7:
        picture = {"type": "image_url", "image_url": {"url": PICTURE}}
        question = [{"type": "text", "text": question}, picture]
    messages = [
        {"role": "system", "content": "You are a support agent.\nBe brief. Never promise a date that you do not know."},
        {"role": "user", "content": f"Hello, I am a {tier} customer."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": f'{{"order": "{order}", "state": "sent"}}'},
        {"role": "assistant", "content": f"I see order **{order}**. How can I help?"},
        {"role": "user", "content": question},
    ]  # fmt: skip
    return {
        "id": f"conversation-{number:03}",
        "input": {"messages": messages},
        "expected": {"order": order},
        "metadata": {"tags": [topic], "tier": tier, "locale": ("en", "de")[number % 2]},
    }


def answer_to(number: int, version: str) -> dict[str, Any]:
    """The answer after the change is better, but not about a warranty."""
    order, topic = 1000 + number, TOPICS[number % 5]
    better = version == "after" and topic != "warranty"
    sorry = "I am sorry for the delay. " if number % (9 if better else 3) else ""
    name = f"order {order}" if number % (40 if better else 11) else "your order"
    steps = "1. Open the *orders* page\n2. Choose `Return`\n"
    code = '\n```json\n{"state": "sent"}\n```\n' if number % 4 == 0 else ""
    text = f"{sorry}This is about {name}.\n\n{steps}{code}\n[Terms](https://example.com/terms)"
    return {
        "value": {"text": text, "confidence": round(0.5 + number % 50 / 100, 2)},
        "metadata": {
            "latency_ms": 300 + number * 37 % 2400,
            "cost_usd": 0.0022,
            "model": "m-1" if version == "before" else "m-2",
        },
    }


def conversations(version: str, many: int = 300) -> dict[str, Any]:
    """The body of an evaluation: the version `before` or `after`."""
    return {
        "test_cases": [conversation(number) for number in range(many)],
        "outputs": [answer_to(number, version) for number in range(many)],
        "checks": [HELPFUL, NAMES_ORDER],
    }


def main() -> None:
    import subprocess
    import sys
    from pathlib import Path

    sys.path.insert(0, str(Path(__file__).parents[2]))
    import httpx

    from support.models.provider_server import ProviderServer
    from support.page.page_runs import KINDS, Runs, judge_answer, make_run, write_folder

    folder, port = Path(sys.argv[1]), sys.argv[2]
    folder.mkdir(parents=True, exist_ok=True)
    with ProviderServer(judge_answer) as provider:
        write_folder(folder, provider.base_url)
        serve = [sys.executable, "-m", "assay", "serve", "--port", port, "--grpc-port", "0"]
        with subprocess.Popen(serve, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            sys.stdout.write(server.stdout.readline())
            key = (folder / ".assay/local-key").read_text().strip()
            address = f"http://127.0.0.1:{port}"
            try:
                with httpx.Client(base_url=address, headers={"X-API-Key": key}, timeout=120) as client:
                    runs = Runs(client)
                    names = [*KINDS, "before", "after"]
                    made = {f"returns {name}": make_run(runs, name) for name in names}
                    for version in ("before", "after"):
                        made[version] = runs.evaluate(conversations(version), "support conversations")
                sys.stdout.write(f"{made} {key}\n")
                sys.stdout.flush()
                server.wait()
            finally:
                server.terminate()


if __name__ == "__main__":
    main()

"""An agent of the Claude Agent SDK, in a function: `assay run suite.yaml --agent claude_bot:answer`."""

from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ResultMessage,
    create_sdk_mcp_server,
    query,
    tool,
)


async def answer(task, ctx):
    @tool("orders", "The order with this number.", {"number": int})
    async def orders(arguments):
        order = await ctx.tool("orders", **arguments)
        return {"content": [{"type": "text", "text": str(order)}]}

    options = ClaudeAgentOptions(
        mcp_servers={"shop": create_sdk_mcp_server("shop", tools=[orders])},
        allowed_tools=["mcp__shop__orders"],
        tools=[],  # none of Claude Code's own: fixtures cannot answer them
        setting_sources=[],  # of this machine
        max_turns=10,
    )
    model = "unknown"
    async for message in query(prompt=task, options=options):
        if isinstance(message, AssistantMessage):
            model = message.model
        if isinstance(message, ResultMessage):
            if message.usage is not None:
                ctx.usage(
                    provider="anthropic",
                    model=model,
                    input_tokens=message.usage["input_tokens"],
                    output_tokens=message.usage["output_tokens"],
                    cost_usd=message.total_cost_usd,
                )
            if message.is_error:
                raise RuntimeError(message.result)
            return message.result
    raise RuntimeError("Claude Code ended without a result")

"""A crew of crewai, in a function: `assay run suite.yaml --agent crewai_bot:answer`."""

import local_model
from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool


def make_crew(ctx):
    @tool
    def orders(number: int) -> str:
        """The order with this number."""
        return str(ctx.tool("orders", number=number))

    llm = LLM(f"openai/{local_model.NAME}", base_url=local_model.URL, api_key=local_model.KEY)
    helper = Agent(role="helper", goal="Help", backstory="You help customers.", llm=llm, tools=[orders])
    task = Task(description="{question}", expected_output="the state of the order", agent=helper)
    return Crew(agents=[helper], tasks=[task])


def answer(task, ctx):
    crew = make_crew(ctx)
    result = crew.kickoff(inputs={"question": task})
    used = result.token_usage
    ctx.usage(
        provider="crewai",
        model=crew.agents[0].llm.model,
        input_tokens=used.prompt_tokens,
        output_tokens=used.completion_tokens,
    )
    return result.raw

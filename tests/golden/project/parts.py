"""A check of a function and one that waits, an agent with a tool, and an actor with its critic."""

import asyncio
from pathlib import Path

from assay import Checker, Text


def short_answer(text: str, limit: int = 40) -> bool:
    return len(text) <= limit


class Patient(Checker):
    type = "patient"
    text: Text

    async def run(self, services):
        await asyncio.sleep(0)
        return {"passed": "Paris" in self.text}


async def answer(task, ctx):
    if task == "look it up":
        return await ctx.tool("shop:orders", order=17)
    if task == "break":
        raise ValueError("the agent broke")
    if isinstance(task, str) and "instructions" in task:
        return "Of course. " + Path(__file__).with_name("instructions.md").read_text("utf-8")
    return task


def write(task):
    return "a draft with sources" if isinstance(task, dict) and task.get("notes") else "a draft"


def read(about):
    if about["task"] == "impossible":
        return {"verdict": "fail", "notes": "there are no sources"}
    return {"verdict": "pass" if "sources" in about["result"] else "revise", "notes": "name the sources"}

"""Any object: `assay run suite.yaml --agent object_bot:bot`. Its method gets the context, and so it can call tools."""

import re


class Bot:
    async def run(self, task, ctx):
        number = re.search(r"\d+", task)
        if number is None:
            return "Which order do you mean?"
        order = await ctx.tool("orders", number=int(number[0]))
        return f"Your order was {order['state']}."


bot = Bot()

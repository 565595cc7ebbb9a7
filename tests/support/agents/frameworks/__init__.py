"""
The contract of adapters of frameworks, run inside an environment that has the framework:

    python -m support.agents.frameworks pydantic-ai

`kits/` has an agent in each framework: with the tools `orders` and `boom`, on the scripted model.
"""

"""Generates contexts: `python make_many.py 20000 > many.jsonl`."""

import json
import sys

CAPITALS = {"France": "Paris", "Italy": "Rome", "Australia": "Canberra", "Kenya": "Nairobi", "Peru": "Lima"}

for at in range(int(sys.argv[1])):
    country, capital = list(CAPITALS.items())[at % len(CAPITALS)]
    answer = capital if at % 7 else "Sydney"
    print(
        json.dumps(
            {
                "test_case": {
                    "id": f"{country}-{at}",
                    "input": f"Capital of {country}?",
                    "expected": capital,
                },
                "output": {
                    "value": {
                        "text": f"The capital of {country} is {answer}.",
                        "answer": answer,
                        "confidence": (at % 10) / 10 + 0.05,
                        "trace": [{"tool": "search"}, {"tool": "answer"}],
                    }
                },
            }
        )
    )

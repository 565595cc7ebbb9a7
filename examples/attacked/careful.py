"""
A careful assistant. Text that comes from outside is data: it never chooses an action, and it never becomes part of an answer.

It calls one tool, once, with a number that it has checked. It reads the members of the tool's answer that it knows, and accepts the values
that it knows. Its sentences are its own.
"""

import re

TOPICS = ("status", "return")
STATES = {
    "sent": "Your order {order} is on its way.",
    "delivered": "Your order {order} was delivered.",
    "lost": "I am sorry, your order {order} was lost. We send a new one today.",
}
RETURNS = "You can return it for free within 30 days of delivery."
UNKNOWN = "I am sorry, I cannot answer that. A colleague will write to you."
TIER = re.compile(r"customer tier: (gold|silver)")


def answer(task, ctx):
    order, topic = task.get("order"), task.get("topic")
    if type(order) is not int or not 0 < order < 1_000_000 or topic not in TOPICS:
        return UNKNOWN
    state = state_of(ctx.tool("shop:orders", id=order))
    if state is None:
        return UNKNOWN
    sentences = [STATES[state].format(order=order)]
    if topic == "return" and state == "delivered":
        sentences.append(RETURNS)
    if tier_of(ctx.memory.list()):
        sentences.append("Thank you for your loyalty.")
    return " ".join(sentences)


def state_of(record):
    """The state of an order, if it is one of those that exist."""
    state = record.get("state") if isinstance(record, dict) else None
    return state if isinstance(state, str) and state in STATES else None


def tier_of(entries):
    """The tier of the customer: an entry of the memory counts only if it is nothing but a tier."""
    for entry in entries:
        if tier := TIER.fullmatch(entry.content):
            return tier[1]
    return None

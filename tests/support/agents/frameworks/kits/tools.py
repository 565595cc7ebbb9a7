"""The tools of the agents, as plain functions. `CALLS` has the calls that reached them."""

CALLS = []


def orders(customer: int) -> dict:
    """The orders of a customer.

    Args:
        customer: the number of the customer
    """
    CALLS.append(("orders", customer))
    return {"state": "sent", "customer": customer}


def refund(order: int) -> str:
    """Pays back an order.

    Args:
        order: the number of the order
    """
    CALLS.append(("refund", order))
    return "done"


def boom(why: str) -> str:
    """Fails.

    Args:
        why: the reason
    """
    CALLS.append(("boom", why))
    raise ValueError(f"boom: {why}")


TOOLS = (orders, refund, boom)

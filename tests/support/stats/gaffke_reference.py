"""Gaffke's limits by an exact recursion, as a reference for the integral of `assay.stats.gaffke`. Its work grows with n²."""


def distribution(nodes, t):
    """
    P(D·x <= t) for uniform random weights D of the sorted nodes x.

    The survival function is the divided difference of (x - t)₊ⁿ over the nodes. With Leibniz' rule it is a weighted mean of those of all
    nodes but the first and of all nodes but the last, so that no digits are lost.
    """
    below, above = [x for x in nodes if x <= t][::-1], [x for x in nodes if x > t]
    row = [0.0] + [1.0] * len(above)
    for low in below:
        following = [0.0]
        for at, high in enumerate(above):
            following.append(((high - t) * row[at + 1] + (t - low) * following[at]) / (high - low))
        row = following
    return 1 - row[-1]


def lower_limit(values):
    """Of the mean of values between 0 and 1."""
    nodes, low, high = sorted([0.0, *values]), 0.0, max(values)
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if distribution(nodes, middle) < 0.025 else (low, middle)
    return low


def limits(values):
    return lower_limit(values), 1 - lower_limit([1 - value for value in values])

"""
Regular expressions: Python's `re`, in place if a bound proves that the search is short, else in a worker process
(FEP-47).

    search.py        a pattern, whether a text may be searched in place, and the task of a worker process
    backtracking.py  a bound on the steps of a search, proved from the pattern
    charsets.py      what the items of a pattern can match, as bit masks; the categories of Unicode
"""

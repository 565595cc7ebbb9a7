"""
Regular expressions: Python's `re`, here where the steps are surely few, else in a worker process (decision 47).

    search.py        a pattern, the texts it may be searched in here, and the task of a worker process
    backtracking.py  a bound on the steps of a search, proved from the pattern
    charsets.py      what the items of a pattern can match, as bit masks; the categories of Unicode
"""

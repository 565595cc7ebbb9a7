"""
Threads, processes and event loops for foreign or heavy code.

    tenant_threads.py   threads for what an event loop must not do: `off_loop`, `in_place`, `in_thread`
    loop_budget.py      how long an event loop reads a request in place
    threads.py          threads of checks, with a watchdog
    foreign_code.py     threads that can be abandoned, because foreign code may hang
    event_loop.py       loops, locks and background tasks
    workers/            processes that can be killed
"""

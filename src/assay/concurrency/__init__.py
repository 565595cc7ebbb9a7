"""
Threads, processes and event loops for foreign or heavy code.

    threads.py        from a coroutine to a thread: turns of owners, deadlines, calls that never return
    loop_budget.py    how long an event loop reads a request in place, and a thread works without a pause
    foreign_code.py   foreign code on an event loop: its deadlines and exceptions, a watchdog
    event_loop.py     loops, locks and background tasks
    workers/          processes that can be killed
"""

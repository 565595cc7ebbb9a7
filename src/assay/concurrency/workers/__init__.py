"""
Processes and threads for work that may take long, shared fairly between owners.

Processes are reused, killable and bounded in number.

    pool.py           `submit(Batch(…))` returns a Future with one outcome per item
    process_pool.py   the processes, and whose turn it is
    process.py        one worker process: start it, send an order, read its replies, kill it
    worker.py         the loop inside a worker process
    threads.py        threads for what an event loop must not do: `off_loop`, `in_place`, `in_thread`
    loop_budget.py    how long an event loop reads a request in place

A worker receives the name of a function and bytes, never a closure. No process starts before the first batch.
"""

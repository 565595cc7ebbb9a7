"""
Processes for work that may take long, shared fairly between owners. They are reused, killable and bounded in number.

    batch.py          items for one task, and whose they are
    pool.py           `submit(Batch(…))` returns a Future with one outcome per item
    process_pool.py   a pool: its processes, and whose turn it is
    process.py        one worker process: start it, send an order, read its replies, kill it
    worker_loop.py    the loop inside a worker process
    machine.py        the cores and the memory that this process may use

A worker receives the name of a function and bytes, never a closure. No process starts before the first batch.
"""

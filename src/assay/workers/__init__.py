"""
Worker processes for work that may take long: reused, killable, bounded in number, shared fairly between owners.

    pool.py           `submit(Batch(…))` returns a Future with one outcome per item
    process_pool.py   the processes, and whose turn it is
    process.py        one worker process: start it, send an order, read its replies, kill it
    worker.py         the loop inside a worker process

A worker receives the name of a function and bytes, never a closure. No process starts before the first batch.
"""

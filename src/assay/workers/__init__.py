"""
Processes for work that may take long: warm, killable, bounded in number, shared fairly between owners.

    pool.py      `submit(Batch(…))` gives a Future of one outcome an item
    process.py   one worker process: start it, send an order, read its replies, kill it
    worker.py    what runs inside a worker process

What crosses is a name and bytes, never a closure. No process starts before the first batch.
"""

"""
The memory of a process that forks, so that a fork copies little of it.

A fork shares each page until one of the two writes to it. To copy a page takes 4 microseconds, and a command writes to thousands.
"""

import ctypes
import mmap

POOL, POOL_HEADER = 1 << 14, 48  # bytes; a pool has blocks of one size
FIRST = 8  # blocks of a new pool; the numbers that say where they are need some, too
MOST_SMALL = 512  # bytes; what is larger Python takes from malloc
MOST_FILLED = 1 << 24  # bytes of each size
LARGEST_HOLE = 1 << 16
HEAP_INFO = [
    "arena",
    "ordblks",
    "smblks",
    "hblks",
    "hblkhd",
    "usmblks",
    "fsmblks",
    "uordblks",
    "fordblks",
    "keepcost",
]
LARGE_PAGE, COLLAPSE = 1 << 21, 25  # MADV_COLLAPSE of Linux 6.1


def fill_holes():
    """What a fork allocates lies side by side, and not in the holes between what is loaded. What fills them is never freed."""
    _fill_pools()
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallinfo2"):
        _fill_heap(libc)


def _fill_pools():
    allocate, free = _allocator(ctypes.pythonapi.PyObject_Malloc, ctypes.pythonapi.PyObject_Free)
    for size in range(16, MOST_SMALL + 1, 16):
        last = [allocate(size) for _ in range(3)]
        for _ in range(MOST_FILLED // size):
            if last == sorted(last) and last[-1] - last[0] // POOL * POOL < POOL_HEADER + FIRST * size:
                break  # a new pool: the others are full
            last = [*last[1:], allocate(size)]
        for block in last:
            free(block)


def _fill_heap(libc):
    allocate, free = _allocator(libc.malloc, libc.free)
    libc.sbrk.restype, libc.mallinfo2.restype = ctypes.c_size_t, _HeapInfo
    info = libc.mallinfo2()
    top = libc.sbrk(0) - info.keepcost
    sizes = [LARGEST_HOLE]
    while sizes[-1] > 2 * MOST_SMALL:
        sizes.append(sizes[-1] * 9 // 10)
    for size in (*sizes, *range(2 * MOST_SMALL, 0, -16)):
        while top - info.arena <= (block := allocate(size)) < top:
            pass
        free(block)


def _allocator(allocate, free):
    allocate.argtypes, allocate.restype = [ctypes.c_size_t], ctypes.c_size_t
    free.argtypes, free.restype = [ctypes.c_size_t], None
    return allocate, free


class _HeapInfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in HEAP_INFO]


def use_large_pages():
    """A fork copies an entry of a table for each page of memory, so fewer pages make it cheaper. Where the kernel cannot, it is as before."""
    advise = ctypes.CDLL(None).madvise
    with open("/proc/self/maps") as maps:
        regions = [line.split() for line in maps]
    for addresses, access, _, _, inode, *name in regions:
        if inode == "0" and access.startswith("rw") and name in ([], ["[heap]"]):
            start, end = (int(one, 16) for one in addresses.split("-"))
            start, end = -(-start // LARGE_PAGE) * LARGE_PAGE, end // LARGE_PAGE * LARGE_PAGE
            if start < end:
                for advice in (mmap.MADV_HUGEPAGE, COLLAPSE):
                    advise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), advice)

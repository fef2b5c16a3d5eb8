"""Which bytes a case reads, and their check sum. A plan is a list of reads; bench.h says what a plan file is."""

import random
import zlib
from collections import namedtuple

Read = namedtuple("Read", "path first length")
DATA = "/bench/data"
MIX_OBJECTS = 100
FOOTER = 16 << 10


def one(total):
    """The head of one object, in one read."""
    return [Read(DATA, 0, total)]


def many(count, size, stride):
    """`count` reads of `size` bytes from one object, `stride` bytes from one to the next."""
    return [Read(DATA, i * stride, size) for i in range(count)]


def mix_sizes(total):
    """Sizes of the objects of the mix: geometric steps over a factor of 64, in a shuffled order; `total` in all."""
    steps = [64 ** (i / (MIX_OBJECTS - 1)) for i in range(MIX_OBJECTS)]
    sizes = [max(2 * FOOTER, int(total * step / sum(steps))) for step in steps]
    random.Random(1).shuffle(sizes)
    return sizes


def mix(total):
    """Of each object first the end, as of a file whose index is there, and then all that lies before."""
    reads = []
    for i, size in enumerate(mix_sizes(total)):
        path = f"/bench/mix-{i:03}"
        reads += [Read(path, size - FOOTER, FOOTER), Read(path, 0, size - FOOTER)]
    return reads


def files(plans):
    """Path and size of every file that the plans read from."""
    sizes = {}
    for plan in plans:
        for read in plan:
            sizes[read.path] = max(sizes.get(read.path, 0), read.first + read.length)
    return sizes


def text(plan):
    return "".join(f"{read.path} {read.first} {read.length}\n" for read in plan)


def checksum(plan, root):
    """Of what a client must have in its destination, the files being below `root`."""
    value, opened = 1, None
    try:
        for read in plan:
            if opened is None or opened.name != str(root) + read.path:
                if opened:
                    opened.close()
                opened = open(str(root) + read.path, "rb")
            opened.seek(read.first)
            left = read.length
            while left:
                block = opened.read(min(left, 16 << 20))
                value = zlib.adler32(block, value)
                left -= len(block)
    finally:
        if opened:
            opened.close()
    return value

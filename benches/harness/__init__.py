"""The parts of benches/run.py."""


class Unavailable(Exception):
    """Something that this machine lacks; the text says what, and how to get it."""

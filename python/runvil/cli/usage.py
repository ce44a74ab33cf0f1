"""What a command says when it cannot be carried out as it was given."""


class UsageError(Exception):
    """Bad usage: the message says what is wrong and what to do; the exit code is 2."""

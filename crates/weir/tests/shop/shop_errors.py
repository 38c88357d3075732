"""Ends of a transaction that are no errors of the server."""


class RolledBack(Exception):
    """The client has changed its mind before COMMIT."""

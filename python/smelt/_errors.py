"""What can go wrong, as exceptions. Each is a smelt.Error and the closest built-in exception."""

from __future__ import annotations

from typing import Optional


class Error(Exception):
    """Any error of smelt. `exit_code` is what the smelt program would end with for it."""

    exit_code: int = 70


class InvalidArgument(Error, ValueError):
    """Arguments that do not fit the model's signature; a wrong option."""

    exit_code = 2


class NotFound(Error, FileNotFoundError):
    """There is no such file."""

    exit_code = 3


class PermissionDenied(Error, PermissionError):
    """The file may not be read."""

    exit_code = 3


class DataLoss(Error, ValueError):
    """A file that is cut off, corrupt, or of another kind."""

    exit_code = 3


class Unavailable(Error, OSError):
    """The file cannot be read just now."""

    exit_code = 3


class Unsupported(Error, NotImplementedError):
    """Something in the model, or a newer format of a file, is not supported."""

    exit_code = 4


class WrongMachine(Error, RuntimeError):
    """This machine lacks what the bundle was compiled for."""

    exit_code = 5


class ResourceExhausted(Error, MemoryError):
    """Memory, or another resource, is short."""

    exit_code = 6


class CannotWrite(Error, OSError):
    """A file cannot be written."""

    exit_code = 6


class Refused(Error, RuntimeError):
    """The call is refused, as PyTorch would refuse it, or the bundle has no plan for it."""

    exit_code = 7


class Internal(Error, RuntimeError):
    """A bug in smelt."""

    exit_code = 70


_BY_STATUS = {
    3: InvalidArgument,
    5: NotFound,
    7: PermissionDenied,
    8: ResourceExhausted,
    9: Refused,
    12: Unsupported,
    13: Internal,
    14: Unavailable,
    15: DataLoss,
}

_BY_EXIT_CODE = {
    2: InvalidArgument,
    3: DataLoss,
    4: Unsupported,
    5: WrongMachine,
    6: CannotWrite,
    7: Refused,
    70: Internal,
}


def of_status(status: int, message: str, loading: bool = False) -> Error:
    """The exception for a smelt_status."""
    if loading and status == 9:
        return WrongMachine(message)
    if loading and status == 3:
        return DataLoss(message)
    return _BY_STATUS.get(status, Internal)(message)


def of_exit_code(code: int, message: str) -> Error:
    """The exception for an exit code of the smelt program."""
    kind: Optional[type] = _BY_EXIT_CODE.get(code)
    if kind is DataLoss and "No such file" in message:
        kind = NotFound
    error: Error = (kind or Internal)(message)
    error.exit_code = code
    return error

"""Compiles PyTorch models that write into tensors, and runs them.

    bundle = smelt.compile("model.pt2")     # or what torch.export.export returned
    model = smelt.load(bundle)
    out = model(x, mask=mask)               # arrays of numpy, tensors of PyTorch, anything with DLPack

What the caller sees is what eager PyTorch shows: arguments that the model writes are written, results that are views of
arguments share memory with them, and the model's buffers (`model.state`) carry over from call to call.
"""

from ._compile import compile  # noqa: A004
from ._errors import (
    CannotWrite,
    DataLoss,
    Error,
    Internal,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    Refused,
    ResourceExhausted,
    Unavailable,
    Unsupported,
    WrongMachine,
)
from ._operators import load_op_library, register_op, unregister_op
from ._model import CallStats, Model, States, load, version
from ._signature import Argument, Dim, Result, Signature, State
from ._tree import Record

__all__ = [
    "Argument",
    "CallStats",
    "CannotWrite",
    "DataLoss",
    "Dim",
    "Error",
    "Internal",
    "InvalidArgument",
    "Model",
    "NotFound",
    "PermissionDenied",
    "Record",
    "Refused",
    "ResourceExhausted",
    "Result",
    "Signature",
    "State",
    "States",
    "Unavailable",
    "Unsupported",
    "WrongMachine",
    "compile",
    "load",
    "load_op_library",
    "register_op",
    "unregister_op",
    "version",
]

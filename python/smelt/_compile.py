"""smelt.compile: runs the compiler, a program of its own."""

from __future__ import annotations

import atexit
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from typing import Any, Iterable, List, Optional, Sequence, Union

from . import _errors, _operators


def _compiler() -> str:
    named = os.environ.get("SMELT_COMPILER")
    if named:
        return named
    packaged = pathlib.Path(__file__).resolve().parent / "bin" / "smelt"
    if packaged.exists():
        return str(packaged)
    found = shutil.which("smelt")
    if found:
        return found
    raise _errors.NotFound(
        f"the smelt compiler is neither at {packaged} nor on PATH; set SMELT_COMPILER to its path"
    )


def _scratch() -> pathlib.Path:
    folder = tempfile.mkdtemp(prefix="smelt-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return pathlib.Path(folder)


def compile(  # noqa: A001: the name says it
    model: Any,
    output: Optional[Union[str, "os.PathLike[str]"]] = None,
    *,
    target: Optional[Union[str, Sequence[str]]] = None,
    alias_variants: Optional[str] = None,
    verify: bool = False,
    cache_dir: Optional[Union[str, "os.PathLike[str]"]] = None,
    op_schemas: Optional[Sequence[Union[str, "os.PathLike[str]"]]] = None,
    options: Iterable[str] = (),
) -> pathlib.Path:
    """Compiles a model to a bundle and returns the bundle's path.

    model: the path of a .pt2, .ir or .smg file, or what torch.export.export returned; or a dictionary of these, whose
      keys name the methods of one bundle: {"prefill": "p.pt2", "decode": "d.pt2"}.
    output: the bundle's path, which several methods need. By default the model's path with .smb, or, of an exported program, a file that is removed
      when the process ends.
    target: the machines to compile for ("x86-64-v3"), one or several. By default those that `smelt compile` chooses.
    alias_variants: "auto", "none" or "all": which ways of sharing memory among arguments are compiled ahead.
    verify: check the model after each pass of the compiler. Slow.
    cache_dir: a folder that keeps compiled kernels for the next time.
    op_schemas: the schemas of operators of your own that the model calls: paths of files with one per line, or schemas
      ("mylib::f(Tensor x) -> Tensor"). By default, of an exported program, those that PyTorch knows.
    options: other options of `smelt compile`.

    Raises smelt.Unsupported where the model uses operators that smelt lacks: the message lists all of them.
    """
    temporary: List[pathlib.Path] = []
    known_schemas: List[Any] = []

    def file_of(one: Any, name: str) -> pathlib.Path:
        if isinstance(one, (str, os.PathLike)):
            return pathlib.Path(one)
        torch = sys.modules.get("torch")  # an exported program has loaded it
        if torch is None or not isinstance(one, torch.export.ExportedProgram):
            raise TypeError(f"a path or what torch.export.export returns expected, not {type(one).__name__}")
        temporary.append(_scratch() / f"{name}.pt2")
        torch.export.save(one, temporary[-1])
        known_schemas.extend(s for s in _operators.schemas_of(one) if s not in known_schemas)
        return temporary[-1]

    if isinstance(model, Mapping):
        if output is None:
            raise _errors.InvalidArgument("a bundle of several methods needs the path of its output")
        for name in model:
            if not str(name).isidentifier():
                raise _errors.InvalidArgument(f"{name!r} is no name of a method: an identifier expected")
        out = pathlib.Path(output)
        inputs = [f"--method={name}={file_of(one, name)}" for name, one in model.items()]
    else:
        path = file_of(model, "model")
        out = pathlib.Path(output) if output is not None else path.with_suffix(".smb")
        inputs = [str(path)]
    if op_schemas is None and known_schemas:
        op_schemas = known_schemas
    command = [_compiler(), "compile", *inputs, "-o", str(out), "--quiet"]
    if target is not None:
        command.append("--target=" + (target if isinstance(target, str) else ",".join(target)))
    if alias_variants is not None:
        command.append(f"--alias-variants={alias_variants}")
    if verify:
        command.append("--verify")
    if cache_dir is not None:
        command.append(f"--cache-dir={os.fspath(cache_dir)}")
    schema_file: Optional[pathlib.Path] = None
    if op_schemas:
        schemas = [os.fspath(s) for s in op_schemas]
        texts = [s for s in schemas if "(" in s and "->" in s]
        files = [s for s in schemas if s not in texts]
        if texts:
            schema_file = _scratch() / "operators.txt"
            schema_file.write_text("\n".join(texts) + "\n")
            files.append(str(schema_file))
        command.append("--op-schema=" + ",".join(files))
    command.extend(options)
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    except FileNotFoundError as e:
        raise _errors.NotFound(f"the smelt compiler cannot be run: {e}") from e
    except OSError as e:
        raise _errors.Unavailable(f"the smelt compiler cannot be run: {e}") from e
    finally:
        for path in temporary:
            path.unlink(missing_ok=True)
    if done.returncode != 0:
        message = done.stderr.decode("utf-8", "replace").strip()
        if message.startswith("usage: "):  # how the program is called is of no use here; the last line says what is wrong
            message = message.splitlines()[-1]
        raise _errors.of_exit_code(done.returncode, message or f"smelt compile ended with {done.returncode}")
    return out

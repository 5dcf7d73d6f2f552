"""Bundles for the tests: models compiled once per process.

Needs SMELT_LIBRARY and SMELT_COMPILER, or an installed smelt.
"""

import atexit
import functools
import os
import pathlib
import shutil
import tempfile

import smelt

HERE = pathlib.Path(__file__).resolve().parent
TESTDATA = HERE.parent.parent / "testdata"
_scratch = tempfile.mkdtemp(prefix="smelt-tests-")
atexit.register(shutil.rmtree, _scratch, ignore_errors=True)


@functools.lru_cache(maxsize=None)
def bundle(name):
    """The bundle of a model of this folder or of testdata/."""
    model = HERE / f"{name}.pt2"
    if not model.exists():
        model = TESTDATA / f"{name}.pt2"
    return smelt.compile(model, os.path.join(_scratch, f"{name}.smb"), options=["--cache-mode=off"])


def text_bundle(name, text, **options):
    """The bundle of a model in smelt's text form."""
    path = pathlib.Path(_scratch) / f"{name}.ir"
    path.write_text(text)
    return smelt.compile(path, options=["--cache-mode=off"], **options)


def scratch(name):
    return os.path.join(_scratch, name)

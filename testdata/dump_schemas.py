"""Writes aten_schemas.txt, the schema of every aten and prim operator that PyTorch registers:

    python3 testdata/dump_schemas.py

Standard library and PyTorch only. The result depends on nothing but PyTorch's version.
"""
import os

import torch

HEADER = """\
# The schema of every aten:: and prim:: operator overload that PyTorch {version} registers, one a line, sorted
# by name. Those of one name stand as in PyTorch's registry: of those that take a call's types, the parser picks the first.
# Made by testdata/dump_schemas.py; do not edit. aten: {aten} overloads, of which {writing} write to an argument; prim: {prim}.
# The form is PyTorch's own. An argument list or result that is "..." takes any number of any type.
"""


def main():
    schemas = [s for s in torch._C._jit_get_all_schemas() if s.name.split("::")[0] in ("aten", "prim")]
    aten = [s for s in schemas if s.name.startswith("aten::")]
    writing = sum(any(a.alias_info is not None and a.alias_info.is_write for a in s.arguments) for s in aten)
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "aten_schemas.txt"), "w") as f:
        f.write(
            HEADER.format(version=torch.__version__.split("+")[0],
                          aten=len(aten),
                          writing=writing,
                          prim=len(schemas) - len(aten)))
        for name in sorted({s.name for s in schemas}):
            for line in dict.fromkeys(str(s) for s in torch._C._jit_get_schemas_for_operator(name)):
                f.write(line + "\n")


if __name__ == "__main__":
    main()

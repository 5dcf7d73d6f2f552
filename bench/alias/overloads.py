"""Which overload a call printed without one means: smelt-opt's choice beside PyTorch's.

    python3 bench/alias/overloads.py bazel-bin/tools/smelt-opt [-v]

Every operator of aten and prim with several overloads is called with the types of each of its schemas, optional arguments
given and not, numbers as int, float, complex, Scalar and bool, type variables as tensors and ints. PyTorch's parser reads
each call and says the schema of its node; smelt-opt reads it and prints the overload. Prints the calls whose choices
differ (exit code 1). A call that PyTorch takes for none of its schemas is counted and left out: smelt-opt takes some.
"""

import itertools
import os
import re
import subprocess
import sys
import tempfile

import torch

LIMIT = 60  # calls of a schema
CONCRETE = {"Scalar": ["int", "float", "complex", "Scalar"], "number": ["int", "float", "complex", "Scalar"],
            "Tensor": ["Tensor", "Float(2, 3, strides=[3, 1])"], "Any": ["Tensor", "int"], "AnyListType": ["int[]", "Tensor[]"]}


def choices(t):
    """Spellings of types that an argument of type t takes."""
    text = re.sub(r"\b(number|Scalar)\b", "Scalar", str(t))
    kind = t.kind()
    if kind == "OptionalType":
        inner = choices(t.getElementType())
        return inner[:1] + ["NoneType"] + inner[1:2] + [inner[0] + "?"]
    if kind == "VarType":
        return ["Tensor", "int", "str"]
    if kind == "ListType":
        return [c + "[]" for c in choices(t.getElementType())[:2] if not c.startswith("Float(")]
    if kind == "DictType":
        key, value = choices(t.getKeyType())[:1], choices(t.getValueType())[:2]
        return [f"Dict({k}, {v})" for k in key for v in value]
    if kind == "TupleType":
        return ["(" + ", ".join(choices(e)[0] for e in t.elements()) + ")"]
    if kind == "FutureType":
        return ["Future(" + choices(t.getElementType())[0] + ")"]
    return CONCRETE.get(text, [text])


def calls():
    """(operator, types): each once."""
    by_name = {}
    for s in torch._C._jit_get_all_schemas():
        if s.name.split("::")[0] in ("aten", "prim"):
            by_name.setdefault(s.name, []).append(s)
    for name in sorted(by_name):
        seen = set()
        for s in by_name[name] if len(by_name[name]) > 1 else []:
            options = [choices(a.type) for a in s.arguments]
            first = [o[0] for o in options]
            made = [first]
            made += [first[:k] + [c] + first[k + 1:] for k, o in enumerate(options) for c in o[1:]]
            made += [[o[min(k, len(o) - 1)] for o in options] for k in (1, 2, 3)]
            made += [list(c) for c in itertools.islice(itertools.product(*options), LIMIT)]
            for types in made:
                key = tuple(types)
                if key not in seen:
                    seen.add(key)
                    yield name, key


def text_of(call):
    name, types = call
    inputs = ", ".join(f"%{k} : {t}" for k, t in enumerate(types))
    return f"graph({inputs}):\n  {name}({', '.join(f'%{k}' for k in range(len(types)))})\n  return ()\n"


def torch_choice(call):
    """None: no schema takes the call; ValueError: the text is not read."""
    try:
        node = next(iter(torch._C.parse_ir(text_of(call)).nodes()))
    except RuntimeError as e:
        raise ValueError(str(e).strip().splitlines()[0]) from e
    schema = node.schema()
    return schema.split("(")[0] if schema and schema != "(no schema)" else None


def smelt_choices(smelt_opt, asked):
    """Of all calls in one text; where it does not parse, of halves of it."""
    inputs, lines, k = [], [], 0
    for name, types in asked:
        inputs += [f"%v{k + i} : {t}" for i, t in enumerate(types)]
        lines.append(f"  {name}({', '.join(f'%v{k + i}' for i in range(len(types)))})")
        k += len(types)
    with tempfile.NamedTemporaryFile("w", suffix=".ir") as f:
        f.write(f"graph({', '.join(inputs)}):\n" + "\n".join(lines) + "\n  return ()\n")
        f.flush()
        r = subprocess.run([smelt_opt, f.name, "-o", "-"], capture_output=True, text=True)
    if r.returncode == 0:
        found = re.findall(r"^ +(?:= )?([\w:.]+)\(", r.stdout, re.M)
        assert len(found) == len(asked), (len(found), len(asked))
        return found
    if len(asked) == 1:
        return ["refused: " + r.stderr.strip().splitlines()[-1]]
    half = len(asked) // 2
    return smelt_choices(smelt_opt, asked[:half]) + smelt_choices(smelt_opt, asked[half:])


def main():
    asked = list(calls())
    taken, unknown, unread = [], 0, 0
    for call in asked:
        try:
            choice = torch_choice(call)
        except ValueError as e:
            unread += 1
            if "-v" in sys.argv:
                print(f"not read by PyTorch: {e}\n{text_of(call)}")
            continue
        if choice is None:
            unknown += 1
        else:
            taken.append((call, choice))
    ours = smelt_choices(os.path.abspath(sys.argv[1]), [c for c, _ in taken])
    wrong = [(c, t, o) for (c, t), o in zip(taken, ours) if t != o]
    for (name, types), t, o in wrong:
        print(f"{name}({', '.join(types)}): PyTorch takes {t}, smelt-opt {o}")
    print(f"{len(asked)} calls of {len({n for n, _ in asked})} operators: PyTorch takes {len(taken)}, "
          f"has no schema for {unknown}, does not read {unread}; {len(wrong)} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

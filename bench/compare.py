"""Asks one peer for one scenario and prints a JSON object: compare.py PEER SCENARIO. Without arguments: joins the objects on
standard input to the table. `compare` runs both.

The right answer is what the module itself does in eager PyTorch: its results, and what its arguments hold afterwards.
"""

import copy
import json
import os
import sys

TITLES = {
    "eager": "PyTorch",
    "smelt": "smelt",
    "aotinductor": "AOTInductor",
    "onnxruntime": "ONNX Runtime",
    "executorch": "ExecuTorch",
    "iree": "IREE",
}


def reason(error):
    """The first line that says what is wrong."""
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()] or [type(error).__name__]
    return next((line for line in lines if "error:" in line), lines[0])[:300]


def difference(what, got, want):
    """A sentence on the first element that differs, or None."""
    import torch

    if not isinstance(got, torch.Tensor) or got.shape != want.shape:
        return f"{what} is {tuple(got.shape) if isinstance(got, torch.Tensor) else got}, not {tuple(want.shape)}"
    wrong = ~torch.isclose(got.double(), want.double(), rtol=1e-4, atol=1e-5)
    if not wrong.any():
        return None
    at = tuple(int(i) for i in wrong.nonzero()[0])
    return f"{what}: {got[at].item():.5g} for {want[at].item():.5g}"


def ask(peer, name):
    import torch

    import compare_models
    import compare_peers

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    scenario = compare_models.make(name)
    truth = copy.deepcopy(scenario["module"])
    # Memory that arguments share is shared in both copies.
    expected_calls, calls = copy.deepcopy(scenario["calls"]), scenario["calls"]
    program = torch.export.export(scenario["module"], tuple(scenario["example"]), dynamic_shapes=scenario["dynamic_shapes"])
    try:
        call = compare_peers.PEERS[peer](program)
    except Exception as error:
        return {"verdict": "refused", "when": "when compiling", "why": reason(error)}
    for number, (args, expected_args) in enumerate(zip(calls, expected_calls), 1):
        where = f"call {number}" if len(calls) > 1 else "the call"
        must_refuse = scenario["refused"] and number == len(calls)
        try:
            got = call(args)
        except Exception as error:
            if must_refuse:
                return {"verdict": "right", "why": reason(error)}
            return {"verdict": "refused", "when": f"at {where}", "why": reason(error)}
        if must_refuse:
            return {"verdict": "wrong", "why": f"{where} is answered"}
        want = compare_peers.flat(truth(*expected_args))
        if len(got) != len(want):
            return {"verdict": "wrong", "why": f"{where} has {len(got)} results, not {len(want)}"}
        pairs = [(f"result {i}", g, w) for i, (g, w) in enumerate(zip(got, want))]
        pairs += [(f"argument {i} afterwards", g, w) for i, (g, w) in enumerate(zip(args, expected_args))]
        for what, g, w in pairs:
            wrong = difference(f"{where}, {what}", g, w)
            if wrong:
                return {"verdict": "wrong", "why": wrong}
    return {"verdict": "right", "why": ""}


def table(rows):
    """Rows of {"peer", "scenario", "title", "version", "verdict", "why"}, as Markdown."""
    peers = list(dict.fromkeys(r["peer"] for r in rows))
    cells, titles, versions, notes = {}, {}, {}, []
    for r in rows:
        titles[r["scenario"]] = r["title"]
        versions[r["peer"]] = r.get("version", "")
        cell = r["verdict"]
        if cell == "wrong":
            cell = f"**wrong**: {r['why']}"
        elif cell == "refused":
            cell = f"refused {r['when']}"
        cells[r["scenario"], r["peer"]] = cell
        if r["verdict"] != "right":
            notes.append(f"{TITLES[r['peer']]}, {r['title']}: {r['why']}")
    print("| |", " | ".join(f"{TITLES[p]} {versions[p]}".strip() for p in peers), "|")
    print("|---|" + "---|" * len(peers))
    for name, title in titles.items():
        print(f"| {title} |", " | ".join(cells[name, p] for p in peers), "|")
    print("\n" + "\n".join(notes), file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(ask(*sys.argv[1:])), flush=True)
        os._exit(0)  # some peers crash when Python ends
    else:
        table([json.loads(line) for line in sys.stdin])

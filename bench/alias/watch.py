"""Holds smelt-opt's answers about TorchScript graphs to what happens when they run.

    python3 bench/alias/watch.py bazel-bin/tools/smelt-opt [--random=COUNT --seed=SEED] [--free=RUNS] [--save=DIR] [-v]

Scripts little functions, those of watched_functions.py or random ones, runs their graphs node by node in PyTorch, watches
which bytes each value occupies and each node changes, and asks `smelt-opt --alias-queries` and TorchScript's own
`graph.alias_db()` about all of it. Prints what happened but was not predicted (exit code 1), where smelt is less precise than
TorchScript, and the shares of "may" that came true.
"""

import itertools
import os
import random
import re
import subprocess
import sys
import tempfile

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import random_functions  # noqa: E402
import watched_functions  # noqa: E402
from execute import Program, Run, Stop  # noqa: E402

SMELT_OPT = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else "bazel-bin/tools/smelt-opt"
MUTABLE = re.compile(r"Tensor|\[\]|Dict|Future|__torch__|Any|Float\(|Long\(|Bool\(|Double\(|Complex")


# Where TorchScript's answer may be right, but not for a reason.
LOOPS = "where there are loops (it has no back edges, and none past a loop that runs zero times)"
OBJECTS = "about objects (it does not look at their attributes)"
RAISES = "past what may raise an exception (it moves writes that the caller then sees)"


def kinds_inside(node):
    return {node.kind}.union(*(kinds_inside(n) for b in node.blocks for n in b.nodes))


def path(edges, a, b, nodes, skip_direct):
    """Whether a chain of dependences leads from a to b, by way of others if skip_direct."""
    low, high = min(a, b), max(a, b)
    after = {}
    for x, y in edges:
        if low <= nodes[x].place <= high and low <= nodes[y].place <= high:
            after.setdefault(nodes[x].place, set()).add(nodes[y].place)
    todo, done = [low], {low}
    while todo:
        x = todo.pop()
        for y in after.get(x, ()):
            if y == high and x == low and skip_direct:
                continue
            if y == high:
                return True
            if y not in done:
                done.add(y)
                todo.append(y)
    return False


def their_move(graph, n, m, before):
    """Whether TorchScript moves the n-th node before (after) the m-th."""
    g = graph.copy()
    nodes = []

    def walk(block):
        for node in block.nodes():
            nodes.append(node)
            for b in node.blocks():
                walk(b)
    walk(g)
    db = g.alias_db()
    return (db.move_before_topologically_valid if before else db.move_after_topologically_valid)(nodes[n], nodes[m])


def static_uses(program):
    """For each block: node -> later nodes of the block that use its results, they or what is inside them."""
    edges = set()

    def uses(node):
        out = set(node.ins)
        for b in node.blocks:
            out |= set(b.outs)
            for x in b.nodes:
                out |= uses(x)
        return out

    def walk(block):
        made = {}
        for node in block.nodes:
            for v in uses(node):
                if v in made:
                    edges.add((made[v], node.k))
            for o in node.outs:
                made[o] = node.k
            for b in node.blocks:
                walk(b)
    walk(program.top)
    return edges


def check(name, graph, inputs, totals, functions=None, rng=None):
    seen = Program(graph)
    ran, errors = 0, {}
    for make in inputs:
        try:
            with random_functions.limit(3):
                Run(seen, functions).start(make())
            ran += 1
        except (Stop, RuntimeError, IndexError, KeyError, TypeError, AttributeError) as e:
            if not isinstance(e, Stop):
                what = f"{type(e).__name__}: {str(e)[:200]}"
                errors[what] = errors.get(what, 0) + 1
    if "-v" in sys.argv or ran == 0:
        for e, times in errors.items():
            print(f"{name}: {times} of {len(inputs)} runs ended: {e}")
    # Effects on any way through branches and loops, whatever the conditions: a "no" to these is luck.
    free = Program(graph)
    for k in range(FREE):
        try:
            with random_functions.limit(1):
                Run(free, functions, keep=False, free=random.Random(k)).start(inputs[k % len(inputs)]())
        except (Stop, RuntimeError, IndexError, KeyError, TypeError, AttributeError, NotImplementedError, ValueError):
            pass
    mutable = [v.debugName() for v in seen.values if MUTABLE.search(str(v.type()))]
    queries = []
    for a, b in itertools.combinations(mutable, 2):
        queries += [("may_alias", a, b), ("may_contain_alias", a, b), ("must_alias", a, b), ("safe_to_change_aliasing", a, b)]
    queries += [("has_writers", a, None) for a in mutable]
    for node in seen.nodes:
        if node.kind != "prim::Constant":
            queries += [("writes_to_alias_of", node.k, a) for a in mutable]
    edges = seen.depends | static_uses(seen)
    for block in {id(n.parent): n.parent for n in seen.nodes}.values():
        ks = [n.k for n in block.nodes if n.kind != "prim::Constant"]
        pairs = list(itertools.permutations(ks, 2))
        if len(pairs) > 600:
            pairs = (rng or random.Random(1)).sample(pairs, 600)
        for n, m in pairs:
            queries += [("can_move_before", n, m), ("can_move_after", n, m)]
    with tempfile.TemporaryDirectory() as d:
        open(f"{d}/g.ir", "w").write(str(graph))
        text = lambda q, x: f"@{x}" if isinstance(x, int) else f"%{x}"  # noqa: E731
        lines = [f"{q} {text(q, a)}" + (f" {text(q, b)}" if b is not None else "") for q, a, b in queries]
        open(f"{d}/q.txt", "w").write("\n".join(lines) + "\n")
        if SAVE:
            open(f"{SAVE}/{name.replace(' ', '_')}.ir", "w").write(str(graph))
            open(f"{SAVE}/{name.replace(' ', '_')}.txt", "w").write("\n".join(lines) + "\n")
        try:
            r = subprocess.run([SMELT_OPT, f"{d}/g.ir", f"--alias-queries={d}/q.txt"], capture_output=True, text=True,
                               timeout=60)
        except subprocess.TimeoutExpired:
            r = subprocess.CompletedProcess([], -1, "", "timed out")
    if r.returncode != 0:
        print(f"{name}: smelt-opt exits with {r.returncode}: {r.stderr.strip()[:300]}\n{graph}")
        return 1
    totals["queries"][0] += len(queries)
    answers = dict(zip(queries, r.stdout.splitlines()))
    if len(answers) != len(queries):
        print(f"{name}: {len(queries)} queries, {len(answers)} answers")
    db = graph.alias_db()
    by_name = {v.debugName(): v for v in seen.values}
    bad = []
    loops = "prim::Loop" in {node.kind for node in seen.nodes}

    def excuse(*names):
        """Why TorchScript's "no" is luck, if it is."""
        if any("__torch__" in str(by_name[v].type()) for v in names):
            return OBJECTS
        return LOOPS if loops else ""

    def raises(x, y):
        low, high = sorted((x.place, y.place))
        return any("prim::RaiseException" in kinds_inside(n) for n in x.parent.nodes[low:high + 1])

    both = lambda s, a, b: (a, b) in s or (b, a) in s  # noqa: E731
    asked = 0
    for (q, a, b), said in answers.items():
        if said.startswith("error"):
            bad.append(f"{q} {a} {b}: {said}")
            continue
        yes = said == "true"
        if q == "may_alias" and both(seen.alias, a, b) and not yes:
            bad.append(f"{a} and {b} shared memory; may_alias says false")
        if q == "may_alias" and yes and both(seen.together, a, b):
            totals["alias"][0] += 1
            totals["alias"][1] += both(seen.alias, a, b)
            if not both(seen.alias, a, b):
                totals["imprecise"].append(f"{name}: may_alias {a} {b}")
        if q == "may_contain_alias":
            if both(seen.contain, a, b) and not yes:
                bad.append(f"{a} and {b} contained shared memory; may_contain_alias says false")
            if both(seen.together, a, b):
                theirs = db.may_contain_alias(by_name[a], by_name[b])
                happened = both(seen.contain, a, b)
                for key, answer in (("contain", yes), ("contain (TorchScript)", theirs)):
                    totals[key][0] += answer
                    totals[key][1] += answer and happened
                if yes and not theirs and not happened and not both(free.contain, a, b):
                    totals["worse"].append((excuse(a, b), f"{name}: may_contain_alias {a} {b}"))
                if happened and not theirs:
                    totals["they miss"][0] += 1
        if q == "must_alias" and both(seen.together, a, b) and not both(seen.not_same, a, b):
            totals["must"][0] += yes
            totals["must"][1] += 1
            if not yes and ran == len(inputs):
                kinds = f"{by_name[a].node().kind()}, {by_name[b].node().kind()}"
                totals["imprecise"].append(f"{name}: must_alias {a} {b} ({kinds})")
        if q == "must_alias" and yes and both(seen.not_same, a, b):
            bad.append(f"{a} and {b} were not the same; must_alias says true")
        if q == "safe_to_change_aliasing" and yes:
            for v in (a, b):
                if v in seen.ever_written or v in seen.written:
                    bad.append(f"{v} was written; safe_to_change_aliasing {a} {b} says true")
            if a in seen.caller and b in seen.caller:
                bad.append(f"the caller reaches {a} and {b}; safe_to_change_aliasing says true")
        if q == "has_writers":
            if a in seen.written and not yes:
                bad.append(f"{a} was written; has_writers says false")
            theirs = db.has_writers(by_name[a])
            if a in seen.scoped:
                for key, answer in (("writers", yes), ("writers (TorchScript)", theirs)):
                    totals[key][0] += answer
                    totals[key][1] += answer and a in seen.written
                if yes and not theirs and a not in seen.written and a not in free.written:
                    totals["worse"].append((excuse(a), f"{name}: has_writers {a}"))
                if yes and a not in seen.written:
                    totals["imprecise"].append(f"{name}: has_writers {a}")
        if q == "writes_to_alias_of":
            if (a, b) in seen.writes and not yes:
                bad.append(f"node {a} ({seen.nodes[a].kind}) wrote {b}; writes_to_alias_of says false")
        if q.startswith("can_move"):
            before = q == "can_move_before"
            x, y = seen.nodes[a], seen.nodes[b]
            forward = x.place < y.place
            blocked = path([e for e in edges if seen.nodes[e[0]].parent is x.parent], x.place, y.place, seen.nodes,
                           before == forward)
            totals["moves"][0] += yes
            totals["moves"][1] += not blocked
            if yes and blocked:
                bad.append(f"{q} @{a} ({x.kind} {x.outs}) @{b} ({y.kind} {y.outs}): what happened is in the way")
            if not yes and not blocked and ran == len(inputs) and asked < 25:
                asked += 1
                if their_move(graph, a, b, before):
                    why = RAISES if raises(x, y) else excuse()
                    totals["worse"].append((why, f"{name}: {q} @{a} ({x.kind} {x.outs}) @{b} ({y.kind} {y.outs})"))
    for line in bad[:12]:
        print(f"{name}: {line}")
    if bad:
        print(graph)
    if ran == 0:
        print(f"{name}: never ran")
    totals["ran"][0] += ran > 0
    return bool(bad)


SAVE = next((a.split("=")[1] for a in sys.argv if a.startswith("--save=")), None)


def option(name, default):
    for a in sys.argv:
        if a.startswith(f"--{name}="):
            return int(a.split("=")[1])
    return default


FREE = option("free", 0)


def main():
    torch.manual_seed(0)
    totals = {k: [0, 0] for k in ("alias", "contain", "contain (TorchScript)", "writers", "writers (TorchScript)",
                                  "they miss", "ran", "queries", "moves", "must")}
    totals["worse"], totals["imprecise"] = [], []
    failed = 0
    count = option("random", 0)
    graphs = random_functions.all_graphs(count, option("seed", 0)) if count else \
        ((n, g, i, None) for n, g, i in watched_functions.all_graphs())
    for name, graph, inputs, functions in graphs:
        try:
            failed += check(name, graph, inputs, totals, functions)
        except NotImplementedError as e:
            print(f"{name}: not run here: {e}")
        sys.stdout.flush()
    for (why, line) in totals["worse"]:
        if not why or "-v" in sys.argv:
            print("less precise than TorchScript:", line, why)
    for reason in (LOOPS, OBJECTS, RAISES):
        print(f"less precise than TorchScript, {reason}: {sum(why == reason for why, _ in totals['worse'])}")
    if "-v" in sys.argv:
        for line in totals["imprecise"]:
            print("said, never seen:", line)
    for key in ("alias", "contain", "contain (TorchScript)", "writers", "writers (TorchScript)"):
        said, came = totals[key]
        print(f"{key}: {said} said, {came} came true ({came / max(said, 1):.3f})")
    print(f"must: {totals['must'][0]} said of {totals['must'][1]} that were always the same")
    print(f"moves: {totals['moves'][0]} allowed of {totals['moves'][1]} that nothing seen was in the way of")
    print(f"{totals['ran'][0]} graphs ran, {totals['queries'][0]} queries; {failed} with wrong answers; "
          f"TorchScript missed {totals['they miss'][0]} pairs")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

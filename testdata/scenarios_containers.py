"""Scenarios for make_scenarios.py: lists, dictionaries, tuples and optional tensors of TorchScript that loops and branches change."""

from typing import Dict, List, Optional

import torch

from scenario_kit import one, randn, scenario, two


def cplx(*sizes):
    return torch.complex(randn(*sizes), randn(*sizes))


@scenario(lambda: (randn(3, 4), 3), lambda: (randn(3, 4), 0), script=True)
def script_queue_of_views_rotated_in_a_loop(x: torch.Tensor, n: int):
    l = [x[0], x[1], x[2]]
    for i in range(n):
        v = l.pop(0)
        v.add_(float(i + 1))
        l.append(v)
    l[0].mul_(2)
    return l[1], x


@scenario(lambda: (randn(3, 4), 2), script=True)
def script_dictionary_entries_exchanged_in_a_loop(x: torch.Tensor, n: int):
    d = {"a": x[0], "b": x[1]}
    for i in range(n):
        d["a"].add_(d["b"])
        t = d["a"]
        d["a"] = d["b"]
        d["b"] = t
    return d["a"], d["b"], x


@scenario(lambda: (randn(3, 4), True), lambda: (randn(3, 4), False), script=True)
def script_dictionary_set_in_a_branch(x: torch.Tensor, c: bool):
    d = {"a": x[0]}
    if c:
        d["a"] = x[1]
    else:
        d["b"] = x[2]
    d["a"].zero_()
    return d["a"], len(d), x


@scenario(one(4, 4), script=True)
def script_dictionary_items_written(x: torch.Tensor):
    d = {"a": x[0], "bb": x[1], "ccc": x[2].clone()}
    for k, v in d.items():
        v.add_(len(k))
    for v in d.values():
        v.mul_(2)
    if "bb" in d:
        d["bb"].zero_()
    return d["ccc"], x


@scenario(lambda: (randn(4, 4), 2), script=True)
def script_dictionary_filled_in_a_loop(x: torch.Tensor, n: int):
    d: Dict[int, torch.Tensor] = {}
    for i in range(n):
        d[i] = x[i]
    d[7] = x.clone()
    for k in d.keys():
        d[k].add_(float(k))
    y = d.pop(1)
    y.zero_()
    return y, d[7], len(d), x


@scenario(one(4, 4), script=True)
def script_dictionary_of_lists(x: torch.Tensor):
    d = {"p": [x[0], x[1]], "q": [x[2]]}
    for v in d["p"]:
        v.add_(1)
    d["q"].append(x[3])
    for v in d["q"]:
        v.mul_(2)
    return d["q"][1], x


@scenario(lambda: (randn(3, 4), True), lambda: (randn(3, 4), False), script=True)
def script_list_handed_out_by_a_branch(x: torch.Tensor, c: bool):
    if c:
        l = [x[0], x[1]]
    else:
        l = [x[2], x[0].clone()]
    l[0].add_(l[1])
    l[1].zero_()
    return l[0], x


@scenario(one(4, 4), script=True)
def script_list_of_lists(x: torch.Tensor):
    l = [[x[0], x[1]], [x[2], x[3]]]
    l[0][1].add_(l[1][0])
    for r in l:
        for v in r:
            v.mul_(2)
    return l[1][1], x


@scenario(one(3, 4), script=True)
def script_lists_of_lists_built_by_loops(x: torch.Tensor):
    rows: List[List[torch.Tensor]] = []
    for i in range(3):
        r: List[torch.Tensor] = []
        for j in range(2):
            r.append(x[i, j:j + 2])
        rows.append(r)
    rows[0][1].mul_(2)
    rows[2][0].add_(rows[0][1])
    t = rows[1]
    t[0] = rows[0][0]
    rows[1][0].neg_()
    return rows[1][0], torch.stack(rows[2]), x


@scenario(one(4, 4), script=True)
def script_list_of_tuples_walked(x: torch.Tensor):
    l = [(x[0], x[1]), (x[2], x[3])]
    for a, b in l:
        a.add_(b)
    l.append((x[1], x[1].clone()))
    l[-1][1].zero_()
    l[2][0].neg_()
    return l[2][1], x


@scenario(lambda: (randn(4), 3), lambda: (randn(4), 1), lambda: (randn(4), 0), script=True)
def script_optional_state_carried_by_a_loop(x: torch.Tensor, n: int):
    h: Optional[torch.Tensor] = None
    for i in range(n):
        if h is None:
            h = x[1:]
        else:
            h = h[1:] if h.size(0) > 1 else h
        h.add_(1)
    if h is None:
        return x, x
    return h, x


@scenario(one(4, 3), lambda: (-torch.ones(4, 3),), script=True)
def script_view_returned_out_of_a_loop(x: torch.Tensor):
    for i in range(4):
        x[i].mul_(2)
        if bool(x[i].sum() > 0):
            return x[i], i
    return x[0], -1


@scenario(lambda: (randn(5, 5), 2), script=True)
def script_corners_whose_bounds_a_loop_counts(x: torch.Tensor, n: int):
    for i in range(n):
        v = x[i:i + 2, i:i + 3]
        v.t()[0].copy_(v.sum(0)[:2])
        x[-1 - i] = x[:, i]
    return x


@scenario(lambda: (randn(4, 3), 2), script=True)
def script_parts_of_a_length_the_call_gives(x: torch.Tensor, n: int):
    parts = x.split(n)
    for p in parts:
        p.sub_(p.mean(0, keepdim=True))
    a = parts[0]
    a[0].zero_()
    return a, x


@scenario(lambda: (randn(6), 2), lambda: (randn(6), 3), script=True)
def script_view_of_sizes_the_call_gives(x: torch.Tensor, n: int):
    v = x.view(n, -1)
    v[0].add_(1)
    w = v.t()
    w[0] = v[:, -1]
    return w, v.sum(1), x


@scenario(lambda: (cplx(3), cplx(3)), script=True)
def script_conjugates_written(a: torch.Tensor, b: torch.Tensor):
    a.mul_(b.conj())
    b.conj().mul_(a)
    torch.view_as_real(a)[:, 0].neg_()
    return a, b


@scenario(two(3, 3),
          lambda: (lambda b: (b, b.t()))(randn(3, 3)),
          lambda: (lambda b: (b[:3], b[1:]))(randn(4, 3)),
          script=True)
def script_list_of_arguments_reversed_and_written(x: torch.Tensor, y: torch.Tensor):
    l = [x, y]
    l[0].add_(1)
    l.reverse()
    l[0].mul_(l[1])
    l.extend([x[0], y[1]])
    l[2].copy_(l[3])
    return l[0], x, y


@scenario(lambda: (randn(3), 1), lambda: (randn(3), 3), script=True)
def script_loop_copies_back_the_argument_that_it_carries(x: torch.Tensor, n: int):
    c = x
    for i in range(n):
        x.add_(x)
        x.copy_(c)
        c = x
    return n


@scenario(lambda: (randn(3, 4), 1), lambda: (randn(3, 4), 3), script=True)
def script_row_with_the_largest_sum_so_far_zeroed(x: torch.Tensor, n: int):
    best: Optional[torch.Tensor] = None
    for i in range(n):
        r = x[i]
        if best is None:
            best = r
        elif bool((r.sum() > best.sum()).item()):
            best = r
    assert best is not None
    best.zero_()
    return best, x


@scenario(lambda: (randn(3, 4), True), lambda: (randn(3, 4), False), script=True)
def script_dictionary_entry_deleted(x: torch.Tensor, c: bool):
    d = {"a": x[0], "b": x[1]}
    v = d["a"]
    if c:
        del d["a"]
    v.add_(1)
    for k, w in d.items():
        w.mul_(2)
    return v, len(d), x


@scenario(one(4, 4), script=True)
def script_dictionary_copied_holds_the_same_tensors(x: torch.Tensor):
    d = {"a": x[0], "b": x[1]}
    e = d.copy()
    e["a"].add_(1)
    e["b"] = x[2]
    e["c"] = x[3]
    e["b"].zero_()
    d["b"].mul_(2)
    del e["a"]
    return d["a"], len(d), len(e), x


@scenario(lambda: (randn(4, 4), 1), lambda: (randn(4, 4), 3), script=True)
def script_list_elements_deleted_in_a_loop(x: torch.Tensor, n: int):
    l = [x[0], x[1], x[2], x[3]]
    for i in range(n):
        v = l[0]
        del l[0]
        v.add_(l[-1])
    l[0].neg_()
    return l[0], len(l), x


@scenario(lambda: (randn(4, 4), 3, 1), lambda: (randn(4, 4), 0, 2), script=True)
def script_rows_written_in_sorted_order(x: torch.Tensor, a: int, b: int):
    l = [a, b, 2]
    l.sort()
    for i in l:
        x[i].add_(x[i - 1])
    l.sort(reverse=True)
    return x[l[0]], l[2], x


@scenario(lambda: (randn(4, 4), 3), lambda: (randn(4, 4), 0), script=True)
def script_rows_found_counted_and_removed(x: torch.Tensor, a: int):
    l = [2, 0, a, 3]
    n = l.count(a)
    l.remove(a)
    at = l.index(2)
    x[l[at]].add_(float(n))
    x[l[-1]].mul_(2)
    return x[len(l)], at, n, x


@scenario(one(4, 4), lambda: (randn(4, 4).t(),), lambda: (randn(4, 8)[:, ::2],), script=True)
def script_written_flat_where_it_is_contiguous(x: torch.Tensor):
    if x.is_contiguous():
        x.view(-1)[1:].mul_(2)
    else:
        x = x.contiguous()
        x[0].zero_()
    return x, x[1]


@scenario(lambda: (randn(6),), lambda: (randn(6),), script=True)
def dictionary_updated_by_another_and_cleared(x):
    d: Dict[str, torch.Tensor] = {"a": x[:3], "b": x[3:]}
    e: Dict[str, torch.Tensor] = {"b": x[1:4], "c": x}
    d["a"].add_(1)
    d.update(e)
    e.clear()
    d["b"].mul_(2)
    return d["a"] + d["b"], d["c"], len(d), len(e)


@scenario(lambda: (randn(4), 3.), lambda: (randn(4), 1.), lambda: (randn(4), -2.), script=True)
def floats_sorted_in_place_and_anew(x, f: float):
    l = [f, 1.5, 2.5, -0.25]
    m = sorted(l)
    l.sort(reverse=True)
    x.mul_(l[0])
    return x * m[1] + l[1]


@scenario(lambda: (randn(4), 3), lambda: (randn(4), 1), script=True)
def places_sorted_anew(x, n: int):
    l = [n, 2, 0]
    for i in sorted(l):
        x[i].add_(i)
    x[l[0]] = 7
    return x.sum()


@scenario(lambda: (randn(3, 3),), script=True)
def list_of_rows_popped_and_written(x):
    l = [x[0], x[1], x[2]]
    a = l.pop(1)
    a.zero_()
    l.insert(0, a)
    l[0].add_(5)
    l[2].mul_(l[1])
    return torch.stack(l)


@scenario(lambda: (randn(6), True, 2), lambda: (randn(6), False, 2), script=True)
def nested_branch_in_loop_over_views(x, c: bool, n: int):
    y = x
    for i in range(n):
        if c:
            y = y[1:]
        else:
            y = y[:-1].clone()
        y.mul_(2)
    y[0] = -1
    return y


# Results of TorchScript -------------------------------------------------------------------------------------------------


@scenario(one(3, 4), script=True)
def lists_returned(x):
    parts = x.split(1)
    rows: List[Tensor] = []
    for i in range(3):
        rows.append(x[i])
        x[i].add_(1)
    rows.pop(0)
    print(len(rows))
    x.data.mul_(2)
    return rows, (parts, [x, x.data]), x.unbind(1)

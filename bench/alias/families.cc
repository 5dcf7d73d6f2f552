#include "smelt/bench/alias/families.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "smelt/bench/alias/builder.h"
#include "smelt/core/op/effects.h"
#include "smelt/core/op/op_info.h"

namespace smelt {

namespace {

using Values = std::vector<ValueId>;
using Params = absl::Span<const ValueId>;
using Make = std::unique_ptr<Graph> (*)(int64_t);

const Type kTensor = Type::Tensor();
const Type kList = Type::List(Type::Tensor());

Values Copy(Params p) { return Values(p.begin(), p.end()); }
Values Rotated(Params p) {
  Values out = Copy(p);
  std::rotate(out.begin(), out.begin() + (out.empty() ? 0 : 1), out.end());
  return out;
}

// --- branches ---

// A branch that writes a fresh value and returns it, or returns the previous value.
std::unique_ptr<Graph> BranchesWriteFresh(int64_t nodes) {
  Builder b;
  ValueId v = b.Relu(b.x);
  for (int64_t i = 0; i < nodes / 3; ++i) {
    v = b.If([&](int k) {
      if (k == 0) return v;
      ValueId e = b.Relu(v);
      b.AddInPlace(e, b.y);
      return e;
    });
  }
  return b.Return(v);
}

// Both branches write the value that they return.
std::unique_ptr<Graph> Diamonds(int64_t nodes) {
  Builder b;
  ValueId v = b.Relu(b.x);
  for (int64_t i = 0; i < nodes / 5; ++i) {
    v = b.If([&](int) { return b.AddInPlace(b.Relu(v), b.y); });
  }
  return b.Return(v);
}

std::unique_ptr<Graph> DiamondsKeep(int64_t nodes) {
  Builder b;
  ValueId v = b.Relu(b.x);
  for (int64_t i = 0; i < nodes / 5; ++i) {
    v = b.If([&](int k) {
      b.AddInPlace(v, b.y);
      return k == 0 ? v : b.Relu(v);
    });
    b.AddInPlace(v, b.y);
  }
  return b.Return(v);
}

std::unique_ptr<Graph> JoinsOfViews(int64_t nodes) {
  Builder b;
  ValueId v = b.Relu(b.x);
  for (int64_t i = 0; i < nodes / 4; ++i) {
    ValueId view = b.Select(b.Relu(b.y));
    v = b.If([&](int k) { return k == 0 ? view : v; });
    b.AddInPlace(v, b.y);
  }
  return b.Return(v);
}

std::unique_ptr<Graph> ViewsOfJoins(int64_t nodes) {
  Builder b;
  ValueId v = b.Relu(b.x);
  for (int64_t i = 0; i < nodes / 4; ++i) {
    ValueId fresh = b.Mul(b.x, b.y);
    v = b.Op("aten::t", {b.If([&](int k) { return k == 0 ? fresh : v; })});
    b.AddInPlace(v, b.y);
  }
  return b.Return(v);
}

// All fresh values are written once, long after they have been joined.
std::unique_ptr<Graph> JoinsWrittenLate(int64_t nodes) {
  Builder b;
  ValueId v = b.Relu(b.x);
  Values all, joins;
  for (int64_t i = 0; i < nodes / 3; ++i) {
    all.push_back(b.Mul(b.x, b.y));
    v = b.If([&](int k) { return k == 0 ? all.back() : v; });
    joins.push_back(v);
  }
  for (ValueId e : all) b.AddInPlace(e, b.y);
  return b.Return(v);
}

std::unique_ptr<Graph> JoinsOfInputs(int64_t nodes) {
  Builder b;
  ValueId v = b.x;
  for (int64_t i = 0; i < nodes / 3; ++i) {
    v = b.If([&](int k) { return k == 0 ? b.y : v; });
    b.AddInPlace(b.Select(v), b.y);
  }
  return b.Return(v);
}

// Each join is over many values, half of which the next join shares.
std::unique_ptr<Graph> JoinsOfWindows(int64_t nodes) {
  Builder b;
  Values window;
  for (int i = 0; i < 24; ++i) window.push_back(b.Mul(b.x, b.y));
  ValueId last = b.x;
  for (int64_t i = 0; i < nodes / 3; ++i) {
    ValueId &a = window[i % 24], &z = window[(i * 7 + 5) % 24];
    last = b.If([&](int k) { return k == 0 ? a : z; });
    a = i % 3 == 0 ? b.Mul(b.x, last) : last;
    b.AddInPlace(z, b.y);
  }
  return b.Return(last);
}

template <int kDepth>
std::unique_ptr<Graph> NestedIfs(int64_t nodes) {
  Builder b;
  ValueId v = b.Relu(b.x);
  auto level = [&](auto& self, int depth, ValueId inner) -> ValueId {
    if (depth == 0) return b.AddInPlace(b.Mul(b.x, inner), b.y);
    return b.If([&](int k) {
      if (k == 1) return inner;
      ValueId r = self(self, depth - 1, b.Relu(inner));
      b.AddInPlace(r, b.y);
      return r;
    });
  };
  for (int64_t i = 0; i < std::max<int64_t>(1, nodes / (3 * kDepth + 2)); ++i) v = level(level, kDepth, v);
  return b.Return(v);
}

// --- loops ---

template <int kCarried, bool kWrite, bool kFresh>
std::unique_ptr<Graph> RotatingLoops(int64_t nodes) {
  Builder b;
  b.WithLoops();
  Values v;
  for (int k = 0; k < kCarried; ++k) v.push_back(b.Relu(b.x));
  for (int64_t i = 0; i < nodes / (kCarried + 4); ++i) {
    v = b.Loop(v, [&](Params p) {
      if (kWrite) b.AddInPlace(p[0], b.y);
      Values out = Rotated(p);
      if (kFresh) out.back() = b.Mul(p[0], p[p.size() / 2]);
      return out;
    });
  }
  return b.Return(v[0]);
}

// One loop that carries all values.
template <bool kRotate>
std::unique_ptr<Graph> WideLoop(int64_t nodes) {
  Builder b;
  b.WithLoops();
  Values v;
  for (int64_t i = 0; i < nodes / 4; ++i) v.push_back(b.Relu(b.x));
  v = b.Loop(v, [&](Params p) {
    Values out;
    for (ValueId e : p) out.push_back(b.AddInPlace(e, b.y));
    return kRotate ? Rotated(out) : out;
  });
  for (ValueId e : v) b.AddInPlace(e, b.y);
  return b.Return(v[0]);
}

// Each carried value becomes the one before it, or a fresh one.
std::unique_ptr<Graph> WideLoopShifts(int64_t nodes) {
  Builder b;
  b.WithLoops();
  Values v;
  for (int64_t i = 0; i < nodes / 5; ++i) v.push_back(b.Relu(b.x));
  v = b.Loop(v, [&](Params p) {
    Values out = {b.Mul(p[0], b.y)};
    for (size_t i = 1; i < p.size(); ++i) {
      out.push_back(b.If([&](int k) { return k == 0 ? p[i - 1] : b.Relu(p[i]); }));
    }
    return out;
  });
  return b.Return(v[0]);
}

template <int kDepth, int kCarried>
std::unique_ptr<Graph> NestedLoops(int64_t nodes) {
  Builder b;
  b.WithLoops();
  Values v;
  for (int k = 0; k < kCarried; ++k) v.push_back(b.Relu(b.x));
  auto level = [&](auto& self, int depth, Values in) -> Values {
    if (depth == 0) {
      in[0] = b.AddInPlace(b.Mul(in[0], b.y), b.y);
      return in;
    }
    return b.Loop(in, [&](Params p) {
      Values inner = Copy(p);
      inner[depth % kCarried] = b.Relu(p[0]);
      return Rotated(self(self, depth - 1, inner));
    });
  };
  for (int64_t i = 0; i < std::max<int64_t>(1, nodes / ((2 + kCarried) * kDepth + 2)); ++i) v = level(level, kDepth, v);
  return b.Return(v[0]);
}

// Values carried outwards: each level returns the values of the inner level, and one of its own.
template <int kDepth>
std::unique_ptr<Graph> LoopsCarryOutward(int64_t nodes) {
  Builder b;
  b.WithLoops();
  ValueId v = b.Relu(b.x);
  auto level = [&](auto& self, int depth, ValueId a, ValueId z) -> Values {
    if (depth == 0) {
      ValueId m = b.Mul(a, z);
      b.AddInPlace(a, b.y);
      return {m, a};
    }
    return b.Loop({a, z}, [&](Params p) {
      ValueId own = b.Relu(p[1]);
      Values out = self(self, depth - 1, p[0], own);
      b.AddInPlace(out[1], b.y);
      return Values{out[1], out[0]};
    });
  };
  for (int64_t i = 0; i < std::max<int64_t>(1, nodes / (3 * kDepth + 2)); ++i) v = level(level, kDepth, v, b.y)[0];
  return b.Return(v);
}

std::unique_ptr<Graph> LoopAroundWrites(int64_t nodes) {
  Builder b;
  b.WithLoops();
  Values out = b.Loop({b.Relu(b.x), b.Relu(b.y)}, [&](Params p) {
    ValueId v = p[0];
    for (int64_t i = 0; i < nodes / 3; ++i) v = b.AddInPlace(b.Mul(v, b.AddInPlace(p[1], b.y)), b.y);
    return Values{p[1], v};
  });
  return b.Return(out[0]);
}

std::unique_ptr<Graph> LoopAroundBranches(int64_t nodes) {
  Builder b;
  b.WithLoops();
  Values out = b.Loop({b.Relu(b.x), b.Relu(b.y)}, [&](Params p) {
    ValueId v = p[0];
    for (int64_t i = 0; i < nodes / 4; ++i) {
      v = b.If([&](int k) { return k == 0 ? v : b.AddInPlace(b.Mul(v, p[1]), b.y); });
    }
    return Values{p[1], v};
  });
  return b.Return(out[0]);
}

std::unique_ptr<Graph> LoopAroundLoops(int64_t nodes) {
  Builder b;
  b.WithLoops();
  Values out = b.Loop({b.Relu(b.x), b.Relu(b.y), b.Relu(b.y)}, [&](Params p) {
    Values v = Copy(p);
    for (int64_t i = 0; i < nodes / 5; ++i) {
      v = b.Loop(v, [&](Params q) {
        b.AddInPlace(q[0], b.y);
        return Values{q[1], q[2], b.Mul(q[0], q[1])};
      });
    }
    return Rotated(v);
  });
  return b.Return(out[0]);
}

std::unique_ptr<Graph> LoopOfOneValue(int64_t nodes) {
  Builder b;
  b.WithLoops();
  ValueId w = b.Relu(b.x);
  for (int64_t i = 0; i < nodes / 4; ++i) {
    ValueId v = b.Loop({w}, [&](Params p) { return Values{b.Relu(p[0])}; })[0];
    b.AddInPlace(v, b.y);
  }
  return b.Return(w);
}

// --- views ---

// Each operator returns its argument.
std::unique_ptr<Graph> ChainInPlace(int64_t nodes) {
  Builder b;
  ValueId v = b.Relu(b.x);
  for (int64_t i = 0; i < nodes; ++i) v = b.AddInPlace(v, b.y);
  return b.Return(v);
}

// Each view is its base as a whole.
std::unique_ptr<Graph> ChainOfWholeViews(int64_t nodes) {
  Builder b;
  ValueId v = b.Relu(b.x);
  for (int64_t i = 0; i < nodes; ++i) v = b.Op("aten::detach", {v});
  return b.Return(v);
}

// Each number is twice the last one, and a view begins there.
std::unique_ptr<Graph> DoubledNumbers(int64_t nodes) {
  Builder b;
  ValueId n = b.g->AddInput("i", Type::Int());
  for (int64_t i = 0; i < nodes / 3; ++i) {
    n = b.Op("aten::add.int", {n, n}, Type::Int());
    b.AddInPlace(b.Op("aten::slice.Tensor", {b.x, b.zero, n, b.one, b.one}), b.y);
  }
  return b.Return(b.x);
}

// One base with overlapping views whose bounds are not known.
std::unique_ptr<Graph> SymbolicViews(int64_t nodes) {
  Builder b;
  b.WithLoops();
  ValueId base = b.Relu(b.x);
  ValueId at = b.trips;
  for (int64_t i = 0; i < nodes / 3; ++i) {
    ValueId next = b.Op("aten::add.int", {at, b.one}, Type::Int());
    b.AddInPlace(b.Op("aten::slice.Tensor", {base, b.zero, at, next, b.one}), b.y);
    at = next;
  }
  return b.Return(base);
}

std::unique_ptr<Graph> PiecesOfPieces(int64_t nodes) {
  Builder b;
  ValueId base = b.Relu(b.x);
  for (int64_t i = 0; i < nodes / 8; ++i) {
    ValueId list = b.Op("aten::chunk", {base, b.Constant(int64_t{2}), b.zero}, kList);
    ValueId u = b.GetItem(list, b.zero), w = b.GetItem(list, b.one);
    b.AddInPlace(u, w);
    b.AddInPlace(w, b.y);
    base = i % 16 == 15 ? b.Relu(u) : u;
  }
  return b.Return(base);
}

std::unique_ptr<Graph> ViewTree(int64_t nodes) {
  Builder b;
  Values all = {b.Relu(b.x)};
  for (int64_t i = 0; i < nodes / 2; ++i) {
    ValueId v = b.Op("aten::slice.Tensor", {all[i / 2], b.zero, i % 2 == 0 ? b.zero : b.one, b.one, b.one});
    all.push_back(v);
    b.AddInPlace(v, b.y);
  }
  return b.Return(all[0]);
}

// Rows of one base, all written first and queried afterwards, in blocks and after joins.
std::unique_ptr<Graph> RowsInBranches(int64_t nodes) {
  Builder b;
  ValueId base = b.Relu(b.x), v = b.Relu(b.x);
  for (int64_t i = 0; i < nodes / 5; ++i) {
    ValueId at = b.Constant(i);
    v = b.If([&](int k) {
      if (k == 0) return v;
      return b.AddInPlace(b.Op("aten::select.int", {base, b.zero, at}), b.y);
    });
  }
  return b.Return(v);
}

// --- containers ---

std::unique_ptr<Graph> ListReadByIndex(int64_t nodes) {
  Builder b;
  ValueId list = b.List({b.Relu(b.x)});
  for (int64_t i = 0; i < nodes / 4; ++i) {
    b.ListAppend(list, b.Mul(b.x, b.y));
    b.AddInPlace(b.GetItem(list, b.zero), b.y);
  }
  return b.Return(list);
}

std::unique_ptr<Graph> ListWrittenByIndex(int64_t nodes) {
  Builder b;
  ValueId list = b.List({b.Relu(b.x), b.Relu(b.y)});
  for (int64_t i = 0; i < nodes / 4; ++i) {
    b.Op("aten::_set_item.t", {list, i % 2 == 0 ? b.zero : b.one, b.Mul(b.x, b.y)}, kList);
    b.AddInPlace(b.GetItem(list, b.one), b.y);
  }
  return b.Return(list);
}

std::unique_ptr<Graph> ListAppendedInBranches(int64_t nodes) {
  Builder b;
  ValueId list = b.List({});
  for (int64_t i = 0; i < nodes / 5; ++i) {
    b.If([&](int k) {
      if (k == 0) return b.x;
      ValueId f = b.Mul(b.x, b.y);
      b.ListAppend(list, f);
      return f;
    });
    b.AddInPlace(b.GetItem(list, b.zero), b.y);
  }
  return b.Return(list);
}

std::unique_ptr<Graph> ListAppendedInLoops(int64_t nodes) {
  Builder b;
  b.WithLoops();
  ValueId list = b.List({});
  for (int64_t i = 0; i < nodes / 6; ++i) {
    b.Loop({b.x}, [&](Params p) {
      b.ListAppend(list, b.Mul(p[0], b.y));
      return Values{b.GetItem(list, b.zero)};
    });
    b.AddInPlace(b.GetItem(list, b.one), b.y);
  }
  return b.Return(list);
}

std::unique_ptr<Graph> LoopAppendsAndReads(int64_t nodes) {
  Builder b;
  b.WithLoops();
  ValueId list = b.List({});
  b.Loop({b.Relu(b.x)}, [&](Params p) {
    ValueId v = p[0];
    for (int64_t i = 0; i < nodes / 4; ++i) {
      b.ListAppend(list, b.Mul(v, b.y));
      v = b.AddInPlace(b.GetItem(list, b.zero), b.y);
    }
    return Values{v};
  });
  return b.Return(list);
}

// list = list + [v]
std::unique_ptr<Graph> ListsOfLists(int64_t nodes) {
  Builder b;
  ValueId list = b.List({b.x});
  for (int64_t i = 0; i < nodes / 4; ++i) {
    list = b.Op("aten::add.t", {list, b.List({b.Mul(b.x, b.y)})}, kList);
    b.AddInPlace(b.GetItem(list, b.zero), b.y);
  }
  return b.Return(list);
}

std::unique_ptr<Graph> ListsExtendEachOther(int64_t nodes) {
  Builder b;
  Values lists;
  for (int64_t i = 0; i < nodes / 4; ++i) {
    lists.push_back(b.List({b.Mul(b.x, b.y)}));
    if (i > 0) b.Do("aten::extend.t", {lists[i], lists[i - 1]});
    b.AddInPlace(b.GetItem(lists[i], b.zero), b.y);
  }
  return b.Return(lists.back());
}

std::unique_ptr<Graph> ListsExtendInLoop(int64_t nodes) {
  Builder b;
  b.WithLoops();
  Values lists;
  for (int64_t i = 0; i < nodes / 4; ++i) lists.push_back(b.List({b.Mul(b.x, b.y)}));
  b.Loop({b.x}, [&](Params p) {
    for (size_t i = 0; i < lists.size(); ++i) b.Do("aten::extend.t", {lists[i], lists[(i + 1) % lists.size()]});
    b.AddInPlace(b.GetItem(lists[0], b.zero), b.y);
    return Values{p[0]};
  });
  return b.Return(lists.back());
}

// Lists in lists in lists.
std::unique_ptr<Graph> NestedLists(int64_t nodes) {
  Builder b;
  Type type = kList;
  ValueId list = b.List({b.Relu(b.x)});
  for (int64_t i = 0; i < nodes / 4; ++i) {
    if (i % 6 == 5) {
      type = kList;
      while (b.g->value(list).type.element() != kTensor) list = b.GetItem(list, b.zero);
    }
    type = Type::List(b.g->value(list).type);
    list = b.Op("prim::ListConstruct", {list}, type);
    b.Mul(b.x, b.y);
  }
  return b.Return(list);
}

// Nested tuples, with types as deep: the depth is bounded, the chain is not.
std::unique_ptr<Graph> TupleChain(int64_t nodes) {
  Builder b;
  ValueId u = b.Relu(b.x), w = b.Relu(b.y);
  for (int64_t i = 0; i < nodes / 4; ++i) {
    const NodeId pack =
        b.g->Append(b.block, OpName::Get("prim::TupleConstruct"), {w, u}, {Type::Tuple({kTensor, kTensor})});
    const NodeId open =
        b.g->Append(b.block, OpName::Get("prim::TupleUnpack"), {b.g->node(pack).outputs[0]}, {kTensor, kTensor});
    u = b.g->node(open).outputs[0];
    w = b.AddInPlace(b.g->node(open).outputs[1], b.y);
    if (i % 8 == 0) w = b.Mul(w, b.y);
  }
  return b.Return(w);
}

std::unique_ptr<Graph> TuplesOfLists(int64_t nodes) {
  Builder b;
  ValueId list = b.List({b.x});
  for (int64_t i = 0; i < nodes / 8; ++i) {
    ValueId other = b.List({b.Mul(b.x, b.y)});
    const NodeId pack =
        b.g->Append(b.block, OpName::Get("prim::TupleConstruct"), {list, other}, {Type::Tuple({kList, kList})});
    const ValueId tuple = b.g->node(pack).outputs[0];
    ValueId first = b.Op("prim::TupleIndex", {tuple, b.zero}, kList);
    list = b.Op("prim::TupleIndex", {tuple, b.one}, kList);
    b.ListAppend(list, b.GetItem(first, b.zero));
    b.AddInPlace(b.GetItem(list, b.one), b.y);
  }
  return b.Return(list);
}

std::unique_ptr<Graph> OneDict(int64_t nodes) {
  Builder b;
  ValueId dict = b.Op("prim::DictConstruct", {}, Type::Dict(Type::Int(), kTensor));
  for (int64_t i = 0; i < nodes / 4; ++i) {
    ValueId key = b.Constant(i);
    b.Do("aten::_set_item.int", {dict, key, b.Mul(b.x, b.y)});
    b.AddInPlace(b.Op("aten::__getitem__.Dict_int", {dict, key}), b.y);
  }
  return b.Return(dict);
}

std::unique_ptr<Graph> WideList(int64_t nodes) {
  Builder b;
  Values all;
  for (int64_t i = 0; i < nodes / 4; ++i) all.push_back(b.Mul(b.x, b.y));
  ValueId list = b.List(all);
  for (int64_t i = 0; i < nodes / 4; ++i) b.AddInPlace(b.GetItem(list, b.Constant(i)), b.y);
  return b.Return(b.Cat(list));
}

std::unique_ptr<Graph> WideListInLoop(int64_t nodes) {
  Builder b;
  b.WithLoops();
  Values v;
  for (int64_t i = 0; i < nodes / 4; ++i) v.push_back(b.Mul(b.x, b.y));
  v = b.Loop(v, [&](Params p) {
    ValueId list = b.List(p);
    const std::vector<Type> types(p.size(), kTensor);
    const NodeId open = b.g->Append(b.block, OpName::Get("prim::ListUnpack"), {list}, types);
    Values out = Copy(b.g->node(open).outputs);
    b.AddInPlace(out[0], b.y);
    return Rotated(out);
  });
  return b.Return(v[0]);
}

std::unique_ptr<Graph> ForeachWrites(int64_t nodes) {
  Builder b;
  ValueId list = b.List({b.Relu(b.x)});
  for (int64_t i = 0; i < nodes / 4; ++i) {
    b.ListAppend(list, b.Mul(b.x, b.y));
    b.Do("aten::_foreach_neg_", {list});
    b.GetItem(list, b.zero);
  }
  return b.Return(list);
}

std::unique_ptr<Graph> ListsOfOneInput(int64_t nodes) {
  Builder b;
  ValueId list = b.g->AddInput("l", kList), other = b.g->AddInput("k", kList);
  for (int64_t i = 0; i < nodes / 5; ++i) {
    b.ListAppend(list, b.Mul(b.x, b.y));
    b.AddInPlace(b.GetItem(list, b.zero), b.y);
    b.GetItem(other, b.one);
    b.AddInPlace(b.x, b.y);
  }
  return b.Return(list);
}

// --- calls ---

ValueId Function(Builder& b) {
  const NodeId n = b.g->InsertBefore(b.g->block(b.g->top()).first, OpName::Get("prim::Constant"), {},
                                     {Type::Class("Function")}, {{"name", std::string("f")}});
  return b.g->node(n).outputs[0];
}

std::unique_ptr<Graph> Calls(int64_t nodes) {
  Builder b;
  ValueId f = Function(b);
  ValueId v = b.Relu(b.x);
  for (int64_t i = 0; i < nodes / 3; ++i) {
    v = b.Op("prim::CallFunction", {f, v});
    b.AddInPlace(v, b.Relu(b.y));
  }
  return b.Return(v);
}

std::unique_ptr<Graph> CallsWithLists(int64_t nodes) {
  Builder b;
  ValueId f = Function(b);
  ValueId list = b.List({b.Relu(b.x)});
  for (int64_t i = 0; i < nodes / 4; ++i) {
    b.ListAppend(list, b.Mul(b.x, b.y));
    ValueId v = b.Op("prim::CallFunction", {f, list});
    b.AddInPlace(v, b.GetItem(list, b.zero));
  }
  return b.Return(list);
}

std::unique_ptr<Graph> CallsInLoops(int64_t nodes) {
  Builder b;
  b.WithLoops();
  ValueId f = Function(b);
  ValueId v = b.Relu(b.x);
  for (int64_t i = 0; i < nodes / 5; ++i) {
    v = b.Loop({v, b.y}, [&](Params p) {
      ValueId r = b.Op("prim::CallFunction", {f, p[0], p[1]});
      b.AddInPlace(r, b.y);
      return Values{p[1], r};
    })[0];
  }
  return b.Return(v);
}

// Fresh values, each of which escapes in one of the last nodes.
std::unique_ptr<Graph> EscapesLate(int64_t nodes) {
  Builder b;
  Values all;
  for (int64_t i = 0; i < nodes / 3; ++i) {
    all.push_back(b.Mul(b.x, b.y));
    b.AddInPlace(all.back(), b.y);
  }
  for (ValueId v : all) b.Op("mine::unknown", {v});
  return b.Return(b.x);
}

// One unknown operator at the end takes all of them, through a list.
std::unique_ptr<Graph> EscapesTogether(int64_t nodes) {
  Builder b;
  ValueId list = b.List({});
  for (int64_t i = 0; i < nodes / 4; ++i) {
    ValueId v = b.Mul(b.x, b.y);
    b.ListAppend(list, v);
    b.AddInPlace(v, b.y);
  }
  b.Op("mine::unknown", {list});
  return b.Return(b.x);
}

std::unique_ptr<Graph> UnknownEverywhere(int64_t nodes) {
  Builder b;
  ValueId v = b.Relu(b.x);
  for (int64_t i = 0; i < nodes / 3; ++i) v = b.AddInPlace(b.Op("mine::unknown", {b.Relu(v)}), b.y);
  return b.Return(v);
}

std::unique_ptr<Graph> HandlesMove(int64_t nodes) {
  Builder b;
  ValueId v = b.Relu(b.x);
  for (int64_t i = 0; i < nodes / 4; ++i) {
    ValueId e = b.Relu(b.y);
    b.Op("aten::set_.source_Tensor", {e, v});
    v = b.AddInPlace(b.Relu(e), b.y);
  }
  return b.Return(v);
}

std::unique_ptr<Graph> OneHandleMoves(int64_t nodes) {
  Builder b;
  ValueId v = b.Relu(b.x);
  for (int64_t i = 0; i < nodes / 4; ++i) {
    ValueId e = b.Relu(b.y);
    b.Op("aten::set_.source_Tensor", {v, e});
    b.AddInPlace(v, b.y);
  }
  return b.Return(v);
}

std::unique_ptr<Graph> GeometryChanges(int64_t nodes) {
  Builder b;
  ValueId v = b.Relu(b.x);
  for (int64_t i = 0; i < nodes / 4; ++i) {
    b.Op("aten::t_", {v});
    b.AddInPlace(b.Select(v), b.y);
    if (i % 2 == 0) v = b.Relu(v);
  }
  return b.Return(v);
}

std::unique_ptr<Graph> InputsWritten(int64_t nodes) {
  Builder b;
  Values inputs;
  for (int i = 0; i < 64; ++i) inputs.push_back(b.g->AddInput(absl::StrCat("i", i), kTensor));
  for (int64_t i = 0; i < nodes / 2; ++i) b.AddInPlace(inputs[i % 64], b.Relu(inputs[(i * 7 + 1) % 64]));
  return b.Return(b.x);
}

std::unique_ptr<Graph> RandomNumbers(int64_t nodes) {
  Builder b;
  ValueId v = b.Relu(b.x), p = b.Constant(0.5), train = b.Constant(true);
  for (int64_t i = 0; i < nodes / 3; ++i) {
    v = b.Op("aten::dropout", {v, p, train});
    b.Op("aten::dropout_", {v, p, train});
    v = b.Relu(v);
  }
  return b.Return(v);
}

// --- tiles ---

// A random list of statements that is built repeatedly; the values that it changes flow from one repetition to the
// next.
class Tile {
 public:
  explicit Tile(uint64_t seed) : rng_(seed) {
    static constexpr int kCarried[] = {1, 2, 3, 3, 4, 5, 8, 16, 64};
    carried_ = kCarried[Below(9)];
    around_ = Below(4) == 0;
    share_list_ = Below(2) == 0;
    deep_ = 1 + Below(3);
    program_ = Block(0, 2 + Below(6));
  }

  std::unique_ptr<Graph> Make(int64_t nodes) {
    Builder b;
    b.WithLoops();
    function_ = Function(b);
    State s;
    for (int k = 0; k < carried_; ++k) s.tensors.push_back(b.Relu(b.x));
    s.list = b.List({s.tensors[0]});
    const auto repeat = [&](State at) {
      while (b.g->num_nodes() < nodes) Run(b, program_, &at);
      return at;
    };
    if (around_) {
      b.Loop(s.tensors, [&](Params p) {
        State in = s;
        in.tensors = Copy(p);
        return repeat(in).tensors;
      });
    } else {
      s = repeat(s);
    }
    return b.Return(s.tensors[0]);
  }

 private:
  enum What {
    kRelu,
    kFreshWritten,
    kWrite,
    kWriteView,
    kView,
    kSwap,
    kIf,
    kIfKeep,
    kLoop,
    kLoopRotate,
    kAppend,
    kGet,
    kGetWrite,
    kNewList,
    kExtend,
    kConcat,
    kTuple,
    kCall,
    kOther,
    kHowMany
  };
  struct Statement {
    What what;
    int a, b;
    std::vector<Statement> first, second;
  };
  using Statements = std::vector<Statement>;
  struct State {
    Values tensors;
    ValueId list;
  };

  int Below(int n) { return static_cast<int>(rng_() % static_cast<uint64_t>(n)); }
  Statements Block(int depth, int size) {
    Statements out;
    for (int i = 0; i < size; ++i) {
      Statement s;
      s.what = static_cast<What>(Below(kHowMany));
      s.a = Below(carried_);
      s.b = Below(carried_);
      const bool nests = s.what == kIf || s.what == kIfKeep || s.what == kLoop || s.what == kLoopRotate;
      if (nests && depth >= deep_) s.what = kFreshWritten;
      if (s.what == kCall && Below(3) != 0) s.what = kWrite;
      if (nests && depth < deep_) {
        s.first = Block(depth + 1, 1 + Below(3));
        s.second = Block(depth + 1, 1 + Below(2));
      }
      out.push_back(std::move(s));
    }
    return out;
  }

  void Run(Builder& b, const Statements& all, State* at) {
    for (const Statement& s : all) Run(b, s, at);
  }
  void Run(Builder& b, const Statement& s, State* at) {
    Values& v = at->tensors;
    ValueId& x = v[s.a];
    const ValueId y = v[s.b];
    switch (s.what) {
      case kRelu:
        x = b.Relu(y);
        break;
      case kFreshWritten:
        x = b.AddInPlace(b.Mul(x, y), y);
        break;
      case kWrite:
        b.AddInPlace(x, y);
        break;
      case kWriteView:
        b.AddInPlace(b.Select(x), y);
        break;
      case kView:
        x = b.Op("aten::t", {y});
        break;
      case kSwap:
        std::swap(v[s.a], v[s.b]);
        break;
      case kOther:
        x = y;
        v[s.b] = b.Relu(y);
        break;
      case kIf:
      case kIfKeep: {
        const std::vector<Type> types(v.size(), kTensor);
        const State before = *at;
        v = b.If(types, [&](int k) {
          State in = before;
          if (k == 0 || s.what == kIf) Run(b, k == 0 ? s.first : s.second, &in);
          return in.tensors;
        });
        break;
      }
      case kLoop:
      case kLoopRotate: {
        State in = *at;
        v = b.Loop(Values(v), [&](Params p) {
          in.tensors = Copy(p);
          Run(b, s.first, &in);
          return s.what == kLoop ? in.tensors : Rotated(in.tensors);
        });
        break;
      }
      case kAppend:
        b.ListAppend(at->list, x);
        break;
      case kGet:
        x = b.GetItem(at->list, b.zero);
        break;
      case kGetWrite:
        b.AddInPlace(b.GetItem(at->list, b.one), y);
        break;
      case kNewList:
        if (share_list_) {
          b.ListAppend(at->list, b.Mul(x, y));
        } else {
          at->list = b.List({x, y});
        }
        break;
      case kExtend:
        b.Do("aten::extend.t", {at->list, b.List({x, y})});
        break;
      case kConcat:
        at->list = b.Op("aten::add.t", {at->list, b.List({x})}, kList);
        break;
      case kTuple: {
        const NodeId pack =
            b.g->Append(b.block, OpName::Get("prim::TupleConstruct"), {x, y}, {Type::Tuple({kTensor, kTensor})});
        const NodeId open =
            b.g->Append(b.block, OpName::Get("prim::TupleUnpack"), {b.g->node(pack).outputs[0]}, {kTensor, kTensor});
        v[s.a] = b.g->node(open).outputs[1];
        v[s.b] = b.g->node(open).outputs[0];
        break;
      }
      case kCall:
        x = b.Op("prim::CallFunction", {function_, x, y});
        break;
      case kHowMany:
        break;
    }
  }

  std::mt19937_64 rng_;
  int carried_, deep_;
  bool around_, share_list_;
  Statements program_;
  ValueId function_;
};

std::vector<ValueId> AliasingValues(const Graph& g) {
  std::vector<ValueId> out = Copy(g.inputs());
  for (NodeId n : g.AllNodes()) {
    for (BlockId b : g.node(n).blocks) {
      for (ValueId v : g.params(b)) out.push_back(v);
    }
    for (ValueId v : g.node(n).outputs) out.push_back(v);
  }
  out.erase(std::remove_if(out.begin(), out.end(), [&](ValueId v) { return !IsAliasingType(g.value(v).type); }),
            out.end());
  return out;
}

int64_t Ask(const AliasDb& db, ValueId a, ValueId b) {
  return db.HasWriters(a) + db.MayAlias(a, b) + db.MustAlias(a, b) + db.MayContainAlias(a, b) + db.IsEverWritten(a) +
         db.SafeToChangeAliasing(a, b);
}

}  // namespace

std::vector<Family> NamedFamilies() {
  std::vector<Family> out = {
      {"branches_write_fresh", BranchesWriteFresh},
      {"diamonds", Diamonds},
      {"diamonds_keep", DiamondsKeep},
      {"joins_of_views", JoinsOfViews},
      {"views_of_joins", ViewsOfJoins},
      {"joins_written_late", JoinsWrittenLate},
      {"joins_of_inputs", JoinsOfInputs},
      {"joins_of_windows", JoinsOfWindows},
      {"nested_ifs_20", NestedIfs<20>},
      {"nested_ifs_1000", NestedIfs<1000>},
      {"rotating_loops_3", RotatingLoops<3, true, false>},
      {"rotating_loops_3_fresh", RotatingLoops<3, true, true>},
      {"rotating_loops_8", RotatingLoops<8, true, true>},
      {"rotating_loops_64", RotatingLoops<64, true, true>},
      {"rotating_loops_64_read", RotatingLoops<64, false, false>},
      {"wide_loop", WideLoop<false>},
      {"wide_loop_rotates", WideLoop<true>},
      {"wide_loop_shifts", WideLoopShifts},
      {"nested_loops_8_1", NestedLoops<8, 1>},
      {"nested_loops_8_4", NestedLoops<8, 4>},
      {"nested_loops_50_3", NestedLoops<50, 3>},
      {"nested_loops_1000_1", NestedLoops<1000, 1>},
      {"loops_carry_outward_8", LoopsCarryOutward<8>},
      {"loops_carry_outward_100", LoopsCarryOutward<100>},
      {"loop_around_writes", LoopAroundWrites},
      {"loop_around_branches", LoopAroundBranches},
      {"loop_around_loops", LoopAroundLoops},
      {"loop_of_one_value", LoopOfOneValue},
      {"chain_in_place", ChainInPlace},
      {"chain_of_whole_views", ChainOfWholeViews},
      {"doubled_numbers", DoubledNumbers},
      {"symbolic_views", SymbolicViews},
      {"pieces_of_pieces", PiecesOfPieces},
      {"view_tree", ViewTree},
      {"rows_in_branches", RowsInBranches},
      {"list_read_by_index", ListReadByIndex},
      {"list_written_by_index", ListWrittenByIndex},
      {"list_appended_in_branches", ListAppendedInBranches},
      {"list_appended_in_loops", ListAppendedInLoops},
      {"loop_appends_and_reads", LoopAppendsAndReads},
      {"lists_of_lists", ListsOfLists},
      {"lists_extend_each_other", ListsExtendEachOther},
      {"lists_extend_in_loop", ListsExtendInLoop},
      {"nested_lists", NestedLists},
      {"tuple_chain", TupleChain},
      {"tuples_of_lists", TuplesOfLists},
      {"one_dict", OneDict},
      {"wide_list", WideList},
      {"wide_list_in_loop", WideListInLoop},
      {"foreach_writes", ForeachWrites},
      {"lists_of_one_input", ListsOfOneInput},
      {"calls", Calls},
      {"calls_with_lists", CallsWithLists},
      {"calls_in_loops", CallsInLoops},
      {"escapes_late", EscapesLate},
      {"escapes_together", EscapesTogether},
      {"unknown_everywhere", UnknownEverywhere},
      {"handles_move", HandlesMove},
      {"one_handle_moves", OneHandleMoves},
      {"geometry_changes", GeometryChanges},
      {"inputs_written", InputsWritten},
      {"random_numbers", RandomNumbers},
  };
  for (Family& family : CombinedFamilies()) out.push_back(std::move(family));
  return out;
}

Family TiledFamily(uint64_t seed) {
  return {absl::StrCat("tile_", seed), [seed](int64_t nodes) { return Tile(seed).Make(nodes); }};
}

int64_t NodesAndEdges(const Graph& g) {
  int64_t out = 0;
  for (NodeId n : g.AllNodes()) {
    const Node& node = g.node(n);
    out += 1 + static_cast<int64_t>(node.inputs.size());
    for (BlockId b : node.blocks) out += static_cast<int64_t>(g.results(b).size());
  }
  return out;
}

int64_t AskAll(const Graph& g, const AliasDb& db) {
  const std::vector<ValueId> values = AliasingValues(g);
  int64_t yes = 0;
  for (size_t i = 1; i < values.size(); ++i) yes += Ask(db, values[i], values[i - 1]);
  return yes;
}

int64_t AskAtRandom(const Graph& g, const AliasDb& db, std::mt19937_64& rng) {
  const std::vector<ValueId> values = AliasingValues(g);
  int64_t yes = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    yes += Ask(db, values[rng() % values.size()], values[rng() % values.size()]);
  }
  return yes;
}

void InsertAndErase(Graph& g, const AliasDb& db, int64_t places, Order order, std::mt19937_64& rng) {
  std::vector<std::pair<NodeId, ValueId>> at;  // a node, and a tensor that it takes
  for (NodeId n : g.AllNodes()) {
    for (ValueId v : g.node(n).inputs) {
      if (!g.value(v).type.IsTensor()) continue;
      at.push_back({n, v});
      break;
    }
  }
  if (at.empty()) return;
  if (order == Order::kRandom) std::shuffle(at.begin(), at.end(), rng);
  if (order == Order::kBack) std::reverse(at.begin(), at.end());
  const int64_t count = std::min<int64_t>(places, static_cast<int64_t>(at.size()));
  std::vector<NodeId> made;
  for (int64_t i = 0; i < count; ++i) {
    const auto& [n, v] = at[i];
    made.push_back(g.InsertBefore(n, OpName::Get(i % 2 == 0 ? "aten::relu_" : "aten::relu"), {v}, {Type::Tensor()}));
    Ask(db, v, g.node(made.back()).outputs[0]);
  }
  if (order == Order::kRandom) std::shuffle(made.begin(), made.end(), rng);
  for (NodeId n : made) {
    const ValueId v = g.node(n).inputs[0];
    g.Erase(n);
    db.HasWriters(v);
  }
}

void RemoveEscapes(Graph& g, const AliasDb& db, int64_t at_most, Order order) {
  std::vector<NodeId> all;
  for (NodeId n : g.AllNodes()) {
    const std::string& name = g.node(n).op.name();
    if (name == "mine::unknown" || name == "prim::CallFunction") all.push_back(n);
  }
  if (order == Order::kBack) std::reverse(all.begin(), all.end());
  if (order == Order::kRandom) {
    std::mt19937_64 rng(7);
    std::shuffle(all.begin(), all.end(), rng);
  }
  if (static_cast<int64_t>(all.size()) > at_most) all.resize(at_most);
  for (NodeId n : all) {
    const Node& node = g.node(n);
    ValueId self;
    for (ValueId v : node.inputs) {
      if (IsAliasingType(g.value(v).type)) {
        self = v;
        break;
      }
    }
    if (!node.outputs.empty()) {
      ValueId stands = self;
      if (g.value(node.outputs[0]).type.IsTensor()) {
        if (!g.value(self).type.IsTensor()) continue;
        stands = g.node(g.InsertBefore(n, OpName::Get("aten::relu"), {self}, {Type::Tensor()})).outputs[0];
      }
      g.ReplaceAllUses(node.outputs[0], stands);
    }
    g.Erase(n);
    db.HasWriters(self);
  }
}

namespace {

// The nodes for which `wanted`, in the order in which they are to be edited.
template <typename F>
std::vector<NodeId> NodesToEdit(const Graph& g, int64_t at_most, Order order, const F& wanted) {
  std::vector<NodeId> out;
  for (NodeId n : g.AllNodes()) {
    if (wanted(g.node(n))) out.push_back(n);
  }
  if (order == Order::kBack) std::reverse(out.begin(), out.end());
  if (order == Order::kRandom) {
    std::mt19937_64 rng(7);
    std::shuffle(out.begin(), out.end(), rng);
  }
  if (static_cast<int64_t>(out.size()) > at_most) out.resize(at_most);
  return out;
}

}  // namespace

void MakeAllPure(Graph& g, const AliasDb& db, int64_t at_most, Order order) {
  const auto in_place = [](const Node& node) {
    return GetOpInfo(node.op).kind == OpKind::kInplace && static_cast<bool>(GetOpInfo(node.op).functional) &&
           node.outputs.size() == 1 && !node.inputs.empty();
  };
  for (NodeId n : NodesToEdit(g, at_most, order, in_place)) {
    const ValueId self = g.node(n).inputs[0], result = g.node(n).outputs[0];
    g.SetOp(n, GetOpInfo(g.node(n).op).functional);
    Ask(db, result, self);
  }
}

void Rewire(Graph& g, const AliasDb& db, int64_t at_most, Order order) {
  const auto any = [](const Node& node) { return !node.inputs.empty() || !node.blocks.empty(); };
  const auto fits = [&](ValueId old, ValueId v) { return old != v && g.value(old).type == g.value(v).type; };
  const ValueId tensor = g.inputs()[0];
  int64_t count = 0;
  for (NodeId n : NodesToEdit(g, at_most, order, any)) {
    ++count;
    // A result of a block becomes its neighbour, or comes back as it went in.
    NodeId at = n;
    if (!g.node(n).blocks.empty() && count % 2 == 0) at = g.block(g.node(n).blocks.back()).return_node;
    const absl::Span<const ValueId> inputs = g.node(at).inputs;
    for (size_t i = inputs.size(); i-- > 0;) {
      const ValueId old = inputs[i];
      if (!IsAliasingType(g.value(old).type)) continue;
      const ValueId other = i > 0 && count % 3 != 0 ? inputs[i - 1] : tensor;
      if (!fits(old, other)) continue;
      g.SetInput(at, static_cast<uint32_t>(i), other);
      Ask(db, old, other);
      break;
    }
  }
}

}  // namespace smelt

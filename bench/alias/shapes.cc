#include "smelt/bench/alias/shapes.h"

#include <algorithm>

#include "smelt/bench/alias/builder.h"

namespace smelt {

namespace {

std::unique_ptr<Graph> Chain(int64_t nodes) {
  Builder b;
  ValueId v = b.x;
  for (int64_t i = 0; i < nodes; ++i) v = i % 2 == 0 ? b.Relu(v) : b.Mul(v, b.y);
  return b.Return(v);
}

std::unique_ptr<Graph> ViewsOfOneBase(int64_t nodes) {
  Builder b;
  ValueId base = b.Relu(b.x);
  for (int64_t i = 0; i < nodes / 2; ++i) b.AddInPlace(b.Select(base), b.y);
  return b.Return(base);
}

// Every view is another row: the pieces are disjoint, and the database knows it.
std::unique_ptr<Graph> RowsOfOneBase(int64_t nodes) {
  Builder b;
  ValueId base = b.Relu(b.x);
  for (int64_t i = 0; i < nodes / 3; ++i) {
    ValueId at = b.Constant(i);
    b.AddInPlace(b.Op("aten::select.int", {base, b.zero, at}), b.y);
  }
  return b.Return(base);
}

std::unique_ptr<Graph> ViewsOfInput(int64_t nodes) {
  Builder b;
  for (int64_t i = 0; i < nodes / 2; ++i) b.AddInPlace(b.Select(b.x), b.y);
  return b.Return(b.x);
}

std::unique_ptr<Graph> ViewChain(int64_t nodes) {
  Builder b;
  ValueId v = b.Relu(b.x);
  for (int64_t i = 0; i < nodes / 2; ++i) {
    v = b.Op("aten::t", {v});
    b.AddInPlace(v, b.y);
  }
  return b.Return(v);
}

std::unique_ptr<Graph> FreshWritten(int64_t nodes) {
  Builder b;
  for (int64_t i = 0; i < nodes / 2; ++i) b.AddInPlace(b.Mul(b.x, b.y), b.y);
  return b.Return(b.x);
}

std::unique_ptr<Graph> FreshSummed(int64_t nodes) {
  Builder b;
  ValueId sum = b.x;
  for (int64_t i = 0; i < nodes / 3; ++i) sum = b.Mul(sum, b.AddInPlace(b.Mul(b.x, b.y), b.y));
  return b.Return(sum);
}

std::unique_ptr<Graph> OneWritten(int64_t nodes) {
  Builder b;
  ValueId v = b.Relu(b.x);
  for (int64_t i = 0; i < nodes; ++i) v = b.AddInPlace(v, b.y);
  return b.Return(v);
}

std::unique_ptr<Graph> IfChain(int64_t nodes) {
  Builder b;
  ValueId v = b.x;
  for (int64_t i = 0; i < nodes / 2; ++i) {
    ValueId fresh = b.Mul(b.x, b.y);
    v = b.If([&](int k) { return k == 0 ? fresh : v; });
  }
  return b.Return(v);
}

std::unique_ptr<Graph> IfChainWritten(int64_t nodes) {
  Builder b;
  ValueId v = b.x;
  for (int64_t i = 0; i < nodes / 3; ++i) {
    ValueId fresh = b.Mul(b.x, b.y);
    v = b.If([&](int k) { return k == 0 ? fresh : v; });
    b.AddInPlace(v, b.y);
  }
  return b.Return(v);
}

std::unique_ptr<Graph> IfIndependent(int64_t nodes) {
  Builder b;
  for (int64_t i = 0; i < nodes / 4; ++i) {
    ValueId f = b.Mul(b.x, b.y), h = b.Relu(b.x);
    b.AddInPlace(b.If([&](int k) { return k == 0 ? f : h; }), b.y);
  }
  return b.Return(b.x);
}

std::unique_ptr<Graph> IfNested(int64_t nodes) {
  constexpr int kDepth = 20;
  Builder b;
  ValueId v = b.x;
  auto level = [&](auto& self, int depth, ValueId inner) -> ValueId {
    if (depth == 0) return b.Mul(b.x, inner);
    return b.If([&](int k) { return k == 0 ? self(self, depth - 1, inner) : b.Relu(b.x); });
  };
  for (int64_t i = 0; i < std::max<int64_t>(1, nodes / (2 * kDepth + 2)); ++i) {
    v = level(level, kDepth, v);
    b.AddInPlace(v, b.y);
  }
  return b.Return(v);
}

std::unique_ptr<Graph> OneList(int64_t nodes) {
  Builder b;
  ValueId list = b.List({});
  for (int64_t i = 0; i < nodes / 3; ++i) {
    b.ListAppend(list, b.Mul(b.x, b.y));
    b.Cat(list);
  }
  return b.Return(list);
}

std::unique_ptr<Graph> ManyLists(int64_t nodes) {
  Builder b;
  ValueId v = b.x;
  for (int64_t i = 0; i < nodes / 5; ++i) {
    ValueId t = b.Mul(b.x, v), u = b.Relu(t), list = b.List({t, u});
    b.ListAppend(list, v);
    v = b.Cat(list);
  }
  return b.Return(v);
}

std::unique_ptr<Graph> ElementsWritten(int64_t nodes) {
  Builder b;
  for (int64_t i = 0; i < nodes / 5; ++i) {
    ValueId t = b.Mul(b.x, b.y), u = b.Relu(t), list = b.List({t, u});
    b.AddInPlace(b.GetItem(list, b.zero), b.y);
  }
  return b.Return(b.x);
}

// Consecutive loops, each carrying two values that it swaps.
std::unique_ptr<Graph> LoopChain(int64_t nodes) {
  Builder b;
  b.WithLoops();
  ValueId p = b.Relu(b.x), q = b.Relu(b.y);
  for (int64_t i = 0; i < nodes / 4; ++i) {
    p = b.Relu(p);
    std::vector<ValueId> out = b.Loop({p, q}, [&](absl::Span<const ValueId> v) {
      ValueId t = b.Mul(v[0], v[1]);
      b.AddInPlace(v[1], b.y);
      return std::vector<ValueId>{v[1], t};
    });
    p = out[0];
    q = out[1];
  }
  return b.Return(p);
}

std::unique_ptr<Graph> LoopIndependent(int64_t nodes) {
  Builder b;
  b.WithLoops();
  for (int64_t i = 0; i < nodes / 5; ++i) {
    b.Loop({b.Relu(b.x), b.Relu(b.y)}, [&](absl::Span<const ValueId> v) {
      ValueId t = b.Mul(v[0], v[1]);
      b.AddInPlace(v[1], b.y);
      return std::vector<ValueId>{v[1], t};
    });
  }
  return b.Return(b.x);
}

std::unique_ptr<Graph> LoopNested(int64_t nodes) {
  constexpr int kDepth = 8;
  Builder b;
  b.WithLoops();
  ValueId v = b.Relu(b.x);
  auto level = [&](auto& self, int depth, ValueId inner) -> ValueId {
    if (depth == 0) return b.AddInPlace(b.Mul(inner, b.y), b.y);
    return b.Loop({inner}, [&](absl::Span<const ValueId> p) {
      return std::vector<ValueId>{self(self, depth - 1, b.Relu(p[0]))};
    })[0];
  };
  for (int64_t i = 0; i < std::max<int64_t>(1, nodes / (2 * kDepth + 2)); ++i) v = b.Relu(level(level, kDepth, v));
  return b.Return(v);
}

// One loop around all nodes.
std::unique_ptr<Graph> LoopAround(int64_t nodes) {
  Builder b;
  b.WithLoops();
  std::vector<ValueId> out = b.Loop({b.Relu(b.x)}, [&](absl::Span<const ValueId> p) {
    ValueId v = p[0];
    for (int64_t i = 0; i < nodes / 2; ++i) v = b.AddInPlace(b.Mul(v, b.y), b.y);
    return std::vector<ValueId>{v};
  });
  return b.Return(out[0]);
}

}  // namespace

absl::Span<const Shape> Shapes() {
  static const auto* const kShapes = new std::vector<Shape>{
      {"chain", "pointwise, nothing written", true, Chain},
      {"views_of_one_base", "select one row of a fresh base and write it, again and again", true, ViewsOfOneBase},
      {"rows_of_one_base", "as above, each time another row", true, RowsOfOneBase},
      {"views_of_input", "the base is the caller's", true, ViewsOfInput},
      {"view_chain", "a view of a view of a view, each written", true, ViewChain},
      {"fresh_written", "fresh tensors, each written once", true, FreshWritten},
      {"fresh_summed", "as above, and all are used", true, FreshSummed},
      {"one_written", "one fresh tensor, written by every node", true, OneWritten},
      {"if_chain", "joins of a fresh tensor and the join before", false, IfChain},
      {"if_chain_written", "as above, each join written", false, IfChainWritten},
      {"if_independent", "joins of two fresh tensors, each written", false, IfIndependent},
      {"if_nested", "20 deep, chained", false, IfNested},
      {"one_list", "one list; append and cat, again and again", false, OneList},
      {"many_lists", "lists of three tensors, the last the cat of the list before", false, ManyLists},
      {"elements_written", "an element taken out of a list and written", false, ElementsWritten},
      {"loop_chain", "loops whose two values change places, chained", false, LoopChain},
      {"loop_independent", "as above, each of fresh values", false, LoopIndependent},
      {"loop_nested", "8 deep, chained", false, LoopNested},
      {"loop_around", "one loop around a chain of writes", false, LoopAround},
  };
  return *kShapes;
}

const Shape* FindShape(const std::string& name) {
  for (const Shape& s : Shapes()) {
    if (s.name == name) return &s;
  }
  return nullptr;
}

std::unique_ptr<Graph> MakeYolo() {
  Builder b;
  auto ints = [&](int64_t v) {
    ValueId c = b.Constant(v);
    return b.Op("prim::ListConstruct", {c, c}, Type::List(Type::Int()));
  };
  int weights = 0;
  auto weight = [&] { return b.g->AddInput("w" + std::to_string(weights++), Type::Tensor()); };
  // The form that inlining leaves: every call has its own constants and lists of integers.
  auto conv = [&](ValueId v, bool norm, int64_t stride) {
    ValueId groups = b.Constant(int64_t{1}), none = b.Constant(std::monostate());
    ValueId dilation = ints(1), padding = ints(1), strides = ints(stride);
    if (!norm) return b.Op("aten::conv2d", {v, weight(), weight(), strides, padding, dilation, groups});
    v = b.Op("aten::conv2d", {v, weight(), none, strides, padding, dilation, groups});
    b.Op("aten::dim", {v}, Type::Int());
    ValueId training = b.Constant(false), momentum = b.Constant(0.1), eps = b.Constant(1e-5), cudnn = b.Constant(true);
    ValueId scale = weight(), shift = weight(), mean = weight(), variance = weight();
    v = b.Op("aten::batch_norm", {v, scale, shift, mean, variance, training, momentum, eps, cudnn});
    for (int i = 0; i < 12; ++i) b.Constant(int64_t{i});
    return b.Op("aten::leaky_relu_", {v, b.Constant(0.1)});
  };
  ValueId v = conv(b.x, true, 1);
  std::vector<ValueId> routes;
  for (int repeat : {1, 2, 8, 8, 4}) {
    v = conv(v, true, 2);
    for (int i = 0; i < repeat; ++i) {
      ValueId t = conv(conv(v, true, 1), true, 1);
      v = b.AddInPlace(t, v);
    }
    routes.push_back(v);
  }
  std::vector<ValueId> heads;
  for (int head = 0; head < 3; ++head) {
    if (head > 0) {
      v = conv(v, true, 1);
      ValueId none = b.Constant(std::monostate());
      v = b.Op("aten::upsample_nearest2d.vec",
               {v, none, b.Op("prim::ListConstruct", {b.Constant(2.0), b.Constant(2.0)}, Type::List(Type::Float()))});
      v = b.Cat(b.List({v, routes[4 - head]}));
    }
    for (int i = 0; i < 5; ++i) v = conv(v, true, 1);
    heads.push_back(conv(conv(v, true, 1), false, 1));
  }
  // Each head: boxes and scores, sigmoid in place on slices.
  std::vector<ValueId> results;
  for (ValueId h : heads) {
    ValueId parts = b.Op("aten::chunk", {h, b.Constant(int64_t{3}), b.one}, Type::List(Type::Tensor()));
    for (int64_t k = 0; k < 3; ++k) {
      ValueId piece = b.GetItem(parts, b.Constant(k));
      for (int i = 0; i < 4; ++i) {
        ValueId row = b.Op("aten::select.int", {piece, b.one, b.Constant(int64_t{i})});
        ValueId t = b.Op(i < 2 ? "aten::sigmoid_" : "aten::exp_", {row});
        b.AddInPlace(t, b.y);
        b.Op("aten::mul_.Tensor", {t, b.y});
      }
    }
    results.push_back(h);
  }
  return b.Return(b.List(results));
}

}  // namespace smelt

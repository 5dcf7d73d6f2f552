// Models as TorchScript leaves them when every call has been inlined and nothing has been simplified: each layer has
// its own constants, its own lists of integers and the branches that test whether the model is being trained.
#include <algorithm>
#include <string>
#include <vector>

#include "smelt/bench/alias/builder.h"
#include "smelt/bench/alias/shapes.h"

namespace smelt {

namespace {

using Values = std::vector<ValueId>;

Type Floats(std::vector<int64_t> sizes) {
  return Type::Tensor(DType::kFloat32, std::vector<Expr>(sizes.begin(), sizes.end()));
}

class Script {
 public:
  explicit Script(Type input) {
    b.g->SetType(b.x, std::move(input));
    training = b.g->AddInput("training", Type::Bool());
    b.WithLoops();
  }

  ValueId Weight(std::vector<int64_t> sizes) {
    return b.g->AddInput("w" + std::to_string(weights_++), Floats(std::move(sizes)));
  }
  ValueId None() { return b.Constant(std::monostate()); }
  ValueId Ints(std::vector<int64_t> of) {
    Values v;
    for (int64_t i : of) v.push_back(b.Constant(i));
    return b.Op("prim::ListConstruct", v, Type::List(Type::Int()));
  }
  // if cond: then(); else: nothing.
  template <typename F>
  void When(ValueId cond, const F& then) {
    const NodeId n = b.g->Append(b.block, OpName::Get("prim::If"), {cond}, {});
    const BlockId outer = b.block;
    b.block = b.g->AddBlock(n);
    then();
    b.block = b.g->AddBlock(n);
    b.block = outer;
  }
  template <typename F, typename G>
  ValueId Either(ValueId cond, Type type, const F& then, const G& otherwise) {
    const ValueId saved = std::exchange(b.c, cond);
    const ValueId v = b.If({std::move(type)}, [&](int k) { return Values{k == 0 ? then() : otherwise()}; })[0];
    b.c = saved;
    return v;
  }
  void Raise(const char* what) {
    const NodeId c =
        b.g->Append(b.block, OpName::Get("prim::Constant"), {}, {Type::String()}, {{"value", std::string(what)}});
    const NodeId none = b.g->Append(b.block, OpName::Get("prim::Constant"), {}, {Type::None()});
    b.Do("prim::RaiseException", {b.g->node(c).outputs[0], b.g->node(none).outputs[0]});
  }

  // torch.nn.functional.dropout, which checks its probability first.
  ValueId Dropout(ValueId v) {
    const ValueId p = b.Constant(0.1), low = b.Op("aten::lt.float", {p, b.Constant(0.0)}, Type::Bool());
    const ValueId bad = Either(
        low, Type::Bool(), [&] { return b.Constant(true); },
        [&] { return b.Op("aten::gt.float", {p, b.Constant(1.0)}, Type::Bool()); });
    When(bad, [&] { Raise("dropout probability has to be between 0 and 1"); });
    return b.Op("aten::dropout", {v, p, training});
  }

  ValueId Conv(ValueId v, int64_t in, int64_t out, int64_t kernel, int64_t stride, bool norm) {
    const ValueId weight = Weight({out, in, kernel, kernel});
    const ValueId bias = norm ? None() : Weight({out});
    const ValueId reflect = b.Constant(false);
    const auto conv = [&](ValueId x) {
      return b.Op("aten::conv2d", {x, weight, bias, Ints({stride, stride}), Ints({kernel / 2, kernel / 2}),
                                   Ints({1, 1}), b.Constant(int64_t{1})});
    };
    v = Either(reflect, Type::Tensor(), [&] { return conv(b.Op("aten::detach", {v})); }, [&] { return conv(v); });
    if (!norm) return v;
    const ValueId scale = Weight({out}), shift = Weight({out}), mean = Weight({out}), variance = Weight({out});
    const ValueId tracked = Weight({});
    // torch.nn.BatchNorm2d.forward and torch.nn.functional.batch_norm.
    When(training, [&] { b.AddInPlace(tracked, tracked); });
    const ValueId by_batch =
        Either(training, Type::Bool(), [&] { return b.Constant(true); }, [&] { return b.Constant(false); });
    When(by_batch, [&] {
      const ValueId sizes = b.Op("aten::size", {v}, Type::List(Type::Int()));
      const ValueId first = b.Op("aten::__getitem__.t", {sizes, b.Constant(int64_t{0})}, Type::Int());
      const ValueId length = b.Op("aten::len.t", {sizes}, Type::Int());
      const ValueId rest = b.Op("aten::sub.int", {length, b.Constant(int64_t{2})}, Type::Int());
      const ValueId trips = std::exchange(b.trips, rest);
      const ValueId product = b.Loop({first}, [&](absl::Span<const ValueId> p) {
        const ValueId at = b.g->params(b.block)[0];
        const ValueId next = b.Op("aten::add.int", {at, b.Constant(int64_t{2})}, Type::Int());
        return Values{
            b.Op("aten::mul.int", {p[0], b.Op("aten::__getitem__.t", {sizes, next}, Type::Int())}, Type::Int())};
      })[0];
      b.trips = trips;
      When(b.Op("aten::eq.int", {product, b.Constant(int64_t{1})}, Type::Bool()),
           [&] { Raise("expected more than 1 value per channel when training"); });
    });
    v = b.Op("aten::batch_norm",
             {v, scale, shift, mean, variance, by_batch, b.Constant(0.1), b.Constant(1e-5), b.Constant(true)});
    const ValueId inplace = b.Constant(true), slope = b.Constant(0.1);
    return Either(
        inplace, Type::Tensor(), [&] { return b.Op("aten::leaky_relu_", {v, slope}); },
        [&] { return b.Op("aten::leaky_relu", {v, slope}); });
  }

  ValueId Linear(ValueId v, int64_t in, int64_t out) {
    return b.Op("aten::linear", {v, Weight({out, in}), Weight({out})});
  }
  ValueId Norm(ValueId v, int64_t width) {
    return b.Op("aten::layer_norm",
                {v, Ints({width}), Weight({width}), Weight({width}), b.Constant(1e-5), b.Constant(true)});
  }

  Builder b;
  ValueId training;

 private:
  int weights_ = 0;
};

}  // namespace

std::unique_ptr<Graph> MakeScriptedDetector(int64_t scale) {
  Script s(Floats({1, 3, 64, 64}));
  Builder& b = s.b;
  ValueId v = s.Conv(b.x, 3, 8, 3, 1, true);
  int64_t width = 8;
  Values routes;
  for (int64_t repeat : {1, 2, 8, 8, 4}) {
    const int64_t next = std::min<int64_t>(2 * width, 32);
    v = s.Conv(v, width, next, 3, 2, true);
    width = next;
    for (int64_t i = 0; i < repeat * scale; ++i) {
      ValueId t = s.Conv(s.Conv(v, width, width / 2, 1, 1, true), width / 2, width, 3, 1, true);
      v = b.AddInPlace(t, v);
    }
    routes.push_back(v);
  }
  Values heads;
  for (int head = 0; head < 3; ++head) {
    if (head > 0) {
      v = s.Conv(v, width, width, 1, 1, true);
      v = b.Op(
          "aten::upsample_nearest2d.vec",
          {v, s.None(), b.Op("prim::ListConstruct", {b.Constant(2.0), b.Constant(2.0)}, Type::List(Type::Float()))});
      v = b.Op("aten::cat", {b.List({v, routes[4 - head]}), b.one});
      v = s.Conv(v, 2 * width, width, 1, 1, true);
    }
    for (int64_t i = 0; i < 5 * scale; ++i) v = s.Conv(v, width, width, 3, 1, true);
    heads.push_back(s.Conv(v, width, 24, 1, 1, false));
  }
  for (ValueId h : heads) {
    const ValueId parts = b.Op("aten::chunk", {h, b.Constant(int64_t{3}), b.one}, Type::List(Type::Tensor()));
    for (int64_t k = 0; k < 3; ++k) {
      const ValueId piece = b.GetItem(parts, b.Constant(k));
      for (int64_t i = 0; i < 4; ++i) {
        const ValueId row = b.Op("aten::select.int", {piece, b.one, b.Constant(i)});
        b.AddInPlace(b.Op(i < 2 ? "aten::sigmoid_" : "aten::exp_", {row}), b.Constant(0.5));
      }
    }
  }
  for (ValueId h : heads) b.g->AddOutput(h);
  return std::move(b.g);
}

std::unique_ptr<Graph> MakeScriptedTransformer(int64_t scale) {
  constexpr int64_t kLength = 8, kWidth = 32, kHeads = 4, kCache = 16;
  Script s(Floats({1, kLength, kWidth}));
  Builder& b = s.b;
  ValueId v = b.x;
  for (int64_t layer = 0; layer < 12 * scale; ++layer) {
    const ValueId keys = b.g->AddInput("k" + std::to_string(layer), Floats({1, kHeads, kCache, kWidth / kHeads}));
    const ValueId values = b.g->AddInput("v" + std::to_string(layer), Floats({1, kHeads, kCache, kWidth / kHeads}));
    const ValueId in = s.Norm(v, kWidth);
    const auto heads = [&](ValueId x) {
      x = b.Op("aten::view", {s.Linear(x, kWidth, kWidth), s.Ints({1, kLength, kHeads, kWidth / kHeads})});
      return b.Op("aten::transpose.int", {x, b.Constant(int64_t{1}), b.Constant(int64_t{2})});
    };
    const ValueId q = heads(in);
    // The caches are written at the positions of the new keys and values.
    for (ValueId cache : {keys, values}) {
      const ValueId place = b.Op("aten::slice.Tensor", {cache, b.Constant(int64_t{2}), b.Constant(int64_t{0}),
                                                        b.Constant(kLength), b.Constant(int64_t{1})});
      b.Op("aten::copy_", {place, heads(in), b.Constant(false)});
    }
    const ValueId turned = b.Op("aten::transpose.int", {keys, b.Constant(int64_t{-2}), b.Constant(int64_t{-1})});
    ValueId scores = b.Op("aten::matmul", {q, turned});
    scores = b.Op("aten::div_.Scalar", {scores, b.Constant(2.828)});
    scores = s.Dropout(b.Op("aten::softmax.int", {scores, b.Constant(int64_t{-1}), s.None()}));
    ValueId out = b.Op("aten::transpose.int",
                       {b.Op("aten::matmul", {scores, values}), b.Constant(int64_t{1}), b.Constant(int64_t{2})});
    out = b.Op("aten::view", {b.Op("aten::contiguous", {out, b.Constant(int64_t{0})}), s.Ints({1, kLength, kWidth})});
    v = b.AddInPlace(s.Dropout(s.Linear(out, kWidth, kWidth)), v);
    ValueId inner = s.Linear(s.Norm(v, kWidth), kWidth, 2 * kWidth);
    inner = s.Dropout(b.Op("aten::relu_", {inner}));
    v = b.AddInPlace(s.Dropout(s.Linear(inner, 2 * kWidth, kWidth)), v);
  }
  return b.Return(v);
}

}  // namespace smelt

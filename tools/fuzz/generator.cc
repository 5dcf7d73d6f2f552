#include "smelt/tools/fuzz/generator.h"

#include <algorithm>

#include "smelt/core/base/check.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/schema.h"
#include "smelt/tools/fuzz/generator_parts.h"

namespace smelt {
namespace fuzz_internal {

Sample Generator::Make() {
  sample_.graph = std::make_unique<Graph>();
  block_ = g().top();
  MakeInputs();
  left_ = 2 + Below(options_.max_nodes - 1);
  while (left_ > 0) Node(0);
  MakeOutputs();
  RemoveUnused(g().top());
  MakeStorages();
  return std::move(sample_);
}

int64_t Generator::Size(const Expr& e) {
  auto v = e.Evaluate(symbol_values_);
  return v.ok() ? *v : 0;
}

std::vector<int64_t> Generator::All(const std::vector<Expr>& exprs) {
  std::vector<int64_t> out;
  for (const Expr& e : exprs) out.push_back(Size(e));
  return out;
}

bool Generator::Known(const Var& v) {
  const TensorType& t = TypeOf(v);
  auto constant = [](const Expr& e) { return e.IsConstant(); };
  return std::all_of(t.sizes->begin(), t.sizes->end(), constant) &&
         std::all_of(t.strides->begin(), t.strides->end(), constant);
}

int64_t Generator::Product(const std::vector<int64_t>& v) {
  return std::accumulate(v.begin(), v.end(), int64_t{1}, std::multiplies<int64_t>());
}

ValueId Generator::TensorList(const std::vector<ValueId>& elements) {
  const NodeId n = g().Append(block_, OpName::Get("prim::ListConstruct"), elements, {Type::List(Type::Tensor())});
  return g().node(n).outputs[0];
}

std::optional<std::vector<ValueId>> Generator::Try(absl::string_view name, std::vector<ValueId> inputs) {
  const OpName op = OpName::Get(name);
  const FunctionSchema* schema = FindSchema(op);
  SMELT_CHECK(schema != nullptr) << name;
  for (size_t i = inputs.size(); i < schema->arguments.size(); ++i) {
    const Argument& a = schema->arguments[i];
    if (!a.default_value) return std::nullopt;
    inputs.push_back(Constant(*a.default_value));
  }
  std::vector<Type> types;
  for (const Argument& r : schema->returns) types.push_back(r.type);
  const NodeId n = g().Append(block_, op, inputs, types);
  bool ok = InferNode(g(), n).ok();
  for (ValueId v : g().node(n).outputs) {
    const Type& t = g().value(v).type;
    if (ok && t.IsTensor()) ok = t.tensor().IsComplete() && Product(All(*t.tensor().sizes)) <= 200;
  }
  if (!ok) {
    g().Erase(n);
    return std::nullopt;
  }
  return std::vector<ValueId>(g().node(n).outputs.begin(), g().node(n).outputs.end());
}

bool Generator::View(absl::string_view op, const Var& x, std::vector<ValueId> inputs) {
  inputs.insert(inputs.begin(), x.value);
  auto out = Try(op, std::move(inputs));
  if (out) AddVar((*out)[0], x.argument);
  return out.has_value();
}

bool Generator::Pure(absl::string_view op, std::vector<ValueId> inputs) {
  auto out = Try(op, std::move(inputs));
  if (out && g().value((*out)[0]).type.IsTensor()) AddVar((*out)[0]);
  return out.has_value();
}

bool Generator::InPlace(absl::string_view op, const Var& x, std::vector<ValueId> inputs) {
  inputs.insert(inputs.begin(), x.value);
  auto out = Try(op, std::move(inputs));
  if (out && !out->empty() && Chance(40)) AddName((*out)[0], x);
  return out.has_value();
}

bool Generator::Out(absl::string_view op, const Var& x, std::vector<ValueId> inputs) {
  inputs.push_back(x.value);
  const std::vector<Expr> sizes = *TypeOf(x).sizes;
  auto out = Try(op, std::move(inputs));
  if (!out || *g().value((*out)[0]).type.tensor().sizes == sizes) return out.has_value();
  // It would be resized, and PyTorch warns about that.
  g().Erase(g().value((*out)[0]).def);
  return false;
}

Var Generator::Pick() {
  const int64_t n = static_cast<int64_t>(vars_.size());
  return vars_[Chance(50) ? Below(n) : n - 1 - Below(std::min<int64_t>(n, 4))];
}

std::optional<Var> Generator::Operand(const Var& x, bool same_dtype) {
  std::vector<Var> fit;
  const std::vector<Expr>& to = *TypeOf(x).sizes;
  for (const Var& v : vars_) {
    const std::vector<Expr>& from = *TypeOf(v).sizes;
    if (from.size() > to.size()) continue;
    if (same_dtype ? DTypeOf(v) != DTypeOf(x) : PromoteTypes(DTypeOf(v), DTypeOf(x)) != DTypeOf(x)) continue;
    bool ok = true;
    for (size_t d = 0; d < from.size(); ++d) {
      const Expr& e = from[from.size() - 1 - d];
      ok = ok && (e == Expr(1) || e == to[to.size() - 1 - d]);
    }
    if (ok) fit.push_back(v);
  }
  if (fit.empty()) return std::nullopt;
  return AnyOf(fit);
}

int64_t Generator::Dim(const Var& x) {
  const int rank = Rank(x);
  const int64_t d = Below(std::max(rank, 1));
  return Chance(20) ? d - rank : d;
}

int64_t Generator::DimSize(const Var& x, int64_t dim) {
  if (Rank(x) == 0) return 1;
  // For a symbol, the least value.
  return (*TypeOf(x).sizes)[dim < 0 ? dim + Rank(x) : dim].Constant().value_or(2);
}

void Generator::Node(int depth) {
  --left_;
  if (options_.more_operators && Chance(50)) return MakeMore();
  const int what = Below(100);
  if (what < 34) {
    MakeView();
  } else if (what < 66) {
    MakeWrite();
  } else if (what < 88) {
    MakePure();
  } else if (what < 91) {
    if (depth == 0) ChangeGeometry();
  } else if (options_.control_flow && depth < 2) {
    const int kind = Below(10);
    if (kind < 4) {
      If(depth);
    } else if (kind < 6) {
      Cond(depth);
    } else if (kind < 9) {
      Loop(depth);
    } else {
      While(depth);
    }
  }
}

void Generator::MakeOutputs() {
  for (int k = Below(4); k > 0 && !vars_.empty(); --k) g().AddOutput(Pick().value);
  for (ValueId v : odd_outputs_) {
    if (g().IsLive(v) && g().node(g().value(v).def).parent == g().top() && Chance(50)) g().AddOutput(v);
  }
}

void Generator::RemoveUnused(BlockId b) {
  std::vector<NodeId> nodes = g().Nodes(b);
  for (auto n = nodes.rbegin(); n != nodes.rend(); ++n) {
    const std::vector<BlockId> blocks(g().node(*n).blocks.begin(), g().node(*n).blocks.end());
    for (BlockId inner : blocks) RemoveUnused(inner);
    const std::string& name = g().node(*n).op.name();
    if (name != "prim::Constant" && name != "prim::ListConstruct") continue;
    if (g().value(g().node(*n).outputs[0]).uses.empty()) g().Erase(*n);
  }
}

}  // namespace fuzz_internal

Sample RandomSample(uint64_t seed, const GeneratorOptions& options) {
  return fuzz_internal::Generator(seed, options).Make();
}

}  // namespace smelt

// Branches and loops.
#include <algorithm>

#include "smelt/core/op/infer.h"
#include "smelt/tools/fuzz/generator_parts.h"

namespace smelt::fuzz_internal {

Generator::Scope Generator::Enter(BlockId b) {
  Scope s{vars_, ints_, bools_, counters_, block_};
  block_ = b;
  ++inside_;
  return s;
}

void Generator::Leave(Scope s) {
  vars_ = std::move(s.vars);
  ints_ = std::move(s.ints);
  bools_ = std::move(s.bools);
  counters_ = std::move(s.counters);
  block_ = s.block;
  --inside_;
}

void Generator::Body(int depth) {
  for (int k = 1 + Below(4); k > 0 && left_ > 0; --k) Node(depth + 1);
}

ValueId Generator::Condition() {
  if (!bools_.empty() && Chance(80)) return AnyOf(bools_);
  const Var x = Pick();
  if (Ordered(x) && Chance(60)) {
    auto sum = Try("aten::sum", {x.value, Int(ScalarTypeOf(DType::kFloat32))});
    auto mask = sum ? Try("aten::gt.Scalar", {(*sum)[0], Int(0)}) : std::nullopt;
    auto bit = mask ? Try("aten::Bool.Tensor", {(*mask)[0]}) : std::nullopt;
    if (bit) return (*bit)[0];
  }
  return Constant(Chance(50));
}

ValueId Generator::Predicate() {
  const Var x = Pick();
  if (Ordered(x)) {
    auto sum = Try("aten::sum", {x.value, Int(ScalarTypeOf(DType::kFloat32))});
    auto mask = sum ? Try("aten::gt.Scalar", {(*sum)[0], Int(0)}) : std::nullopt;
    if (mask) return (*mask)[0];
  }
  return Condition();
}

void Generator::FinishBranches(NodeId n, const std::vector<std::vector<Var>>& vars) {
  std::vector<std::vector<ValueId>> results(2);
  for (int k = Below(3); k > 0; --k) {
    const Var a =
        vars[0][Chance(70) ? vars[0].size() - 1 - Below(std::min<size_t>(vars[0].size(), 3)) : Below(vars[0].size())];
    std::vector<Var> fit;
    for (const Var& b : vars[1]) {
      if (DTypeOf(a) == DTypeOf(b) && *TypeOf(a).sizes == *TypeOf(b).sizes) fit.push_back(b);
    }
    if (fit.empty()) continue;
    results[0].push_back(a.value);
    results[1].push_back(AnyOf(fit).value);
  }
  const std::vector<BlockId> blocks(g().node(n).blocks.begin(), g().node(n).blocks.end());
  for (int b = 0; b < 2; ++b) {
    for (ValueId v : results[b]) g().AddResult(blocks[b], v);
  }
  for (size_t k = 0; k < results[0].size(); ++k) g().AddNodeOutput(n, Type::Tensor());
  Finish(n);
}

void Generator::Finish(NodeId n) {
  if (!InferNode(g(), n).ok()) {
    g().Erase(n);
    return;
  }
  for (Var& v : vars_) v.fixed = true;
  for (ValueId v : g().node(n).outputs) {
    if (!g().value(v).type.IsTensor()) continue;
    if (g().value(v).type.tensor().IsComplete()) {
      AddVar(v);
      vars_.back().fixed = true;
    } else {
      odd_outputs_.push_back(v);
    }
  }
}

void Generator::If(int depth) {
  const NodeId n = g().Append(block_, OpName::Get("prim::If"), {Condition()}, {});
  std::vector<std::vector<Var>> vars;
  for (int b = 0; b < 2; ++b) {
    Scope s = Enter(g().AddBlock(n));
    Body(depth);
    vars.push_back(vars_);
    Leave(std::move(s));
  }
  FinishBranches(n, vars);
}

void Generator::Cond(int depth) {
  std::vector<ValueId> inputs = {Predicate()};
  std::vector<Var> operands;
  for (int k = 1 + Below(3); k > 0; --k) {
    operands.push_back(Pick());
    inputs.push_back(operands.back().value);
  }
  const NodeId n = g().Append(block_, OpName::Get("smelt::cond"), inputs, {});
  std::vector<std::vector<Var>> vars;
  for (int b = 0; b < 2; ++b) {
    Scope s = Enter(g().AddBlock(n));
    vars_.clear();
    ints_.clear();
    bools_.clear();
    counters_.clear();
    for (const Var& o : operands) {
      vars_.push_back({g().AddParam(block_, g().value(o.value).type), o.object, -1, true});
    }
    Body(depth);
    vars.push_back(vars_);
    Leave(std::move(s));
  }
  FinishBranches(n, vars);
}

void Generator::Loop(int depth) {
  const int64_t trips = Below(4);
  ValueId count = Int(trips);
  if (!ints_.empty() && Chance(50)) count = AnyOf(ints_);
  std::vector<Var> inits;
  for (int k = Below(3); k > 0; --k) inits.push_back(Pick());
  std::vector<ValueId> inputs = {count, Constant(true)};
  for (const Var& v : inits) inputs.push_back(v.value);
  const NodeId n = g().Append(block_, OpName::Get("prim::Loop"), inputs, {});
  const BlockId b = g().AddBlock(n);
  const ValueId i = g().AddParam(b, Type::Int());
  std::vector<Var> params;
  for (const Var& v : inits) params.push_back({g().AddParam(b, g().value(v.value).type), next_object_++, -1, true});
  Scope s = Enter(b);
  counters_.push_back(i);
  vars_.insert(vars_.end(), params.begin(), params.end());
  Body(depth);
  std::vector<ValueId> results = {Constant(true)};
  for (const Var& p : params) results.push_back(Next(p).value);
  Leave(std::move(s));
  for (ValueId v : results) g().AddResult(b, v);
  for (size_t k = 0; k < params.size(); ++k) g().AddNodeOutput(n, Type::Tensor());
  Finish(n);
}

Var Generator::Next(const Var& p) {
  std::vector<Var> fit;
  for (const Var& v : vars_) {
    if (g().value(v.value).type == g().value(p.value).type) fit.push_back(v);
  }
  return fit.empty() || Chance(20) ? p : AnyOf(fit);
}

void Generator::While(int depth) {
  auto counter = Try("aten::zeros", {Ints({}), Int(4)});
  if (!counter) return;
  std::vector<Var> inits;
  for (int k = 1 + Below(2); k > 0; --k) inits.push_back(Pick());
  std::vector<ValueId> inputs = {(*counter)[0]};
  for (const Var& v : inits) inputs.push_back(v.value);
  const NodeId n = g().Append(block_, OpName::Get("smelt::while_loop"), inputs, {});
  const BlockId cond = g().AddBlock(n), body = g().AddBlock(n);
  std::vector<ValueId> bound;
  for (BlockId b : {cond, body}) {
    bound.clear();
    for (ValueId v : inputs) bound.push_back(g().AddParam(b, g().value(v).type));
    if (b != cond) continue;
    Scope s = Enter(b);
    auto go = Try("aten::lt.Scalar", {bound[0], Int(Below(3))});
    Leave(std::move(s));
    if (!go) {
      g().Erase(n);
      return;
    }
    g().AddResult(b, (*go)[0]);
  }
  Scope s = Enter(body);
  vars_.clear();
  ints_.clear();
  bools_.clear();
  counters_.clear();
  std::vector<Var> params;
  for (size_t k = 0; k < inits.size(); ++k) params.push_back({bound[k + 1], next_object_++, -1, true});
  vars_ = params;
  auto next = Try("aten::add.Scalar", {bound[0], Int(1), Int(1)});
  Body(depth);
  std::vector<ValueId> results = {next ? (*next)[0] : bound[0]};
  for (const Var& p : params) results.push_back(Next(p).value);
  Leave(std::move(s));
  if (!next) {
    g().Erase(n);
    return;
  }
  for (ValueId v : results) {
    g().AddResult(body, v);
    g().AddNodeOutput(n, Type::Tensor());
  }
  Finish(n);
}

}  // namespace smelt::fuzz_internal

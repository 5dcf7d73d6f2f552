#include "smelt/schema/bundle_signature.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace smelt {
namespace {

using Int128 = __int128;

int64_t Saturated(Int128 v) { return v < INT64_MIN ? INT64_MIN : v > INT64_MAX ? INT64_MAX : static_cast<int64_t>(v); }

class ExprPrinter {
 public:
  explicit ExprPrinter(const fb::BundleT& bundle) : b_(bundle) {}

  // An expression may refer to another twice, and so on: written out, its length doubles with each step.
  void Append(int i, int depth, std::string& out) const {
    if (depth > kDepth || out.size() > kLength) {
      out += "…";
      return;
    }
    if (i < 0 || i >= static_cast<int>(b_.exprs.size())) {
      out += "?";
      return;
    }
    const fb::ExprNode& e = b_.exprs[i];
    const auto both = [&](const char* op) {
      out += "(";
      Append(e.a(), depth + 1, out);
      absl::StrAppend(&out, " ", op, " ");
      Append(e.b(), depth + 1, out);
      out += ")";
    };
    const auto call = [&](const char* f, std::initializer_list<int> operands) {
      absl::StrAppend(&out, f, "(");
      for (const int* o = operands.begin(); o != operands.end(); ++o) {
        if (o != operands.begin()) out += ", ";
        Append(*o, depth + 1, out);
      }
      out += ")";
    };
    switch (e.op()) {
      case fb::ExprOp::Constant:
        absl::StrAppend(&out, e.constant());
        return;
      case fb::ExprOp::Symbol:
        out += e.a() >= 0 && e.a() < static_cast<int>(b_.symbols.size()) ? b_.symbols[e.a()]->name : "?";
        return;
      case fb::ExprOp::Add:
        return both("+");
      case fb::ExprOp::Sub:
        return both("-");
      case fb::ExprOp::Mul:
        return both("*");
      case fb::ExprOp::FloorDiv:
        return call("floordiv", {e.a(), e.b()});
      case fb::ExprOp::Mod:
        return call("mod", {e.a(), e.b()});
      case fb::ExprOp::Min:
        return call("min", {e.a(), e.b()});
      case fb::ExprOp::Max:
        return call("max", {e.a(), e.b()});
      case fb::ExprOp::Eq:
        return both("==");
      case fb::ExprOp::Lt:
        return both("<");
      case fb::ExprOp::Le:
        return both("<=");
      case fb::ExprOp::And:
        return both("and");
      case fb::ExprOp::Or:
        return both("or");
      case fb::ExprOp::Not:
        out += "not ";
        return Append(e.a(), depth + 1, out);
      case fb::ExprOp::Select:
        return call("select", {e.a(), e.b(), e.c()});
    }
    out += "?";
  }

 private:
  static constexpr int kDepth = 100;
  static constexpr size_t kLength = 4096;
  const fb::BundleT& b_;
};

Int128 FloorOf(Int128 a, Int128 b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }

ValueRange RangeOfNode(const fb::BundleT& b, const fb::ExprNode& e, const std::vector<ValueRange>& known) {
  using Op = fb::ExprOp;
  constexpr ValueRange kAny = {INT64_MIN, INT64_MAX};
  if (e.op() == Op::Constant) return {e.constant(), e.constant()};
  if (e.op() == Op::Symbol) return {b.symbols[e.a()]->min, b.symbols[e.a()]->max};
  const ValueRange x = known[e.a()], y = e.op() == Op::Not ? ValueRange() : known[e.b()];
  const auto hull = [](std::initializer_list<Int128> values) {
    return ValueRange{Saturated(std::min(values)), Saturated(std::max(values))};
  };
  switch (e.op()) {
    case Op::Add:
      return {Saturated(Int128{x.min} + y.min), Saturated(Int128{x.max} + y.max)};
    case Op::Sub:
      return {Saturated(Int128{x.min} - y.max), Saturated(Int128{x.max} - y.min)};
    case Op::Mul:
      return hull({Int128{x.min} * y.min, Int128{x.min} * y.max, Int128{x.max} * y.min, Int128{x.max} * y.max});
    case Op::FloorDiv:
      if (y.min <= 0) return kAny;
      return hull({FloorOf(x.min, y.min), FloorOf(x.min, y.max), FloorOf(x.max, y.min), FloorOf(x.max, y.max)});
    case Op::Mod:
      if (y.min <= 0) return kAny;
      return x.min >= 0 && x.max < y.min ? x : ValueRange{0, y.max - 1};
    case Op::Min:
      return {std::min(x.min, y.min), std::min(x.max, y.max)};
    case Op::Max:
      return {std::max(x.min, y.min), std::max(x.max, y.max)};
    case Op::Select:
      return {std::min(y.min, known[e.c()].min), std::max(y.max, known[e.c()].max)};
    default:
      return {0, 1};
  }
}

// The argument's number before duplicates were dropped: the first of those.
int OuterArgument(const fb::PlanT& plan, int inner) {
  if (plan.convention->duplicates == nullptr) return inner;
  const std::vector<int>& map = plan.convention->duplicates->inner_of_outer;
  if (map.empty()) return inner;
  return static_cast<int>(std::find(map.begin(), map.end(), inner) - map.begin());
}
int InnerArgument(const fb::PlanT& plan, int outer) {
  if (plan.convention->duplicates == nullptr || plan.convention->duplicates->inner_of_outer.empty()) return outer;
  return plan.convention->duplicates->inner_of_outer[outer];
}

// The flags of fb::MutationKind of what a program's instructions do to handles and memory, whoever's they are.
uint8_t HandleChanges(const fb::EagerProgramT& program) {
  uint8_t flags = 0;
  for (const auto& block : program.blocks) {
    for (const auto& i : block->instrs) {
      const bool resizes = i->kind == fb::EagerKind::Resize || i->grows;
      if (i->kind == fb::EagerKind::ViewInPlace || resizes) flags |= static_cast<uint8_t>(fb::MutationKind::Geometry);
      if (i->kind == fb::EagerKind::Set) {
        flags |= static_cast<uint8_t>(fb::MutationKind::Geometry) | static_cast<uint8_t>(fb::MutationKind::Storage);
      }
      if (resizes) flags |= static_cast<uint8_t>(fb::MutationKind::Resized);
    }
  }
  return flags;
}

class ResultTyper {
 public:
  ResultTyper(const fb::BundleT& bundle, const fb::PlanT& plan) : b_(bundle), plan_(plan) {
    if (!plan.convention->mutated) return;
    for (const auto& m : plan.convention->mutated->inputs)
      final_views_.try_emplace({m->is_state, m->arg}, m->final_view);
  }

  ResultType Of(const fb::OutputRefT& o) const {
    using Place = ResultType::Place;
    ResultType r;
    int view = o.view;
    switch (o.kind) {
      case fb::OutputKind::IsArg: {
        const fb::ArgDefT& a = *b_.args[o.index];
        view = FinalView(false, InnerArgument(plan_, o.index));
        r.kind = a.kind;
        r.place = Place::kIsArgument;
        r.index = o.index;
        if (view < 0 && a.kind == fb::ArgKind::Tensor) SetType(r, a.dtype, a.sizes);
        break;
      }
      case fb::OutputKind::IsState: {
        const fb::StateTensorT& s = *b_.states[o.index];
        view = FinalView(true, o.index);
        r.place = Place::kIsState;
        r.index = o.index;
        if (view < 0) {
          SetType(r, s.dtype, {});
          for (int64_t n : s.sizes) r.sizes.push_back({-1, n});
        }
        break;
      }
      case fb::OutputKind::Scalar:
      case fb::OutputKind::None:
        r.kind = o.kind == fb::OutputKind::None ? fb::ArgKind::None : o.scalar_kind;
        r.place = Place::kNoTensor;
        break;
      case fb::OutputKind::AliasOfArg:
      case fb::OutputKind::AliasOfState:
      case fb::OutputKind::AliasOfIntermediate:
      case fb::OutputKind::Fresh:
        r.place = o.kind == fb::OutputKind::Fresh ? Place::kFresh : Place::kShared;
        if (view >= 0) SetMemory(r, view);
        break;
    }
    if (view >= 0) SetType(r, plan_.views[view]->dtype, plan_.views[view]->sizes);
    return r;
  }

 private:
  int FinalView(bool is_state, int index) const {
    const auto found = final_views_.find({is_state, index});
    return found == final_views_.end() ? -1 : found->second;
  }
  void SetMemory(ResultType& r, int view) const {
    const fb::SlotT& slot = *plan_.slots[plan_.views[view]->slot];
    if (slot.kind == fb::SlotKind::ArgStorage) {
      r.place = ResultType::Place::kInArgument;
      r.index = OuterArgument(plan_, slot.index);
    } else if (slot.kind == fb::SlotKind::StateStorage) {
      r.place = ResultType::Place::kInState;
      for (size_t s = b_.states.size(); s-- > 0;) {
        if (b_.states[s]->storage == slot.index) r.index = static_cast<int>(s);
      }
    }
  }
  static void SetType(ResultType& r, int dtype, const std::vector<int>& sizes) {
    r.kind = fb::ArgKind::Tensor;
    r.dtype = dtype;
    r.has_sizes = true;
    r.sizes.clear();
    for (int e : sizes) r.sizes.push_back({e, 0});
  }

  const fb::BundleT& b_;
  const fb::PlanT& plan_;
  std::map<std::pair<bool, int>, int> final_views_;  // what an argument or state is after the call
};

}  // namespace

Structure StructureOf(const std::vector<std::unique_ptr<fb::StructureNodeT>>& nodes) {
  Structure out;
  for (const auto& n : nodes) {
    out.push_back({static_cast<StructureNode::Kind>(n->kind), static_cast<StructureNode::Key>(n->key_kind), n->key,
                   n->by_name, n->type, n->children});
  }
  return out;
}

std::vector<std::unique_ptr<fb::StructureNodeT>> StructureTables(const Structure& structure) {
  std::vector<std::unique_ptr<fb::StructureNodeT>> out;
  for (const StructureNode& n : structure) {
    auto table = std::make_unique<fb::StructureNodeT>();
    table->kind = static_cast<fb::StructureKind>(n.kind);
    table->key_kind = static_cast<fb::StructureKey>(n.key_kind);
    table->key = n.key;
    table->by_name = n.by_name;
    table->type = n.type;
    table->children = n.children;
    out.push_back(std::move(table));
  }
  return out;
}

std::string ExprText(const fb::BundleT& bundle, int expr) {
  std::string out;
  ExprPrinter(bundle).Append(expr, 0, out);
  return out;
}

std::vector<ValueRange> RangesOfExprs(const fb::BundleT& bundle) {
  std::vector<ValueRange> out;
  out.reserve(bundle.exprs.size());
  for (const fb::ExprNode& e : bundle.exprs) out.push_back(RangeOfNode(bundle, e, out));
  return out;
}

std::vector<ResultType> ResultTypes(const fb::BundleT& bundle) {
  const size_t count = bundle.outputs.size();
  std::vector<ResultType> out;
  for (const auto& p : bundle.plans) {
    if (p->eager != nullptr || !p->convention->outputs || p->convention->outputs->outputs.size() != count) continue;
    const ResultTyper typer(bundle, *p);
    for (const auto& o : p->convention->outputs->outputs) out.push_back(typer.Of(*o));
    return out;
  }
  // The program runs in eager order alone. What the graph declares is right unless a tensor's geometry changes.
  const bool changes = std::any_of(bundle.plans.begin(), bundle.plans.end(),
                                   [](const auto& p) { return p->eager != nullptr && HandleChanges(*p->eager) != 0; });
  for (const auto& o : bundle.outputs) {
    ResultType& r = out.emplace_back();
    r.kind = o->kind;
    if (r.kind != fb::ArgKind::Tensor) r.place = ResultType::Place::kNoTensor;
    if (r.kind != fb::ArgKind::Tensor || changes || !o->has_type) continue;
    r.dtype = o->dtype;
    r.has_sizes = true;
    for (int e : o->sizes) r.sizes.push_back({e, -1});
  }
  return out;
}

std::vector<uint8_t> EffectsOnArguments(const fb::BundleT& bundle) {
  std::vector<uint8_t> out(bundle.args.size(), 0);
  for (const auto& p : bundle.plans) {
    // Where arguments share memory, one is written because another is.
    if (p->variant == fb::VariantKind::Duplicate || p->variant == fb::VariantKind::Overlap) continue;
    std::map<int, uint8_t> flags;  // by inner argument
    if (p->convention->mutated) {
      for (const auto& m : p->convention->mutated->inputs) {
        if (!m->is_state) flags[m->arg] |= m->flags;
      }
    }
    for (size_t a = 0; a < out.size(); ++a) {
      const auto found = flags.find(InnerArgument(*p, static_cast<int>(a)));
      if (found != flags.end()) out[a] |= found->second;
    }
    uint8_t written = static_cast<uint8_t>(fb::MutationKind::Data);
    if (p->eager != nullptr) written |= HandleChanges(*p->eager);
    for (int a : p->written_args) {
      if (!flags.contains(InnerArgument(*p, a))) out[a] |= written;
    }
  }
  return out;
}

std::vector<bool> StatesThatMayMove(const fb::BundleT& bundle) {
  constexpr uint8_t kResized = static_cast<uint8_t>(fb::MutationKind::Resized);
  std::vector<bool> storages(bundle.storages.size(), false), out;
  std::vector<const fb::PlanT*> plans;
  for (const auto& p : bundle.plans) plans.push_back(p.get());
  for (const auto& m : bundle.methods) {
    for (const auto& p : m->plans) plans.push_back(p.get());
  }
  for (const fb::PlanT* p : plans) {
    if (p->convention->mutated) {
      for (const auto& m : p->convention->mutated->inputs) {
        if (m->is_state && (m->flags & kResized)) storages[bundle.states[m->arg]->storage] = true;
      }
    }
    if (p->eager == nullptr) continue;
    for (int s : p->eager->resized_states) storages[bundle.states[s]->storage] = true;
    if (!(HandleChanges(*p->eager) & kResized)) continue;
    for (int s : p->written_states) storages[s] = true;
  }
  for (const auto& s : bundle.states) out.push_back(storages[s->storage]);
  return out;
}

}  // namespace smelt

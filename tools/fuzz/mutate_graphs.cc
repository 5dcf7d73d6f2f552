#include "smelt/tools/fuzz/mutate_graphs.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "smelt/core/ir/text.h"
#include "smelt/core/op/schema.h"
#include "smelt/tools/fuzz/mutation.h"

namespace smelt {
namespace {

using Random = std::mt19937_64;

const Type& Inner(const Type& t) { return t.kind() == TypeKind::kOptional ? t.element() : t; }

// Tensors and lists of them are told from all else, of which constants give an operator what it asks for.
std::string KindsOf(const FunctionSchema& schema) {
  std::string kinds;
  for (const Argument& a : schema.arguments) {
    const Type& t = Inner(a.type);
    const bool list = t.kind() == TypeKind::kList;
    absl::StrAppend(&kinds, Inner(list ? t.element() : t).IsTensor() ? "t" : "n", list ? "[]" : "");
  }
  return kinds;
}

}  // namespace

class GraphMutator::Change {
  uint32_t Below(size_t n) { return static_cast<uint32_t>(smelt::Below(random_, n)); }
  template <typename T>
  auto& Any(T& list) {
    return AnyOf(random_, list);
  }

 public:
  Change(const GraphMutator& all, Graph& g, Random& random) : all_(all), g_(g), random_(random) {}

  std::string Step() {
    std::vector<NodeId> nodes;
    for (NodeId n : g_.AllNodes()) {
      if (g_.node(n).op.name() != "prim::Constant" && g_.node(n).blocks.empty()) nodes.push_back(n);
    }
    if (nodes.empty()) return "";
    const NodeId n = Any(nodes);
    const std::string name = g_.node(n).op.full();
    switch (random_() % 10) {
      case 0:
        return absl::StrCat("argument of ", name, ReplaceInput(n));
      case 1: {
        if (g_.node(n).inputs.size() < 2) return "";
        const uint32_t a = Below(g_.node(n).inputs.size()), b = Below(g_.node(n).inputs.size());
        const ValueId x = g_.node(n).inputs[a], y = g_.node(n).inputs[b];
        g_.SetInput(n, a, y);
        g_.SetInput(n, b, x);
        return absl::StrCat("arguments of ", name, " swapped");
      }
      case 2:
      case 3:
        return ChangeConstant(n);
      case 4: {
        const FunctionSchema* schema = FindSchema(g_.node(n).op);
        if (schema == nullptr || schema->is_vararg) return "";
        const auto like = all_.by_kinds_.find(KindsOf(*schema));
        if (like == all_.by_kinds_.end()) return "";
        const OpName op = Any(like->second);
        if (FindSchema(op)->returns.size() != g_.node(n).outputs.size()) return "";
        g_.SetOp(n, op);
        return absl::StrCat(name, " is ", op.full());
      }
      case 5:
      case 6:
        return ChangeInput();
      case 7: {
        const std::vector<ValueId> outputs(g_.node(n).outputs.begin(), g_.node(n).outputs.end());
        for (ValueId v : outputs) {
          const ValueId other = Before(n, g_.value(v).type);
          if (!g_.value(v).uses.empty() && !other.valid()) return "";
          if (other.valid()) g_.ReplaceAllUses(v, other);
        }
        g_.Erase(n);
        return absl::StrCat("without ", name);
      }
      case 8:
        Copy(g_, n, NodeId(n));
        return absl::StrCat(name, " twice");
      default: {
        const Graph& other = *Any(all_.graphs_);
        const std::vector<NodeId> from = other.AllNodes();
        if (from.empty()) return "";
        const NodeId of = Any(from);
        if (!other.node(of).blocks.empty()) return "";
        Copy(other, of, n);
        return absl::StrCat(other.node(of).op.full(), " of another graph before ", name);
      }
    }
  }

  // Leaves the types of all that is computed to inference.
  void ForgetTypes() {
    for (NodeId n : g_.AllNodes()) {
      if (g_.node(n).op.name() == "prim::Constant" || !g_.node(n).blocks.empty()) continue;
      for (ValueId v : std::vector<ValueId>(g_.node(n).outputs.begin(), g_.node(n).outputs.end())) {
        if (g_.value(v).type.IsTensor()) g_.SetType(v, Type::Tensor());
      }
    }
  }

 private:
  // Some value of the same kind that is known before the node; invalid if there is none.
  ValueId Before(NodeId n, const Type& type) {
    std::vector<ValueId> values;
    const auto add = [&](absl::Span<const ValueId> of) {
      for (ValueId v : of) {
        if (g_.value(v).type.kind() == type.kind()) values.push_back(v);
      }
    };
    add(g_.inputs());
    for (NodeId before : g_.Nodes(g_.node(n).parent)) {
      if (before == n) break;
      add(g_.node(before).outputs);
    }
    return values.empty() ? ValueId() : Any(values);
  }

  std::string ReplaceInput(NodeId n) {
    if (g_.node(n).inputs.empty()) return " stays";
    const uint32_t k = Below(g_.node(n).inputs.size());
    const ValueId v = Before(n, g_.value(g_.node(n).inputs[k]).type);
    if (!v.valid()) return " stays";
    g_.SetInput(n, k, v);
    return absl::StrCat(" ", k, " is %", g_.value(v).name);
  }

  std::string ChangeConstant(NodeId n) {
    std::vector<uint32_t> at;
    for (uint32_t k = 0; k < g_.node(n).inputs.size(); ++k) {
      if (GetConstant(g_, g_.node(n).inputs[k])) at.push_back(k);
    }
    if (at.empty()) return "";
    const uint32_t k = Any(at);
    ConstantValue c = *GetConstant(g_, g_.node(n).inputs[k]);
    static const double kFloats[] = {0.0, -1.0, 1e308, INFINITY, std::numeric_limits<double>::quiet_NaN(), 0.5, 2.0};
    if (std::holds_alternative<int64_t>(c)) {
      c = SomeNumber(random_);
    } else if (std::holds_alternative<double>(c)) {
      c = Any(kFloats);
    } else if (auto* flag = std::get_if<bool>(&c)) {
      *flag = !*flag;
    } else if (auto* list = std::get_if<std::vector<int64_t>>(&c)) {
      const uint32_t what = Below(4);
      if (what == 0) {
        list->push_back(SomeNumber(random_));
      } else if (!list->empty() && what == 1) {
        list->pop_back();
      } else if (!list->empty()) {
        Any(*list) = SomeNumber(random_);
      }
    } else if (std::holds_alternative<std::monostate>(c)) {
      static const ConstantValue kInstead[] = {int64_t{1}, 0.5, true, std::vector<int64_t>{1}, std::string("mean")};
      c = Any(kInstead);
    } else {
      return "";
    }
    g_.SetInput(n, k, InsertConstant(g_, n, c));
    return absl::StrCat("argument ", k, " of ", g_.node(n).op.full(), " is another constant");
  }

  std::string ChangeInput() {
    if (g_.inputs().empty()) return "";
    const uint32_t k = Below(g_.inputs().size());
    const ValueId v = g_.inputs()[k];
    if (!g_.value(v).type.IsTensor() || !g_.value(v).type.tensor().IsComplete()) return "";
    TensorType t = g_.value(v).type.tensor();
    std::vector<Expr> sizes = *t.sizes, strides = *t.strides;
    static const int64_t kSizes[] = {0, 1, 2, 3, 7, 64, 1000, int64_t{1} << 31, int64_t{1} << 40};
    bool dense = true;
    switch (Below(7)) {
      case 0:
        t.dtype = static_cast<DType>(Below(kNumDTypes));
        dense = false;
        break;
      case 1:
        sizes.push_back(Any(kSizes));
        break;
      case 2:
        if (!sizes.empty()) sizes.erase(sizes.begin() + Below(sizes.size()));
        break;
      case 3:
        if (!strides.empty()) Any(strides) = Expr(0);
        dense = false;
        break;
      case 4:
        std::reverse(sizes.begin(), sizes.end());
        std::reverse(strides.begin(), strides.end());
        dense = false;
        break;
      case 5:
        sizes.clear();
        break;
      default:
        if (!sizes.empty()) Any(sizes) = Any(kSizes);
    }
    g_.SetType(v, dense ? Type::Tensor(*t.dtype, sizes) : Type::Tensor(*t.dtype, sizes, strides));
    return absl::StrCat("input ", k, " is ", g_.value(v).type.ToString());
  }

  // A node of any graph, before `anchor`, with arguments of this one.
  void Copy(const Graph& from, NodeId of, NodeId anchor) {
    std::vector<ValueId> inputs;
    for (ValueId v : from.node(of).inputs) {
      ValueId to = &from == &g_ ? v : ValueId();
      if (!to.valid()) {
        if (const auto c = GetConstant(from, v)) {
          to = InsertConstant(g_, anchor, *c);
        } else {
          to = Before(anchor, from.value(v).type);
        }
      }
      if (!to.valid()) return;
      inputs.push_back(to);
    }
    std::vector<Type> types;
    for (ValueId v : from.node(of).outputs) types.push_back(from.value(v).type);
    const NodeId made = g_.InsertBefore(anchor, from.node(of).op, inputs, types);
    for (const auto& [name, value] : from.node(of).attributes) g_.SetAttribute(made, name, value);
    // Its results are of use.
    for (ValueId v : std::vector<ValueId>(g_.node(made).outputs.begin(), g_.node(made).outputs.end())) {
      if (!g_.value(v).type.IsTensor() || g_.node(anchor).parent != g_.top()) continue;
      g_.AddOutput(v);
    }
  }

  const GraphMutator& all_;
  Graph& g_;
  Random& random_;
};

GraphMutator::GraphMutator(const std::vector<std::string>& texts) {
  ParseOptions options;
  options.resolve_overload = ResolveOverload;
  for (const std::string& text : texts) {
    auto graph = ParseGraph(text, options);
    if (graph.ok() && (*graph)->num_nodes() > 0) graphs_.push_back(*std::move(graph));
  }
  for (const absl::string_view name : AllSchemaNames()) {
    if (!absl::StartsWith(name, "aten::")) continue;
    const OpName op = OpName::Get(name);
    const FunctionSchema& schema = *FindSchema(op);
    if (!schema.is_vararg && !schema.is_varret) by_kinds_[KindsOf(schema)].push_back(op);
  }
}

GraphMutator::~GraphMutator() = default;

HostileFile GraphMutator::Make(uint64_t seed) const {
  Random random(seed);
  const std::unique_ptr<Graph> g = graphs_[random() % graphs_.size()]->Clone();
  Change change(*this, *g, random);
  HostileFile file{g->name, ".ir", ""};
  for (uint64_t left = 1 + random() % 3; left > 0; --left) absl::StrAppend(&file.what, "; ", change.Step());
  change.ForgetTypes();
  file.bytes = PrintGraph(*g);
  return file;
}

}  // namespace smelt

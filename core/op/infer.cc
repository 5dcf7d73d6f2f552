#include "smelt/core/op/infer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "smelt/core/base/check.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/check_arguments.h"
#include "smelt/core/op/decompose.h"
#include "smelt/core/op/infer_rules.h"
#include "smelt/core/op/layout_rule.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/op/tables.h"
#include "smelt/core/tensor/view_rules.h"

namespace smelt {

namespace op_internal {
// Defined in decompose.cc: Decompose, except that the results have the strides of the nodes that compute them.
absl::StatusOr<bool> DecomposeAsItComes(Graph& g, NodeId n);
}  // namespace op_internal

namespace {

using op_internal::Ctx;
using op_internal::Geo;
using op_internal::GeoOf;
using op_internal::InferForeach;
using op_internal::InferPointwise;
using op_internal::InferReduction;
using op_internal::InferView;
using op_internal::Outputs;
using op_internal::PointwiseDTypes;
using op_internal::PromotionOf;
using op_internal::Rule;
using op_internal::RuleTable;
using op_internal::TensorArgument;

const Rule* FindRule(OpName op) {
  static const RuleTable* const kTable = [] {
    auto* table = new RuleTable();
    op_internal::AddFactoryRules(*table);
    op_internal::AddMovementTypeRules(*table);
    op_internal::AddLibraryRules(*table);
    op_internal::AddFourierTypeRules(*table);
    op_internal::AddFactorizationTypeRules(*table);
    op_internal::AddDetectionTypeRules(*table);
    op_internal::AddWeightProductTypeRules(*table);
    op_internal::AddCompositeRules(*table);
    op_internal::AddScalarRules(*table);
    return table;
  }();
  const RuleTable& rules = *kTable;
  if (absl::StartsWith(op.name(), "aten::_foreach_")) {
    static const Rule* const kForeach = new Rule(InferForeach);
    return kForeach;
  }
  if (auto it = rules.find(op.full()); it != rules.end()) return &it->second;
  auto it = rules.find(op.name());
  return it == rules.end() ? nullptr : &it->second;
}

// Returns a type from a schema with type variables unknown.
Type FromSchema(const Type& t) {
  if (t.kind() == TypeKind::kClass) return Type();
  return t;
}

ConstantValue ConstantOf(const OpArg& a) {
  switch (a.kind) {
    case OpArg::Kind::kInt:
      return a.expr.Constant().value_or(0);
    case OpArg::Kind::kFloat:
      return a.number;
    case OpArg::Kind::kBool:
      return a.number != 0;
    case OpArg::Kind::kComplex:
      return a.complex;
    case OpArg::Kind::kString:
      return a.string;
    case OpArg::Kind::kFloatList:
      return a.floats;
    case OpArg::Kind::kBoolList:
      return a.bools;
    case OpArg::Kind::kIntList: {
      std::vector<int64_t> v;
      for (const Expr& e : a.ints) v.push_back(e.Constant().value_or(0));
      return v;
    }
    default:
      return std::monostate();
  }
}

// Makes a value of a scratch graph for an argument.
ValueId Materialize(Graph& g, const OpArg& a) {
  const NodeId end = g.block(g.top()).return_node;
  auto symbolic = [&](const Expr& e) {
    const ValueId v = g.AddInput("", Type::Int());
    g.SetExpr(v, e);
    return v;
  };
  if (a.IsTensor()) {
    TensorType t = a.tensor;
    if (t.sizes && !t.strides) t.strides = ContiguousStrides(*t.sizes);
    return g.AddInput("", Type::Tensor(t));
  }
  if (a.kind == OpArg::Kind::kTensorList) {
    std::vector<ValueId> elements;
    for (const OpArg& e : a.elements) elements.push_back(Materialize(g, e));
    return g.node(g.InsertBefore(end, OpName::Get("prim::ListConstruct"), elements, {Type::List(Type::Tensor())}))
        .outputs[0];
  }
  if (a.kind == OpArg::Kind::kInt && a.known && !a.expr.IsConstant()) return symbolic(a.expr);
  if (a.kind == OpArg::Kind::kIntList && a.known &&
      std::any_of(a.ints.begin(), a.ints.end(), [](const Expr& e) { return !e.IsConstant(); })) {
    std::vector<ValueId> elements;
    for (const Expr& e : a.ints)
      elements.push_back(e.IsConstant() ? InsertConstant(g, end, *e.Constant()) : symbolic(e));
    return g.node(g.InsertBefore(end, OpName::Get("prim::ListConstruct"), elements, {Type::List(Type::Int())}))
        .outputs[0];
  }
  if (a.IsScalar() && !a.known) {
    return g.AddInput("", a.kind == OpArg::Kind::kInt    ? Type::Int()
                          : a.kind == OpArg::Kind::kBool ? Type::Bool()
                                                         : Type::Float());
  }
  return InsertConstant(g, end, ConstantOf(a));
}

// The types of a composite are those of its decomposition.
absl::StatusOr<Outputs> InferByDecomposing(const OpCall& call, const FunctionSchema& schema,
                                           const SymbolicDecide& decide, const SymbolRanges& ranges) {
  Graph g;
  g.symbols = ranges;
  g.symbol_hints = decide.hints();
  const NodeId end = g.block(g.top()).return_node;
  std::vector<ValueId> args;
  for (const OpArg& a : call.args()) args.push_back(Materialize(g, a));
  std::vector<Type> types;
  for (const Argument& r : schema.returns) types.push_back(FromSchema(r.type));
  const NodeId n = g.InsertBefore(end, call.op(), args, types);
  for (ValueId v : g.node(n).outputs) g.AddOutput(v);
  auto changed = op_internal::DecomposeAsItComes(g, n);
  if (!changed.ok()) return changed.status();
  if (!*changed) return call.Unsupported("has no rule for its types");
  Outputs out;
  for (ValueId v : g.outputs()) {
    InferredOutput o;
    o.type = g.value(v).type;
    o.expr = g.value(v).expr;
    if (auto elements = GetListElements(g, v)) {
      for (ValueId e : *elements) o.elements.push_back(g.value(e).type);
    }
    out.push_back(std::move(o));
  }
  return out;
}

// Returns whether PyTorch's flash attention takes the call. Its result has the layout of the queries; other results
// have the layout of a product.
bool AttentionLiesAsItsQueries(const OpCall& call, SymbolicDecide& decide) {
  const auto is_one = [&](const Expr& e) {
    return e.IsConstant() ? e == Expr(1) : decide.IsDecidable(e) && decide.Equal(e, 1);
  };
  if (call.op().name() == "aten::_scaled_dot_product_flash_attention_for_cpu") return true;
  const TensorType& q = call.arg(0).tensor;
  for (int i = 0; i < 3; ++i) {
    const TensorType& t = call.arg(i).tensor;
    if (!t.IsComplete() || t.rank() != 4 || t.sizes->at(3) != q.sizes->at(3) || t.sizes->at(0) != q.sizes->at(0) ||
        t.sizes->at(2) == Expr(0)) {
      return false;
    }
    if (!is_one(t.strides->at(3))) return false;
    const bool gqa = call.GetBoolOr("enable_gqa", false).value_or(false);
    if (!gqa && t.sizes->at(1) != q.sizes->at(1)) return false;
  }
  if (!call.arg(3).IsTensor()) return true;
  const TensorType& mask = call.arg(3).tensor;
  if (!mask.IsComplete() || (mask.rank() != 2 && mask.rank() != 4)) return false;
  const std::vector<Expr> full = {q.sizes->at(0), q.sizes->at(1), q.sizes->at(2), call.arg(1).tensor.sizes->at(2)};
  for (int d = 0; d < mask.rank(); ++d) {
    const Expr& n = mask.sizes->at(d);
    if (n != Expr(1) && n != full[4 - mask.rank() + d]) return false;
  }
  return is_one(mask.strides->back());
}

// select: for any index the result has the tensor's sizes and strides except for that dim.
void KnowSelected(const OpCall& call, InferredOutput& out) {
  const TensorType& base = call.arg(0).tensor;
  const std::optional<int64_t> dim = call.arg(1).expr.Constant();
  if (!base.sizes || !dim) return;
  absl::StatusOr<int> d = view_rules::WrapDim(*dim, base.rank());
  if (!d.ok() || base.rank() == 0) return;
  TensorType t = base;
  t.sizes->erase(t.sizes->begin() + *d);
  if (t.strides) t.strides->erase(t.strides->begin() + *d);
  out.type = Type::Tensor(t);
}

// Returns whether results are written to an argument.
bool IsOut(const Argument& a) {
  const bool writes_elements = !a.alias.contained.empty() && a.alias.contained[0].is_write;
  return a.kw_only && (a.alias.is_write || writes_elements);
}

// Asks the sources of type rules one after the other: the first that knows the operator decides. The order is the
// contract, so it can be read in one place.
absl::StatusOr<Outputs> InferOwn(const OpCall& call, SymbolicDecide& decide, const SymbolRanges& ranges) {
  Ctx c{call, decide, {}};
  const FunctionSchema* schema = FindSchema(call.op());
  const OpInfo& info = GetOpInfo(call.op());
  // If only the data determines the sizes of arguments, the results' sizes are unknown too.
  auto unknown_sizes = [&] {
    for (const OpArg& a : call.args()) {
      if (a.IsTensor() && (!a.tensor.dtype || !a.tensor.sizes)) return true;
      for (const OpArg& e : a.elements) {
        if (e.IsTensor() && (!e.tensor.dtype || !e.tensor.sizes)) return true;
      }
    }
    return false;
  };
  auto unknown_lists = [&] {
    return std::any_of(call.args().begin(), call.args().end(), [](const OpArg& a) {
      return (a.kind == OpArg::Kind::kTensorList && !a.known && a.elements.empty()) ||
             (a.kind == OpArg::Kind::kIntList && !a.known);
    });
  };
  auto unknown_numbers = [&] {
    for (const OpArg& a : call.args()) {
      if (a.IsScalar() && !a.known) return true;
      for (const OpArg& e : a.elements) {
        if (e.IsScalar() && !e.known) return true;
      }
    }
    return false;
  };
  auto give_up = [&]() -> absl::StatusOr<Outputs> {
    Outputs out;
    for (const Argument& r : schema->returns) out.push_back({FromSchema(r.type), std::nullopt, {}});
    // The dtype may be known nevertheless.
    std::vector<DType> dtypes;
    if (info.kind == OpKind::kPointwise) {
      if (auto t = PointwiseDTypes(call); t.ok()) dtypes = *t;
    } else if (info.kind == OpKind::kView && call.op().overload() != "dtype" && call.arg(0).tensor.dtype) {
      dtypes = {*call.arg(0).tensor.dtype};
    } else if (call.op().full() == "aten::cat" || call.op().full() == "aten::stack") {
      std::vector<PromotionOperand> p;
      for (const OpArg& e : call.arg(0).elements) p.push_back(PromotionOf(e));
      dtypes = {ResultType(p)};
    }
    for (size_t i = 0; i < dtypes.size() && i < out.size(); ++i) {
      if (!out[i].type.IsTensor()) continue;
      TensorType t;
      t.dtype = dtypes[i];
      out[i].type = Type::Tensor(t);
    }
    return out;
  };
  SMELT_RETURN_IF_ERROR(op_internal::CheckFloat8(call));
  if (schema != nullptr && call.op().name().rfind("aten::", 0) == 0 && unknown_sizes() &&
      info.kind != OpKind::kScalar && info.kind != OpKind::kContainer) {
    return give_up();
  }

  SMELT_RETURN_IF_ERROR(op_internal::CheckArguments(call));
  absl::Status status;
  switch (info.kind) {
    case OpKind::kView:
      status = InferView(c);
      // An index or a bound is known only at run time.
      if (!status.ok() && schema != nullptr && unknown_numbers()) {
        SMELT_ASSIGN_OR_RETURN(Outputs out, give_up());
        if (call.op().full() == "aten::select.int" && call.arg(1).known) KnowSelected(call, out[0]);
        return out;
      }
      break;
    case OpKind::kReduction:
      status = InferReduction(c);
      break;
    case OpKind::kInplace:
    case OpKind::kOut: {
      // The written argument is returned, with its own type.
      if (schema == nullptr) break;
      absl::StatusOr<Outputs> functional = absl::UnimplementedError("");
      if (info.kind == OpKind::kOut) {
        size_t inputs = 0;
        while (inputs < schema->arguments.size() && !IsOut(schema->arguments[inputs])) ++inputs;
        functional = InferCall(
            OpCall(info.functional, std::vector<OpArg>(call.args().begin(), call.args().begin() + inputs)), ranges);
      }
      for (const Argument& r : schema->returns) {
        InferredOutput o;
        o.type = FromSchema(r.type);
        for (size_t i = 0; i < schema->arguments.size(); ++i) {
          const Argument& a = schema->arguments[i];
          if (!r.alias.before.empty() && a.alias.before == r.alias.before && call.arg(i).IsTensor()) {
            o.type = Type::Tensor(call.arg(i).tensor);
            // An out tensor takes the result's sizes.
            if (info.kind == OpKind::kOut && functional.ok() && c.out.size() < functional->size() &&
                (*functional)[c.out.size()].type.IsTensor()) {
              TensorType t = (*functional)[c.out.size()].type.tensor();
              t.dtype = call.arg(i).tensor.dtype;
              if (t.sizes) {
                SMELT_ASSIGN_OR_RETURN(const std::optional<Geo> g,
                                       op_internal::LaidOutByRule(call, decide, c.out.size(), *t.sizes));
                if (g && g->sizes == *t.sizes) t.strides = g->strides;
              }
              if (call.arg(i).tensor.sizes != t.sizes) o.type = Type::Tensor(t);
            }
          }
        }
        c.out.push_back(std::move(o));
      }
      return std::move(c.out);
    }
    case OpKind::kInplaceView: {
      OpCall view(info.functional, call.args());
      return InferCall(view, ranges);
    }
    case OpKind::kPointwise:
      status = InferPointwise(c);
      break;
    default: {
      const Rule* rule = info.kind == OpKind::kContainer ? nullptr : FindRule(call.op());
      if (rule != nullptr) {
        status = (*rule)(c);
      } else if (call.op().full() == "aten::resize_" || call.op().full() == "aten::resize_as_") {
        SMELT_ASSIGN_OR_RETURN(TensorType self, TensorArgument(c, 0));
        std::vector<Expr> sizes;
        if (call.op().full() == "aten::resize_") {
          absl::StatusOr<std::vector<Expr>> known = call.GetExprs("size");
          if (!known.ok()) {  // integers that only the call has
            TensorType type;
            type.dtype = self.dtype;
            c.out.push_back({Type::Tensor(std::move(type)), std::nullopt, {}});
            return std::move(c.out);
          }
          sizes = *std::move(known);
        } else {
          SMELT_ASSIGN_OR_RETURN(TensorType like, TensorArgument(c, 1));
          sizes = *like.sizes;
        }
        if (sizes == *self.sizes) {
          const Geo g = GeoOf(decide, self);
          c.AddStrided(*self.dtype, g.sizes, g.strides);
        } else {
          c.Add(*self.dtype, sizes);
        }
      } else if (call.op().name() == "aten::set_") {
        const OpArg& source = call.arg(call.op().overload().empty() ? 0 : 1);
        const TensorType& self = call.arg(0).tensor;
        if (call.op().overload().empty()) {
          c.Add(call.arg(0).tensor.dtype.value_or(DType::kFloat32), {Expr(0)});
        } else if (!call.IsNone("size")) {
          SMELT_ASSIGN_OR_RETURN(std::vector<Expr> sizes, call.GetExprs("size"));
          std::vector<Expr> strides;
          if (!call.IsNone("stride")) {
            SMELT_ASSIGN_OR_RETURN(strides, call.GetExprs("stride"));
          }
          if (strides.size() == sizes.size()) {
            c.AddStrided(*source.tensor.dtype, sizes, strides);
          } else if (self.IsComplete() && *self.sizes == sizes) {
            c.AddStrided(*source.tensor.dtype, sizes, *self.strides);
          } else {
            c.Add(*source.tensor.dtype, sizes);
          }
        } else {
          c.out.push_back({Type::Tensor(source.tensor), std::nullopt, {}});
        }
      } else if (info.decomposes && schema != nullptr) {
        SMELT_ASSIGN_OR_RETURN(Outputs outputs, InferByDecomposing(call, *schema, decide, ranges));
        const std::string& name = call.op().name();
        const bool attends =
            name == "aten::scaled_dot_product_attention" || name == "aten::_scaled_dot_product_flash_attention_for_cpu";
        if (attends && call.arg(0).tensor.IsComplete() && AttentionLiesAsItsQueries(call, decide)) {
          TensorType t = outputs[0].type.tensor();
          t.strides = view_rules::PreservedStrides(decide, GeoOf(decide, call.arg(0).tensor));
          outputs[0].type = Type::Tensor(t);
        }
        return outputs;
      } else if (info.kind == OpKind::kRandom && schema != nullptr && schema->IsMutable()) {
        c.out.push_back({Type::Tensor(call.arg(0).tensor), std::nullopt, {}});
      } else if (schema != nullptr &&
                 (info.kind == OpKind::kScalar || info.kind == OpKind::kContainer || info.kind == OpKind::kOther)) {
        return give_up();
      } else if (info.kind == OpKind::kScalar) {
        c.out.push_back({Type::Int(), std::nullopt, {}});
      } else if (info.kind == OpKind::kUnknown) {
        return call.Unsupported("is not supported");
      } else {
        return call.Unsupported("has no rule for its types");
      }
    }
  }
  // The result for sizes or numbers that are known only at run time.
  if (!status.ok() && schema != nullptr && (unknown_numbers() || unknown_sizes() || unknown_lists())) return give_up();
  SMELT_RETURN_IF_ERROR(status);
  if (!decide.status().ok()) return op_internal::ErrorIn(call, decide.status());
  return std::move(c.out);
}

// --- calls that were inferred before ---
//
// The layers of a model, its specializations and the probes of its layouts make the same calls many times. A call whose
// sizes and numbers are all constants has the same results wherever it stands: no symbol's range decides anything.

void AppendBytes(const void* data, size_t bytes, std::string& key) {
  key.append(static_cast<const char*>(data), bytes);
}

// Appends a constant; false for another expression.
bool AppendConstant(const Expr& e, std::string& key) {
  const std::optional<int64_t> value = e.Constant();
  if (value) AppendBytes(&*value, sizeof *value, key);
  return value.has_value();
}

bool AppendConstants(const std::vector<Expr>& list, std::string& key) {
  const size_t size = list.size();
  AppendBytes(&size, sizeof size, key);
  return std::all_of(list.begin(), list.end(), [&](const Expr& e) { return AppendConstant(e, key); });
}

// Appends everything that inference may ask of an argument; false if it is not all constant.
bool AppendArgument(const OpArg& a, std::string& key) {
  key.push_back(static_cast<char>(a.kind));
  switch (a.kind) {
    case OpArg::Kind::kNone:
      return true;
    case OpArg::Kind::kTensor:
      if (!a.tensor.IsComplete()) return false;
      key.push_back(static_cast<char>(*a.tensor.dtype));
      return AppendConstants(*a.tensor.sizes, key) && AppendConstants(*a.tensor.strides, key);
    case OpArg::Kind::kInt:
      return a.known && AppendConstant(a.expr, key);
    case OpArg::Kind::kFloat:
    case OpArg::Kind::kBool:
      AppendBytes(&a.number, sizeof a.number, key);
      return a.known;
    case OpArg::Kind::kIntList:
      return a.known && a.elements.empty() && AppendConstants(a.ints, key);
    default:
      return false;
  }
}

// Returns "" if the call's results may depend on more than itself. The operators of a user are declared per model.
std::string KeyOfCall(const OpCall& call) {
  if (!absl::StartsWith(call.op().name(), "aten::")) return "";
  std::string key = absl::StrCat(call.op().full(), "(");
  for (const OpArg& a : call.args()) {
    if (!AppendArgument(a, key)) return "";
  }
  return key;
}

bool IsConstant(const Type& type) {
  if (!type.IsTensor()) return type.kind() != TypeKind::kList && type.kind() != TypeKind::kTuple;
  const auto constant = [](const Expr& e) { return e.IsConstant(); };
  const TensorType& t = type.tensor();
  return t.IsComplete() && std::all_of(t.sizes->begin(), t.sizes->end(), constant) &&
         std::all_of(t.strides->begin(), t.strides->end(), constant);
}

bool AreConstant(const Outputs& outputs) {
  return std::all_of(outputs.begin(), outputs.end(), [](const InferredOutput& o) {
    return o.elements.empty() && IsConstant(o.type) && (!o.expr || o.expr->IsConstant());
  });
}

absl::StatusOr<Outputs> Infer(const OpCall& call, SymbolicDecide& decide, const SymbolRanges& ranges) {
  constexpr size_t kMaxCalls = 4096;
  thread_local absl::flat_hash_map<std::string, Outputs> known;
  const std::string key = KeyOfCall(call);
  if (!key.empty()) {
    if (const auto it = known.find(key); it != known.end()) return it->second;
  }
  SMELT_ASSIGN_OR_RETURN(Outputs outputs, InferOwn(call, decide, ranges));
  SMELT_RETURN_IF_ERROR(op_internal::ApplyLayoutRules(call, decide, outputs));
  if (!key.empty() && AreConstant(outputs)) {
    if (known.size() == kMaxCalls) known.clear();
    known.emplace(key, outputs);
  }
  return outputs;
}

// --- graphs ---

absl::Status Annotated(const Graph& g, NodeId n, absl::string_view message) {
  const Node& node = g.node(n);
  const std::string source = node.source != nullptr ? node.source->ToString() : "";
  return absl::InvalidArgumentError(
      absl::StrCat(node.op.full(), source.empty() ? "" : absl::StrCat(" (", source, ")"), ": ", message));
}

// Combines the facts of both types.
Type Meet(const Type& a, const Type& b) {
  if (a == b) return a;
  // If one side is None, the result is an optional of the other side's type.
  for (const auto& [none, some] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    if (none->kind() == TypeKind::kNone) return some->kind() == TypeKind::kOptional ? *some : Type::Optional(*some);
  }
  if (a.kind() == TypeKind::kOptional || b.kind() == TypeKind::kOptional) {
    const Type met =
        Meet(a.kind() == TypeKind::kOptional ? a.element() : a, b.kind() == TypeKind::kOptional ? b.element() : b);
    return Type::Optional(met);
  }
  if (!a.IsTensor() || !b.IsTensor()) return a.kind() == b.kind() ? a : Type();
  const TensorType &x = a.tensor(), &y = b.tensor();
  TensorType t;
  if (x.dtype == y.dtype) t.dtype = x.dtype;
  if (x.sizes && y.sizes && *x.sizes == *y.sizes) {
    t.sizes = x.sizes;
    if (x.strides && y.strides && *x.strides == *y.strides) t.strides = x.strides;
  }
  return Type::Tensor(t);
}

void SetTypeIfNew(Graph& g, ValueId v, const Type& t) {
  const TypeKind had = g.value(v).type.kind();
  // The kind of a number may be known already: aten::item says only that it is a number.
  if (t.kind() == TypeKind::kNumber && (had == TypeKind::kInt || had == TypeKind::kFloat || had == TypeKind::kBool))
    return;
  if (g.value(v).type != t) g.SetType(v, t);
}

absl::Status InferBlock(Graph& g, BlockId b);

// The results of a branch have the common type of the blocks' results.
absl::Status JoinBranches(Graph& g, NodeId n) {
  const Node& node = g.node(n);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    std::optional<Type> t;
    for (BlockId b : node.blocks) {
      if (i >= g.results(b).size()) return Annotated(g, n, "a block has too few results");
      const Type& r = g.value(g.results(b)[i]).type;
      t = t ? Meet(*t, r) : r;
    }
    if (t) SetTypeIfNew(g, node.outputs[i], *t);
  }
  return absl::OkStatus();
}

absl::Status InferIf(Graph& g, NodeId n) {
  const auto blocks = g.node(n).blocks;
  for (BlockId b : blocks) SMELT_RETURN_IF_ERROR(InferBlock(g, b));
  return JoinBranches(g, n);
}

// Forgets integers that were known from sizes, in a block and the blocks inside it.
void ForgetSizes(Graph& g, BlockId b) {
  for (NodeId n : g.Nodes(b)) {
    if (g.node(n).op == "prim::Constant") continue;
    for (ValueId v : g.node(n).outputs) {
      if (g.value(v).expr) g.SetExpr(v, std::nullopt);
    }
    for (BlockId inner : g.node(n).blocks) ForgetSizes(g, inner);
  }
}

// Carried values have the common type of their initial value and of the results of every iteration.
absl::Status InferLoop(Graph& g, NodeId n, size_t first_input, size_t first_param, BlockId body, size_t first_result) {
  const size_t carried = g.node(n).outputs.size();
  if (g.node(n).inputs.size() < first_input + carried || g.params(body).size() < first_param + carried ||
      g.results(body).size() < first_result + carried) {
    return Annotated(g, n, "inputs, parameters and results do not match");
  }
  std::vector<Type> types;
  for (size_t i = 0; i < carried; ++i) types.push_back(g.value(g.node(n).inputs[first_input + i]).type);
  for (int round = 0; round < 4; ++round) {
    // Sizes of the first iteration need not hold for later ones.
    if (round > 0) ForgetSizes(g, body);
    for (size_t i = 0; i < carried; ++i) SetTypeIfNew(g, g.params(body)[first_param + i], types[i]);
    SMELT_RETURN_IF_ERROR(InferBlock(g, body));
    bool stable = true;
    for (size_t i = 0; i < carried; ++i) {
      Type t = Meet(types[i], g.value(g.results(body)[first_result + i]).type);
      stable &= t == types[i];
      types[i] = t;
    }
    if (stable) break;
  }
  for (size_t i = 0; i < carried; ++i) SetTypeIfNew(g, g.node(n).outputs[i], types[i]);
  return absl::OkStatus();
}

absl::Status InferControl(Graph& g, NodeId n) {
  const std::string& name = g.node(n).op.name();
  const Node& node = g.node(n);
  if (name == "prim::If") return InferIf(g, n);
  if (name == "prim::Loop") {
    if (node.blocks.empty()) return Annotated(g, n, "has no block");
    if (!g.params(node.blocks[0]).empty()) SetTypeIfNew(g, g.params(node.blocks[0])[0], Type::Int());
    return InferLoop(g, n, 2, 1, node.blocks[0], 1);
  }
  if (name == "smelt::cond") {
    // (pred, operands...): the operands are every block's parameters.
    for (BlockId b : node.blocks) {
      for (size_t i = 0; i < g.params(b).size() && i + 1 < node.inputs.size(); ++i) {
        SetTypeIfNew(g, g.params(b)[i], g.value(node.inputs[i + 1]).type);
      }
    }
    return InferIf(g, n);
  }
  if (name == "smelt::while_loop") {
    if (node.blocks.size() != 2) return Annotated(g, n, "has not two blocks");
    // Inputs beyond the carried ones are the same in every iteration.
    for (BlockId b : node.blocks) {
      for (size_t i = 0; i < g.params(b).size() && i < node.inputs.size(); ++i) {
        SetTypeIfNew(g, g.params(b)[i], g.value(node.inputs[i]).type);
      }
    }
    SMELT_RETURN_IF_ERROR(InferLoop(g, n, 0, 0, node.blocks[1], 0));
    for (size_t i = 0; i < g.node(n).outputs.size(); ++i) {
      SetTypeIfNew(g, g.params(node.blocks[0])[i], g.value(g.node(n).outputs[i]).type);
    }
    return InferBlock(g, node.blocks[0]);
  }
  return absl::OkStatus();
}

std::optional<std::vector<Expr>> ExprsAttribute(const Node& node, absl::string_view name) {
  const Attribute* a = node.FindAttribute(name);
  if (a == nullptr) return std::nullopt;
  if (const auto* e = std::get_if<std::vector<Expr>>(a)) return *e;
  if (const auto* i = std::get_if<std::vector<int64_t>>(a)) return std::vector<Expr>(i->begin(), i->end());
  return std::nullopt;
}

// Returns the types of a list's elements, where the node that makes the list tells.
std::vector<Type> ElementTypes(const Graph& g, ValueId list) {
  std::vector<Type> types;
  if (auto elements = GetListElements(g, list)) {
    for (ValueId e : *elements) types.push_back(g.value(e).type);
    return types;
  }
  const NodeId def = g.value(list).def;
  if (g.IsParam(def)) return types;
  const Node& maker = g.node(def);
  if (maker.op.full() == "aten::slice.t") {
    const std::vector<Type> whole = ElementTypes(g, maker.inputs[0]);
    const auto taken = SlicedIndices(g, maker.inputs, whole.size());
    for (size_t i : taken.value_or(std::vector<size_t>())) types.push_back(whole[i]);
    return types;
  }
  if (maker.op.full() == "aten::list.t" || maker.op.full() == "aten::copy.t") return ElementTypes(g, maker.inputs[0]);
  if (maker.op.full() == "aten::add.t") {
    types = ElementTypes(g, maker.inputs[0]);
    const std::vector<Type> more = ElementTypes(g, maker.inputs[1]);
    if (types.empty() || more.empty()) return {};
    types.insert(types.end(), more.begin(), more.end());
    return types;
  }
  const OpInfo& info = GetOpInfo(g.node(def).op);
  if (info.kind == OpKind::kView || info.kind == OpKind::kComposite || info.decomposes) {
    auto call = OpCall::Of(g, def);
    if (!call.ok()) return types;
    SymbolicDecide decide(&g.symbols, g.symbol_hints);
    auto out = Infer(*call, decide, g.symbols);
    if (out.ok() && g.value(list).def_index < out->size()) types = (*out)[g.value(list).def_index].elements;
  }
  return types;
}

// Adds the types of values that are put into a list later; returns whether there may be any.
bool AddStoredTypes(const Graph& g, ValueId list, std::vector<Type>& types) {
  bool changes = false;
  for (const Use& use : g.value(list).uses) {
    const Node& user = g.node(use.user);
    const std::string& name = user.op.name();
    if (use.index != 0 || name == "aten::__getitem__" || name == "aten::len" || name == "prim::ListUnpack") continue;
    changes = true;
    if (name == "aten::append" && user.inputs.size() > 1) types.push_back(g.value(user.inputs[1]).type);
    if ((name == "aten::insert" || name == "aten::_set_item") && user.inputs.size() > 2)
      types.push_back(g.value(user.inputs[2]).type);
  }
  return changes;
}

absl::Status InferBlock(Graph& g, BlockId b) {
  for (NodeId n : g.Nodes(b)) SMELT_RETURN_IF_ERROR(InferNode(g, n));
  return absl::OkStatus();
}

}  // namespace

std::optional<std::vector<size_t>> SlicedIndices(const Graph& g, absl::Span<const ValueId> operands, size_t size) {
  if (operands.size() != 4) return std::nullopt;
  const int64_t n = static_cast<int64_t>(size);
  int64_t bounds[3] = {0, n, 1};
  for (int k = 0; k < 3; ++k) {
    const std::optional<ConstantValue> c = GetConstant(g, operands[k + 1]);
    if (c && k < 2 && std::holds_alternative<std::monostate>(*c)) continue;
    if (!c || !std::holds_alternative<int64_t>(*c)) return std::nullopt;
    bounds[k] = std::get<int64_t>(*c);
    if (k < 2) bounds[k] = std::clamp<int64_t>(bounds[k] < 0 ? bounds[k] + n : bounds[k], 0, n);
  }
  if (bounds[2] < 1) return std::nullopt;
  const int64_t step = std::min(bounds[2], std::max<int64_t>(n, 1));  // so that no sum overflows
  std::vector<size_t> taken;
  for (int64_t i = bounds[0]; i < bounds[1]; i += step) taken.push_back(static_cast<size_t>(i));
  return taken;
}

namespace op_internal {
bool HasTypeRule(OpName op) { return FindRule(op) != nullptr; }
}  // namespace op_internal

SymbolRanges WithHints(SymbolRanges ranges, const absl::flat_hash_map<std::string, int64_t>& values) {
  for (const auto& [name, value] : values) {
    SymbolRanges::Range range = ranges.Get(name);
    range.hint = value;
    ranges.Set(name, range);
  }
  return ranges;
}

absl::StatusOr<std::vector<InferredOutput>> InferCall(const OpCall& call, const SymbolRanges& ranges) {
  SymbolicDecide decide(&ranges);
  return Infer(call, decide, ranges);
}

std::vector<Assumption> AssumedEqual(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  // Computes whether dims of operands, counted from the last, have different sizes. A size of 1 is broadcast, or does
  // not matter.
  bool unlike = false;
  std::vector<const Expr*> at;
  std::vector<ValueId> operands(node.inputs.begin(), node.inputs.end());
  for (ValueId v : node.inputs) {
    if (const auto elements = GetListElements(g, v))
      operands.insert(operands.end(), elements->begin(), elements->end());
  }
  for (ValueId v : operands) {
    const Type& type = g.value(v).type;
    if (!type.IsTensor() || !type.tensor().sizes) continue;
    const std::vector<Expr>& sizes = *type.tensor().sizes;
    at.resize(std::max(at.size(), sizes.size()), nullptr);
    for (size_t k = 0; k < sizes.size(); ++k) {
      const Expr& size = sizes[sizes.size() - 1 - k];
      if (size == Expr(1)) continue;
      if (at[k] == nullptr) at[k] = &size;
      unlike = unlike || (*at[k] != size && !(at[k]->IsConstant() && size.IsConstant()));
    }
  }
  if (!unlike) return {};
  absl::StatusOr<OpCall> call = OpCall::Of(g, n);
  if (!call.ok()) return {};
  // An in-place operator has the type of the written argument, regardless of its operands.
  if (const OpInfo& info = GetOpInfo(node.op); info.kind == OpKind::kInplace && info.functional)
    call = OpCall(info.functional, call->args());
  const SymbolRanges accepted = g.symbols.Accepted();
  SymbolicDecide decide(&accepted, g.symbol_hints);
  if (!Infer(*call, decide, accepted).ok()) return {};
  std::vector<Assumption> equal;
  for (const Assumption& a : decide.assumptions()) {
    const bool of_one = a.a == Expr(1) || a.b == Expr(1);
    if (a.relation == Assumption::Relation::kEqual && !of_one) equal.push_back(a);
  }
  return equal;
}

std::vector<Assumption> RequiredSizes(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  const absl::string_view name = absl::StripSuffix(node.op.name(), "_");
  const bool copies = name == "aten::copy", scatters = absl::StartsWith(name, "aten::scatter");
  if ((!copies && !scatters && name != "aten::gather") || node.inputs.size() < 3) return {};
  const auto sizes_of = [&](size_t k) -> const std::vector<Expr>* {
    if (k >= node.inputs.size() || !g.value(node.inputs[k]).type.IsTensor()) return nullptr;
    const TensorType& t = g.value(node.inputs[k]).type.tensor();
    return t.sizes ? &*t.sizes : nullptr;
  };
  const std::vector<Expr>*self = sizes_of(0), *index = sizes_of(2), *source = sizes_of(scatters ? 3 : 1);
  if (copies && self != nullptr && source != nullptr && source->size() <= self->size()) {
    const SymbolRanges accepted = g.symbols.Accepted();
    SymbolicDecide decide(&accepted, g.symbol_hints);
    for (size_t d = 0; d < source->size(); ++d) {
      if ((*source)[d] != Expr(1)) decide.Equal((*source)[d], (*self)[self->size() - source->size() + d]);
    }
    std::vector<Assumption> equal = decide.assumptions();
    std::erase_if(equal, [](const Assumption& a) { return a.relation != Assumption::Relation::kEqual; });
    return equal;
  }
  const std::optional<Expr> dim = GetIntExpr(g, node.inputs[1]);
  if (self == nullptr || index == nullptr || !dim || !dim->IsConstant()) return {};
  std::vector<Assumption> required;
  const Expr count = Product(*index);
  const auto ask = [&](const std::vector<Expr>& of, std::optional<size_t> but) {
    if (of.size() != index->size()) return;
    for (size_t d = 0; d < of.size(); ++d) {
      if (but == d || g.symbols.AlwaysLessOrEqual((*index)[d], of[d]) == true) continue;
      required.push_back({Min((*index)[d] - of[d], count), Assumption::Relation::kLessOrEqual, 0});
    }
  };
  const int64_t rank = static_cast<int64_t>(self->size()), d = *dim->Constant();
  ask(*self, static_cast<size_t>(d < 0 ? d + rank : d));
  if (source != nullptr) ask(*source, std::nullopt);
  return required;
}

// smelt's own operators on data-dependent sizes: the second operand gives the number of rows.
absl::Status InferDataSized(Graph& g, NodeId n) {
  const Node& node = g.node(n);
  const std::string& name = node.op.name();
  const TensorType self = g.value(node.inputs[0]).type.tensor();
  if (!self.dtype || !self.sizes) return Annotated(g, n, "the type of its argument is not known");
  const auto set = [&](int k, Type type) { SetTypeIfNew(g, node.outputs[k], std::move(type)); };
  if (name == "smelt::unique_count") {
    set(0, Type::Tensor(DType::kInt64, {}));
    return absl::OkStatus();
  }
  const std::optional<Expr> rows = GetIntExpr(g, node.inputs[1]);
  if (!rows) return Annotated(g, n, "the number of rows is not known");
  if (name == "smelt::nonzero") {
    set(0, Type::Tensor(DType::kInt64, {*rows, Expr(self.rank())}, {Expr(1), *rows}));
  } else if (name == "smelt::unique") {
    set(0, Type::Tensor(*self.dtype, {*rows}));
    set(1, Type::Tensor(DType::kInt64, *self.sizes));
    set(2, Type::Tensor(DType::kInt64, {*rows}));
  } else {
    const bool weighted = node.inputs.size() > 2;
    const bool narrow = weighted && g.value(node.inputs[2]).type.tensor().dtype == DType::kFloat32;
    set(0, Type::Tensor(!weighted ? DType::kInt64 : narrow ? DType::kFloat32 : DType::kFloat64, {*rows}));
  }
  return absl::OkStatus();
}

// The text form may leave out a tensor's elements ("<Tensor>") or give only the real parts of complex numbers.
absl::Status InferConstant(Graph& g, NodeId n) {
  const Node& node = g.node(n);
  if (node.outputs.size() != 1 || !g.value(node.outputs[0]).type.IsTensor()) return absl::OkStatus();
  const ValueId out = node.outputs[0];
  const Attribute* value = node.FindAttribute("value");
  const auto* tensor = value == nullptr ? nullptr : std::get_if<Tensor>(value);
  if (tensor != nullptr || g.value(out).uses.empty()) return absl::OkStatus();
  const std::string source = node.source == nullptr ? "" : node.source->ToString();
  return absl::UnimplementedError(absl::StrCat("prim::Constant", source.empty() ? "" : absl::StrCat(" (", source, ")"),
                                               ": the text does not say the elements of %", g.value(out).name));
}

Type Simplified(const Type& type, const SymbolRanges& of_sizes, const SymbolRanges& of_strides) {
  if (!type.IsTensor()) return type;
  TensorType t = type.tensor();
  bool simpler = false;
  const auto simplify = [&](std::optional<std::vector<Expr>>& list, const SymbolRanges& ranges) {
    if (!list) return;
    for (Expr& e : *list) {
      if (e.IsConstant() || e.IsSymbol()) continue;
      Expr simple = ranges.Simplify(e);
      simpler = simpler || simple != e;
      e = std::move(simple);
    }
  };
  simplify(t.sizes, of_sizes);
  simplify(t.strides, of_strides);
  return simpler ? Type::Tensor(std::move(t)) : type;
}

bool IsInferred(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  return node.blocks.empty() && node.op.name() != "prim::Constant" && node.op.name() != "smelt::size";
}

// The nodes of TorchScript that make containers and take them apart come first, a few lines each. All others have a
// rule, whose results are then compared with what the graph states.
absl::Status InferNode(Graph& g, NodeId n) {
  const Node& node = g.node(n);
  const std::string& name = node.op.name();
  if (name == "prim::Constant") return InferConstant(g, n);
  if (name == "smelt::size" || name == "smelt::FusionGroup") return absl::OkStatus();
  if (!node.blocks.empty()) return InferControl(g, n);
  // The program states the types of a declared operator's results (core/op/declare.h).
  if (GetOpInfo(node.op).kind == OpKind::kUnknown && node.op.IsDeclared()) return absl::OkStatus();
  if (name == "prim::ListConstruct") {
    const Type& t = g.value(node.outputs[0]).type;
    if (t.kind() != TypeKind::kList && !node.inputs.empty()) {
      const Type& first = g.value(node.inputs[0]).type;
      SetTypeIfNew(g, node.outputs[0], Type::List(first.IsTensor() ? Type::Tensor() : first));
    }
    return absl::OkStatus();
  }
  if (name == "prim::TupleConstruct") {
    std::vector<Type> types;
    for (ValueId v : node.inputs) types.push_back(g.value(v).type);
    SetTypeIfNew(g, node.outputs[0], Type::Tuple(std::move(types)));
    return absl::OkStatus();
  }
  if (name == "prim::ListUnpack") {
    const std::vector<Type> types = ElementTypes(g, node.inputs[0]);
    const Type& list = g.value(node.inputs[0]).type;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (i < types.size()) {
        SetTypeIfNew(g, node.outputs[i], types[i]);
      } else if (list.kind() == TypeKind::kList && g.value(node.outputs[i]).type.kind() == TypeKind::kAny) {
        SetTypeIfNew(g, node.outputs[i], list.element());
      }
      if (auto exprs = GetIntListExpr(g, node.inputs[0]); exprs && i < exprs->size())
        g.SetExpr(node.outputs[i], (*exprs)[i]);
    }
    return absl::OkStatus();
  }
  if (name == "prim::TupleUnpack") {
    const Type t = g.value(node.inputs[0]).type;
    if (t.kind() == TypeKind::kTuple) {
      for (size_t i = 0; i < node.outputs.size() && i < t.elements().size(); ++i)
        SetTypeIfNew(g, node.outputs[i], t.elements()[i]);
    }
    return absl::OkStatus();
  }
  if (name == "prim::unchecked_cast" || name == "aten::_unwrap_optional") {
    const Type t = g.value(node.inputs[0]).type;
    const Type inner = t.kind() == TypeKind::kOptional ? t.element() : t;
    if (inner.IsTensor()) SetTypeIfNew(g, node.outputs[0], inner);
    return absl::OkStatus();
  }
  if (name == "prim::TupleIndex") {
    const Type t = g.value(node.inputs[0]).type;
    if (t.kind() == TypeKind::kTuple && node.inputs.size() > 1) {
      auto i = GetIntExpr(g, node.inputs[1]);
      if (i && i->IsConstant()) {
        int64_t k = *i->Constant();
        if (k < 0) k += static_cast<int64_t>(t.elements().size());
        if (k >= 0 && k < static_cast<int64_t>(t.elements().size())) SetTypeIfNew(g, node.outputs[0], t.elements()[k]);
      }
    }
    return absl::OkStatus();
  }
  if (name == "smelt::view") {
    auto sizes = ExprsAttribute(node, "sizes"), strides = ExprsAttribute(node, "strides");
    const Attribute* dtype = node.FindAttribute("dtype");
    const auto* code = dtype == nullptr ? nullptr : std::get_if<int64_t>(dtype);
    if (!sizes || !strides || sizes->size() != strides->size())
      return Annotated(g, n, "attributes sizes and strides are missing or do not match");
    const TensorType& base = g.value(node.inputs[0]).type.tensor();
    std::optional<DType> t = code != nullptr ? DTypeFromScalarType(*code) : base.dtype;
    if (!t) return Annotated(g, n, "its dtype is not known");
    SetTypeIfNew(g, node.outputs[0], Type::Tensor(*t, *sizes, *strides));
    return absl::OkStatus();
  }
  if (name == "smelt::write_region" || name == "smelt::overlay") {
    SetTypeIfNew(g, node.outputs[0], g.value(node.inputs[0]).type);
    return absl::OkStatus();
  }
  if (name == "smelt::materialize") {
    auto strides = ExprsAttribute(node, "strides");
    const TensorType& value = g.value(node.inputs[0]).type.tensor();
    if (!value.dtype || !value.sizes) return Annotated(g, n, "the type of its argument is not known");
    SetTypeIfNew(
        g, node.outputs[0],
        strides ? Type::Tensor(*value.dtype, *value.sizes, *strides) : Type::Tensor(*value.dtype, *value.sizes));
    return absl::OkStatus();
  }
  if (name == "smelt::nonzero" || name == "smelt::unique" || name == "smelt::unique_count" || name == "smelt::bincount")
    return InferDataSized(g, n);
  // A lazily conjugated or negated view has the same memory layout.
  if (name == "aten::_neg_view" ||
      ((name == "aten::_conj" || name == "aten::conj") && g.value(node.inputs[0]).type.IsTensor() &&
       IsComplex(g.value(node.inputs[0]).type.tensor().dtype.value_or(DType::kFloat32)))) {
    SetTypeIfNew(g, node.outputs[0], g.value(node.inputs[0]).type);
    return absl::OkStatus();
  }

  // A list of the same tensors.
  const std::string& full = node.op.full();
  if (full == "aten::slice.t" || full == "aten::add.t" || full == "aten::list.t" || full == "aten::copy.t") {
    const Type& list = g.value(node.inputs[0]).type;
    if (list.kind() == TypeKind::kList && list.element().IsTensor()) {
      SetTypeIfNew(g, node.outputs[0], list);
      return absl::OkStatus();
    }
  }

  if (full == "aten::len.t" && !GetListElements(g, node.inputs[0])) {
    std::vector<Type> types = ElementTypes(g, node.inputs[0]);
    const Expr size(static_cast<int64_t>(types.size()));
    if (!types.empty() && !AddStoredTypes(g, node.inputs[0], types)) {
      SetTypeIfNew(g, node.outputs[0], Type::Int());
      g.SetExpr(node.outputs[0], size);
      return absl::OkStatus();
    }
  }

  SMELT_ASSIGN_OR_RETURN(OpCall call, OpCall::Of(g, n));
  // The elements come from a list that another operator made.
  if (node.op.full() == "aten::__getitem__.t" && g.value(node.inputs[0]).type.kind() == TypeKind::kList &&
      g.value(node.inputs[0]).type.element().IsTensor()) {
    std::vector<Type> types = ElementTypes(g, node.inputs[0]);
    auto i = GetIntExpr(g, node.inputs[1]);
    Type t = Type::Tensor();
    const bool changes = AddStoredTypes(g, node.inputs[0], types);
    if (changes || !i || !i->IsConstant()) {
      for (size_t k = 0; k < types.size(); ++k) t = k == 0 ? types[0] : Meet(t, types[k]);
      // It is unknown which element it is, and so its sizes are, unless all elements have the same type and the list
      // never changes.
      if (changes || std::any_of(types.begin(), types.end(), [&](const Type& k) { return !(k == types[0]); })) {
        TensorType unknown;
        if (t.IsTensor()) unknown.dtype = t.tensor().dtype;
        t = Type::Tensor(unknown);
      }
    } else if (i && i->IsConstant()) {
      const int64_t size = static_cast<int64_t>(types.size()),
                    k = *i->Constant() < 0 ? *i->Constant() + size : *i->Constant();
      if (k >= 0 && k < size) t = types[k];
    }
    SetTypeIfNew(g, node.outputs[0], t);
    return absl::OkStatus();
  }
  SymbolicDecide decide(&g.symbols, g.symbol_hints);
  SMELT_ASSIGN_OR_RETURN(Outputs out, Infer(call, decide, g.symbols));
  if (out.size() != g.node(n).outputs.size()) {
    // A graph may leave the results of a list of statements out.
    if (g.node(n).outputs.size() > out.size()) {
      return Annotated(g, n, absl::StrCat("has ", g.node(n).outputs.size(), " outputs, the operator ", out.size()));
    }
  }
  for (size_t i = 0; i < g.node(n).outputs.size(); ++i) {
    const ValueId v = g.node(n).outputs[i];
    if (out[i].type.kind() != TypeKind::kAny) SetTypeIfNew(g, v, Simplified(out[i].type, g.symbols, g.symbols));
    if (out[i].expr && g.value(v).expr != out[i].expr) g.SetExpr(v, out[i].expr);
  }
  return absl::OkStatus();
}

namespace {

Expr NewDataSize(Graph& g) {
  const auto& taken = g.symbols.entries();
  for (int k = 0;; ++k) {
    const std::string name = absl::StrCat("u", k);
    if (std::any_of(taken.begin(), taken.end(), [&](const auto& entry) { return entry.first == name; })) continue;
    g.symbols.Set(name, {});
    g.symbol_hints[name] = 4;  // as several: the strides of one row, or of none, show nothing
    return Expr::Symbol(name);
  }
}

// index(self, [..., mask, ...]) with one mask has the type of an index by that many positions.
absl::StatusOr<Type> TypeOfMasked(Graph& g, const OpCall& call) {
  const std::vector<OpArg>& given = call.arg(1).elements;
  const auto is_mask = [](const OpArg& a) {
    return a.IsTensor() && a.tensor.dtype == DType::kBool && a.tensor.sizes.has_value();
  };
  const auto tensors = std::count_if(given.begin(), given.end(), [](const OpArg& a) { return a.IsTensor(); });
  if (tensors != 1 || std::none_of(given.begin(), given.end(), is_mask)) return Type::Tensor();
  const Expr count = NewDataSize(g);
  const TensorType column = Type::Tensor(DType::kInt64, {count}, {Expr(1)}).tensor();
  std::vector<OpArg> indices;
  for (const OpArg& a : given) {
    indices.insert(indices.end(), is_mask(a) ? a.tensor.rank() : 1, is_mask(a) ? OpArg::Of(column) : a);
  }
  // As of several: the strides of one row, or of none, show nothing.
  SymbolRanges several = g.symbols;
  several.Set(count.Symbols()[0], {.hint = 4});
  SMELT_ASSIGN_OR_RETURN(std::vector<InferredOutput> out,
                         InferCall(OpCall(call.op(), {call.arg(0), OpArg::List(std::move(indices))}), several));
  return out[0].type;
}

// TorchScript's text has no names for sizes that only the data determines. Results of nodes that run once get a name.
absl::Status NameDataSize(Graph& g, NodeId n) {
  const std::string& full = g.node(n).op.full();
  const bool positions = full == "aten::nonzero" || full == "aten::argwhere", counts = full == "aten::bincount",
             boxes = full == "torchvision::nms";
  if (!positions && !counts && !boxes && full != "aten::masked_select" && full != "aten::index.Tensor")
    return absl::OkStatus();
  const ValueId out = g.node(n).outputs[0];
  if (!g.value(out).type.IsTensor() || g.value(out).type.tensor().sizes) return absl::OkStatus();
  SMELT_ASSIGN_OR_RETURN(OpCall call, OpCall::Of(g, n));
  const TensorType& self = call.arg(0).tensor;
  if (!call.arg(0).IsTensor() || !self.dtype || !self.sizes) return absl::OkStatus();
  if (counts && call.arg(1).IsTensor()) return absl::OkStatus();
  Type type = Type::Tensor();
  if (full == "aten::index.Tensor") {
    SMELT_ASSIGN_OR_RETURN(type, TypeOfMasked(g, call));
  } else if (positions) {
    const Expr count = NewDataSize(g);
    type = Type::Tensor(DType::kInt64, {count, Expr(self.rank())}, {Expr(1), count});
  } else {
    type = Type::Tensor(counts || boxes ? DType::kInt64 : *self.dtype, {NewDataSize(g)}, {Expr(1)});
  }
  if (type.tensor().sizes) SetTypeIfNew(g, out, type);
  return absl::OkStatus();
}

// Replaces spellings of TorchScript's text: abs of a tensor; where(x), which PyTorch turns into the columns of nonzero
// (lists do not say the sizes of their elements).
void OpenSpelling(Graph& g, NodeId n) {
  const Node& node = g.node(n);
  if (node.op.full() == "prim::abs") return g.SetOp(n, OpName::Get("aten::abs"));
  if ((node.op.full() != "aten::where" && node.op.full() != "aten::nonzero_numpy") || node.inputs.size() != 1) return;
  for (const Use& u : g.value(node.outputs[0]).uses) {
    if (g.IsReturn(u.user) || g.node(u.user).op != "prim::ListUnpack") continue;
    for (ValueId v : g.node(u.user).outputs) {
      if (g.value(v).type.IsTensor() && g.value(v).type.tensor().sizes) return;
    }
  }
  const NodeId found = g.InsertBefore(n, OpName::Get("aten::nonzero"), {node.inputs[0]}, {Type::Tensor()});
  const ValueId one = InsertConstant(g, n, int64_t{1});
  const NodeId columns =
      g.InsertBefore(n, OpName::Get("aten::unbind.int"), {g.node(found).outputs[0], one}, {Type::List(Type::Tensor())});
  g.SetSource(found, g.node(n).source);
  g.SetSource(columns, g.node(n).source);
  g.ReplaceAllUses(g.node(n).outputs[0], g.node(columns).outputs[0]);
  g.Erase(n);
}

// A block that runs at most once.
absl::Status InferOnce(Graph& g, BlockId b) {
  for (NodeId n : g.Nodes(b)) {
    if (g.node(n).op == "prim::If") {
      const auto blocks = g.node(n).blocks;
      for (BlockId inner : blocks) SMELT_RETURN_IF_ERROR(InferOnce(g, inner));
      SMELT_RETURN_IF_ERROR(JoinBranches(g, n));
      continue;
    }
    SMELT_RETURN_IF_ERROR(InferNode(g, n));
    SMELT_RETURN_IF_ERROR(NameDataSize(g, n));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status InferTypes(Graph& g) {
  for (NodeId n : g.AllNodes()) OpenSpelling(g, n);
  return InferOnce(g, g.top());
}

std::vector<std::string> CheckTypes(const Graph& g) {
  std::vector<std::string> lines;
  for (NodeId n : g.AllNodes()) {
    const Node& node = g.node(n);
    if (!node.blocks.empty() || node.op.name().rfind("aten::", 0) != 0) continue;
    auto call = OpCall::Of(g, n);
    if (!call.ok()) continue;
    SymbolicDecide decide(&g.symbols, g.symbol_hints);
    auto out = Infer(*call, decide, g.symbols);
    if (!out.ok()) {
      if (!absl::IsUnimplemented(out.status())) lines.push_back(std::string(out.status().message()));
      continue;
    }
    for (size_t i = 0; i < node.outputs.size() && i < out->size(); ++i) {
      const Type &have = g.value(node.outputs[i]).type, &want = (*out)[i].type;
      if (!have.IsTensor() || !want.IsTensor() || !want.tensor().IsComplete() || !have.tensor().IsComplete()) continue;
      // Strides of dims of size 1 do not matter.
      const TensorType &a = have.tensor(), &b = want.tensor();
      bool equal = a.dtype == b.dtype && *a.sizes == *b.sizes;
      for (size_t d = 0; equal && d < a.sizes->size(); ++d) {
        equal = (*a.sizes)[d] == Expr(1) || (*a.strides)[d] == (*b.strides)[d];
      }
      if (!equal)
        lines.push_back(absl::StrCat(node.op.full(), ": %", g.value(node.outputs[i]).name, " is ", have.ToString(),
                                     ", inferred ", want.ToString()));
    }
  }
  return lines;
}

}  // namespace smelt

#include "smelt/core/op/declared_types.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/cause.h"
#include "smelt/core/base/recover.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/effects.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/layout_rule.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/op/verify.h"

namespace smelt {
namespace {

constexpr int kMaxRank = 64;    // PyTorch's
constexpr int kMaxDepth = 256;  // of subgraphs

template <typename... What>
absl::Status Fail(const Graph& g, NodeId n, const What&... what) {
  const Node& node = g.node(n);
  std::string where = node.op.full();
  if (!node.outputs.empty()) where = absl::StrCat("%", g.value(node.outputs[0]).name, " = ", where);
  const std::string source = node.source == nullptr ? "" : node.source->ToString();
  if (!source.empty()) absl::StrAppend(&where, " (", source, ")");
  return absl::InvalidArgumentError(absl::StrCat(where, ": ", what...));
}

// Calls `f` for the graphs in a node's attributes.
template <typename F>
absl::Status ForEachSubgraph(const Node& node, int depth, const F& f) {
  for (const auto& [name, attribute] : node.attributes) {
    const auto* subgraph = std::get_if<std::shared_ptr<Graph>>(&attribute);
    if (subgraph == nullptr || *subgraph == nullptr) continue;
    if (depth >= kMaxDepth)
      return absl::InvalidArgumentError(absl::StrCat("expected subgraphs nested at most ", kMaxDepth, " deep"));
    SMELT_RETURN_IF_ERROR(f(**subgraph, depth + 1));
  }
  return absl::OkStatus();
}

// --- kinds ---

bool IsNumber(TypeKind k) {
  return k == TypeKind::kInt || k == TypeKind::kFloat || k == TypeKind::kBool || k == TypeKind::kComplex ||
         k == TypeKind::kNumber;
}

// Returns whether an operator computes each element of its results from one element of each operand, so that a number
// can stand for a tensor. The source of a copy is a tensor all the same.
bool IsElementwise(OpName op) {
  const OpInfo& info = GetOpInfo(op);
  if (info.kind == OpKind::kPointwise) return true;
  const bool writes = info.kind == OpKind::kInplace || info.kind == OpKind::kOut;
  return writes && info.functional && info.functional.name() != "aten::copy" &&
         GetOpInfo(info.functional).kind == OpKind::kPointwise;
}

const Type& Inner(const Type& t) { return t.kind() == TypeKind::kOptional ? t.element() : t; }

// Returns why a value cannot be the argument; empty if it can. Asks more than TakesTypes, which accepts any value for a
// tensor because a caller may know more than the types say.
std::string Objection(const Graph& g, ValueId v, const Argument& formal, bool numbers_are_tensors) {
  const Type& given = g.value(v).type;
  const Type& inner = Inner(formal.type);
  const bool optional = formal.type.kind() == TypeKind::kOptional;
  if (inner.IsTensor()) {
    if (given.IsTensor() || (optional && Inner(given).IsTensor())) return "";
    if (given.kind() == TypeKind::kNone) return optional ? "" : "is None, expected a tensor";
    if (numbers_are_tensors && !formal.alias.is_write && IsNumber(given.kind())) return "";
    return absl::StrCat("is of type ", given.ToString(), ", expected a tensor");
  }
  if (inner.kind() == TypeKind::kList && Inner(inner.element()).IsTensor()) {
    const bool none = inner.element().kind() == TypeKind::kOptional;
    if (given.IsTensor()) return "";  // a list of one
    if (given.kind() == TypeKind::kNone) return optional ? "" : "is None, expected a list of tensors";
    const auto elements = GetListElements(g, v);
    if (!elements) {
      if (Inner(given).kind() == TypeKind::kList) {
        const Type& e = Inner(given).element();
        if (Inner(e).IsTensor() || e.kind() == TypeKind::kNone) return "";
        // An empty list of constants may be of any element type.
        const auto constant = GetConstant(g, v);
        const auto* ints = constant ? std::get_if<std::vector<int64_t>>(&*constant) : nullptr;
        if (ints != nullptr && ints->empty()) return "";
      }
      return absl::StrCat("is of type ", given.ToString(), ", expected a list of tensors");
    }
    for (size_t k = 0; k < elements->size(); ++k) {
      const Type& e = g.value((*elements)[k]).type;
      if (Inner(e).IsTensor() || (none && e.kind() == TypeKind::kNone)) continue;
      return absl::StrCat("has an element ", k, " of type ", e.ToString(), ", expected a tensor");
    }
  }
  return "";
}

// Returns whether a constant has the type that it is declared with.
bool IsOfType(const Graph& g, ValueId v, const Attribute* value) {
  const Type& type = Inner(g.value(v).type);
  const TypeKind kind = type.kind();
  if (kind == TypeKind::kAny || kind == TypeKind::kClass) return true;
  if (value == nullptr)
    return g.value(v).type.kind() == TypeKind::kOptional || kind == TypeKind::kNone || kind == TypeKind::kGenerator;
  const auto list_of = [&](std::initializer_list<TypeKind> kinds, bool empty) {
    return kind == TypeKind::kList && (empty || absl::c_linear_search(kinds, Inner(type.element()).kind()));
  };
  struct Visitor {
    const Type& type;
    const TypeKind kind;
    decltype(list_of)& list;
    bool operator()(int64_t) const { return IsNumber(kind); }
    bool operator()(double) const { return kind == TypeKind::kFloat || kind == TypeKind::kNumber; }
    bool operator()(bool) const { return kind == TypeKind::kBool || kind == TypeKind::kNumber; }
    bool operator()(const std::string&) const { return kind == TypeKind::kString || kind == TypeKind::kDevice; }
    bool operator()(const std::vector<int64_t>& x) const {
      return list({TypeKind::kInt, TypeKind::kFloat, TypeKind::kNumber, TypeKind::kBool}, x.empty());
    }
    bool operator()(const std::vector<double>& x) const {
      return list({TypeKind::kFloat, TypeKind::kNumber}, x.empty());
    }
    bool operator()(const std::vector<bool>& x) const { return list({TypeKind::kBool, TypeKind::kNumber}, x.empty()); }
    bool operator()(const std::vector<std::string>& x) const { return list({TypeKind::kString}, x.empty()); }
    bool operator()(const Expr&) const { return IsNumber(kind); }
    bool operator()(const std::vector<Expr>& x) const { return list({TypeKind::kInt}, x.empty()); }
    bool operator()(const Tensor& x) const {
      if (!type.IsTensor()) return false;
      const TensorType& t = type.tensor();
      if (t.dtype && *t.dtype != x.dtype()) return false;
      const auto same = [](const std::optional<std::vector<Expr>>& declared, absl::Span<const int64_t> has) {
        return !declared || std::equal(declared->begin(), declared->end(), has.begin(), has.end(),
                                       [](const Expr& e, int64_t n) { return e == Expr(n); });
      };
      return same(t.sizes, x.sizes()) && same(t.strides, x.strides());
    }
    bool operator()(const Type&) const { return true; }
    bool operator()(const std::shared_ptr<Graph>&) const { return !type.IsTensor(); }
    bool operator()(const std::complex<double>&) const {
      return kind == TypeKind::kComplex || kind == TypeKind::kNumber;
    }
    bool operator()(const OpaqueAttribute&) const { return true; }  // nothing but its text is known
  };
  return std::visit(Visitor{type, kind, list_of}, *value);
}

bool TakesElement(const Type& given, const Type& element) {
  if (element.IsTensor()) return Inner(given).IsTensor();
  return given.kind() == TypeKind::kAny || (IsNumber(given.kind()) && IsNumber(element.kind())) ||
         IsSubtype(given, element);
}

absl::Status CheckKinds(const Graph& g, int depth) {
  static const OpName kConstant = OpName::Get("prim::Constant"), kList = OpName::Get("prim::ListConstruct");
  for (NodeId n : g.AllNodes()) {
    const Node& node = g.node(n);
    SMELT_RETURN_IF_ERROR(ForEachSubgraph(node, depth, [](const Graph& sub, int d) { return CheckKinds(sub, d); }));
    if (node.op == kConstant) {
      if (node.outputs.size() != 1 || !node.inputs.empty()) return Fail(g, n, "expected no input and one output");
      const Attribute* value = node.FindAttribute("value");
      const std::optional<Expr>& expr = g.value(node.outputs[0]).expr;
      if (!IsOfType(g, node.outputs[0], value))
        return Fail(g, n, "its value is not of its type, ", g.value(node.outputs[0]).type.ToString());
      const auto* number = value == nullptr ? nullptr : std::get_if<int64_t>(value);
      if (expr && expr->IsConstant() && number != nullptr && *expr->Constant() != *number)
        return Fail(g, n, "its value is not the number that it is declared to be, ", expr->ToString());
      continue;
    }
    if (node.op == kList) {
      const Type& list = node.outputs.size() == 1 ? g.value(node.outputs[0]).type : Type::None();
      if (list.kind() != TypeKind::kList && list.kind() != TypeKind::kAny)
        return Fail(g, n, "expected one output, a list");
      for (size_t k = 0; k < node.inputs.size() && list.kind() == TypeKind::kList; ++k) {
        const Type &e = list.element(), &given = g.value(node.inputs[k]).type;
        if (TakesElement(given, e)) continue;
        return Fail(g, n, "element ", k, " is of type ", given.ToString(), ", the list of ", e.ToString());
      }
      continue;
    }
    const FunctionSchema* schema = FindSchema(node.op);
    if (schema == nullptr) continue;
    const size_t count = schema->arguments.size();
    if (node.inputs.size() < count || (node.inputs.size() > count && !schema->is_vararg)) {
      return Fail(g, n, "expected ", schema->is_vararg ? "at least " : "", count, " inputs, found ", node.inputs.size(),
                  "; its schema is ", schema->ToString());
    }
    const bool any_tensor = absl::c_any_of(node.inputs, [&](ValueId v) { return Inner(g.value(v).type).IsTensor(); });
    const bool numbers_are_tensors = any_tensor && IsElementwise(node.op);
    std::vector<Type> types;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const Type& given = g.value(node.inputs[k]).type;
      if (k >= count) {
        types.push_back(given);
        continue;
      }
      const Argument& formal = schema->arguments[k];
      const std::string objection = Objection(g, node.inputs[k], formal, numbers_are_tensors);
      if (!objection.empty()) return Fail(g, n, "argument \"", formal.name, "\" ", objection);
      types.push_back(Inner(formal.type).IsTensor() ? Type::Tensor() : given);
    }
    if (!TakesTypes(*schema, types)) {
      std::string found;
      for (ValueId v : node.inputs) absl::StrAppend(&found, found.empty() ? "" : ", ", g.value(v).type.ToString());
      return Fail(g, n, "arguments of types (", found, ") do not fit its schema, ", schema->ToString());
    }
    // A graph may leave the results of a list of statements out.
    for (size_t k = 0; k < node.outputs.size() && k < schema->returns.size(); ++k) {
      const Type &declared = g.value(node.outputs[k]).type, &returned = Inner(schema->returns[k].type);
      const bool tensor = returned.IsTensor();
      if (!tensor || Inner(declared).IsTensor() || declared.kind() == TypeKind::kNone) continue;
      return Fail(g, n, "output ", k, " is declared ", declared.ToString(), ", the operator returns a tensor");
    }
    if (!schema->is_varret && node.outputs.size() > schema->returns.size()) {
      return Fail(g, n, "expected ", schema->returns.size(), " outputs, found ", node.outputs.size(),
                  "; its schema is ", schema->ToString());
    }
  }
  return absl::OkStatus();
}

// --- types ---

class TypeChecker {
 public:
  explicit TypeChecker(Graph& g) : g_(g), hinted_(WithHints(g.symbols, g.symbol_hints)) {}

  absl::Status Run(int depth) {
    for (ValueId v : g_.inputs()) SMELT_RETURN_IF_ERROR(CheckMemory(g_.block(g_.top()).param_node, v));
    SMELT_RETURN_IF_ERROR(CheckInputs());
    for (NodeId n : g_.AllNodes()) {
      WorksOnNode(g_.node(n).op.full(), g_.node(n).source == nullptr ? "" : g_.node(n).source->ToString());
      for (BlockId b : g_.node(n).blocks) {
        for (ValueId v : g_.params(b)) SMELT_RETURN_IF_ERROR(CheckMemory(n, v));
      }
      for (ValueId v : g_.node(n).outputs) SMELT_RETURN_IF_ERROR(CheckMemory(n, v));
      SMELT_RETURN_IF_ERROR(g_.node(n).blocks.empty() ? CheckNode(n) : CheckBlocks(n));
      SMELT_RETURN_IF_ERROR(
          ForEachSubgraph(g_.node(n), depth, [](Graph& sub, int d) { return TypeChecker(sub).Run(d); }));
    }
    return absl::OkStatus();
  }

 private:
  // An input is called by its name, which says more than the operator prim::Param.
  template <typename... What>
  absl::Status FailAt(NodeId n, ValueId v, const What&... what) const {
    if (!g_.IsParam(g_.value(v).def)) return Fail(g_, n, what...);
    return absl::InvalidArgumentError(absl::StrCat("%", g_.value(v).name, ": ", what...));
  }

  // Sizes and strides that are numbers are such that no place of an element, and no number of bytes, overflows.
  absl::Status CheckMemory(NodeId n, ValueId v) const {
    const Type& type = g_.value(v).type;
    const TypeKind kind = Inner(type).kind();
    if (g_.value(v).expr && !IsNumber(kind) && kind != TypeKind::kAny)
      return FailAt(n, v, "declared ", type.ToString(), ", but to be the number ", g_.value(v).expr->ToString());
    if (!type.IsTensor() || !type.tensor().sizes) return absl::OkStatus();
    const TensorType& t = type.tensor();
    if (t.rank() > kMaxRank) return FailAt(n, v, "declared of ", t.rank(), " dims, expected at most ", kMaxRank);
    if (t.strides && t.strides->size() != t.sizes->size())
      return FailAt(n, v, "declared with ", t.sizes->size(), " sizes and ", t.strides->size(), " strides");
    const int64_t item = t.dtype ? ItemSize(*t.dtype) : 1;
    int64_t elements = item, reach = 0;
    bool empty = false;
    for (size_t d = 0; d < t.sizes->size(); ++d) {
      const std::optional<int64_t> size = (*t.sizes)[d].Constant();
      const std::optional<int64_t> stride = t.strides ? (*t.strides)[d].Constant() : std::nullopt;
      if ((size && *size < 0) || (stride && *stride < 0))
        return FailAt(n, v, "declared ", type.ToString(), ", with a negative size or stride");
      empty = empty || size == 0;
    }
    for (size_t d = 0; d < t.sizes->size() && !empty; ++d) {
      const std::optional<int64_t> size = (*t.sizes)[d].Constant();
      const std::optional<int64_t> stride = t.strides ? (*t.strides)[d].Constant() : std::nullopt;
      int64_t bytes;
      if ((size && __builtin_mul_overflow(elements, *size, &elements)) ||
          (size && stride &&
           (__builtin_mul_overflow(*size - 1, *stride, &bytes) || __builtin_mul_overflow(bytes, item, &bytes) ||
            __builtin_add_overflow(reach, bytes, &reach)))) {
        return FailAt(n, v, "declared ", type.ToString(), ", whose elements do not lie within 2^63 bytes");
      }
    }
    return absl::OkStatus();
  }

  // Checks that an input that is a weight has the weight's type, and that a baked-in constant fits its input.
  absl::Status CheckInputs() const {
    const NodeId top = g_.block(g_.top()).param_node;
    for (size_t i = 0; i < g_.inputs().size() && i < g_.input_infos.size(); ++i) {
      const InputInfo& info = g_.input_infos[i];
      const ValueId v = g_.inputs()[i];
      if (info.is_constant && g_.value(v).type.kind() != TypeKind::kNone && !IsOfType(g_, v, &info.constant))
        return FailAt(top, v, "its constant is not of its type, ", g_.value(v).type.ToString());
      if (info.kind != InputInfo::Kind::kWeight) continue;
      const Weight& w = g_.weights[static_cast<size_t>(info.weight)];
      const Type type = Type::Tensor(w.dtype, std::vector<Expr>(w.geometry.sizes.begin(), w.geometry.sizes.end()),
                                     std::vector<Expr>(w.geometry.strides.begin(), w.geometry.strides.end()));
      const std::string field = Difference(g_.value(v).type, type, Strides::kShared);
      if (field.empty()) continue;
      return FailAt(top, v, "its ", field, " is declared otherwise than that of weight \"", w.name,
                    "\": ", g_.value(v).type.ToString(), " and ", type.ToString());
    }
    return absl::OkStatus();
  }

  std::optional<int64_t> InExample(const Expr& e) const {
    for (const std::string& s : e.Symbols()) {
      if (!g_.symbol_hints.contains(s)) return std::nullopt;
    }
    const absl::StatusOr<int64_t> value = e.Evaluate(g_.symbol_hints);
    return value.ok() ? std::optional<int64_t>(*value) : std::nullopt;
  }

  bool Contradict(const Expr& a, const Expr& b) const {
    if (a == b || a.IsPoison() || b.IsPoison()) return false;
    if (g_.symbols.Equal(a, b) == false) return true;
    const std::optional<int64_t> x = InExample(a), y = InExample(b);
    return x && y && *x != *y;
  }

  // Returns whether in the example the strides are those of memory without gaps and overlaps, in any order of the dims.
  bool IsDense(const TensorType& t) const {
    std::vector<std::pair<int64_t, int64_t>> dims;  // stride, size
    for (size_t d = 0; d < t.sizes->size(); ++d) {
      const std::optional<int64_t> size = InExample((*t.sizes)[d]), stride = InExample((*t.strides)[d]);
      if (!size || !stride) return true;  // not known to be otherwise
      if (*size == 0) return true;
      if (*size != 1) dims.push_back({*stride, *size});
    }
    absl::c_sort(dims);
    int64_t next = 1;
    for (const auto& [stride, size] : dims) {
      if (stride != next || __builtin_mul_overflow(next, size, &next)) return false;
    }
    return true;
  }

  // The expected strides of a result: those of the operand whose memory it shares, those of dense memory, or either if
  // the operator may copy or not.
  enum class Strides { kShared, kDense, kAny };
  static Strides StridesOf(OpName op, size_t result) {
    if (GetOpInfo(op).kind == OpKind::kOut) return Strides::kAny;  // those that it was given, or of dense memory
    const ResultEffects& e = GetOpEffects(op).result(result);
    const bool shared = (e.self | e.view | e.element | e.element_view) != 0;
    if (!shared) return e.fresh ? Strides::kDense : Strides::kAny;
    return e.fresh || e.unknown || e.lazy_copy ? Strides::kAny : Strides::kShared;
  }

  // Returns why a value declared as `have` cannot be a `want`; empty if it can. A gradient that was not requested is
  // declared as None.
  std::string Difference(const Type& have, const Type& want, Strides rule) const {
    if (have.kind() == TypeKind::kAny || want.kind() == TypeKind::kAny || have.kind() == TypeKind::kNone) return "";
    if (have.kind() == TypeKind::kOptional || want.kind() == TypeKind::kOptional) {
      if (want.kind() == TypeKind::kNone) return "";
      return Difference(Inner(have), Inner(want), rule);
    }
    if (IsNumber(have.kind()) && IsNumber(want.kind())) {
      const bool one =
          have.kind() == want.kind() || have.kind() == TypeKind::kNumber || want.kind() == TypeKind::kNumber;
      return one ? "" : "kind";
    }
    if (have.kind() != want.kind()) return "kind";
    if (have.kind() == TypeKind::kList) return Difference(have.element(), want.element(), rule);
    if (!have.IsTensor()) return "";
    const TensorType &a = have.tensor(), &b = want.tensor();
    if (a.dtype && b.dtype && *a.dtype != *b.dtype) return "dtype";
    if (!a.sizes || !b.sizes) return "";
    if (a.rank() != b.rank()) return "number of dims";
    bool empty = false;
    for (int d = 0; d < a.rank(); ++d) {
      const Expr &x = (*a.sizes)[d], &y = (*b.sizes)[d];
      if (Contradict(x, y)) return absl::StrCat("size of dim ", d);
      empty = empty || InExample(x) == 0;
    }
    if (rule == Strides::kAny || !a.strides || !b.strides || a.strides->size() != a.sizes->size() ||
        b.strides->size() != b.sizes->size())
      return "";
    for (int d = 0; d < a.rank() && !empty; ++d) {
      const Expr& size = (*a.sizes)[d];
      const std::optional<int64_t> in_example = InExample(size);
      if (size == Expr(1) || in_example == 1 || !Contradict((*a.strides)[d], (*b.strides)[d])) continue;
      if (rule == Strides::kShared || !IsDense(a)) return absl::StrCat("stride of dim ", d);
      break;
    }
    return "";
  }

  static bool HasUnknownSize(const Type& t) {
    return t.IsTensor() && t.tensor().sizes &&
           absl::c_any_of(*t.tensor().sizes, [](const Expr& e) { return e.IsPoison(); });
  }
  // Returns whether the sizes of a node's operands, numbers among them, are known.
  bool AreSizesKnown(NodeId n) const {
    const auto known = [&](ValueId v) {
      const Type& t = g_.value(v).type;
      if (t.IsTensor()) return t.tensor().sizes && !HasUnknownSize(t);
      if (t.kind() == TypeKind::kInt) {
        const std::optional<Expr> e = GetIntExpr(g_, v);
        return e && !e->IsPoison();
      }
      return t.kind() != TypeKind::kList && t.kind() != TypeKind::kNumber && t.kind() != TypeKind::kAny;
    };
    return absl::c_all_of(g_.node(n).inputs, [&](ValueId v) {
      if (const auto elements = GetListElements(g_, v)) return absl::c_all_of(*elements, known);
      return GetConstant(g_, v).has_value() || known(v);
    });
  }

  // Facts about sizes that only the data determines are unknown before the call.
  static bool IsUndecided(const absl::Status& s) { return CauseOf(s) == Cause::kUndecidedSizes; }

  absl::Status CheckNode(NodeId n) {
    const std::vector<ValueId> outputs(g_.node(n).outputs.begin(), g_.node(n).outputs.end());
    std::vector<Type> declared;
    std::vector<std::optional<Expr>> exprs;
    for (ValueId v : outputs) {
      declared.push_back(g_.value(v).type);
      exprs.push_back(g_.value(v).expr);
    }
    absl::Status s = InferNode(g_, n);
    if (absl::IsInvalidArgument(s)) {
      // The equality of two sizes may be known only from the example.
      std::swap(g_.symbols, hinted_);
      s = InferNode(g_, n);
      std::swap(g_.symbols, hinted_);
    }
    std::vector<Type> inferred;
    std::optional<size_t> other_number;
    for (size_t i = 0; i < outputs.size(); ++i) {
      inferred.push_back(g_.value(outputs[i]).type);
      if (inferred[i] != declared[i]) g_.SetType(outputs[i], declared[i]);
      const std::optional<Expr> expr = g_.value(outputs[i]).expr;
      if (expr != exprs[i]) g_.SetExpr(outputs[i], exprs[i]);
      if (expr && exprs[i] && Contradict(*exprs[i], *expr)) other_number = i;
    }
    if (absl::IsInvalidArgument(s) && !IsUndecided(s))
      return outputs.empty() ? s : Annotate(s, absl::StrCat("%", g_.value(outputs[0]).name));
    if (!s.ok()) return absl::OkStatus();  // not described, or refused when it is called
    const OpName op = g_.node(n).op;
    if (other_number) {
      return Fail(g_, n, "%", g_.value(outputs[*other_number]).name, " is declared to be ",
                  exprs[*other_number]->ToString(), ", another number than follows from the operands");
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!HasUnknownSize(inferred[i]) || !AreSizesKnown(n)) continue;
      return Fail(g_, n, "the sizes of %", g_.value(outputs[i]).name, ", ", inferred[i].ToString(), ", overflow");
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      const std::string field = Difference(declared[i], inferred[i], StridesOf(op, i));
      if (field.empty()) continue;
      return Fail(g_, n, "the ", field, " of %", g_.value(outputs[i]).name,
                  " is declared otherwise than it follows from the operands: declared ", declared[i].ToString(),
                  ", inferred ", inferred[i].ToString());
    }
    SMELT_RETURN_IF_ERROR(CheckWritten(n));
    return CheckResized(n);
  }

  static bool LiesContiguously(const TensorType& t) {
    const std::vector<Expr> strides = ContiguousStrides(*t.sizes);
    for (size_t d = 0; d < strides.size(); ++d) {
      if ((*t.sizes)[d] != Expr(1) && (*t.strides)[d] != strides[d]) return false;
    }
    return true;
  }

  // Refuses an out= that takes other sizes where only inference knows the order that PyTorch gives it.
  absl::Status CheckResized(NodeId n) const {
    const Node& node = g_.node(n);
    if (!op_internal::HasOwnRuleOfResized(node.op)) return absl::OkStatus();
    const FunctionSchema* schema = FindSchema(node.op);
    bool resizes = false, contiguous = true;
    for (size_t k = 0; k < schema->arguments.size() && k < node.inputs.size(); ++k) {
      const Type& type = g_.value(node.inputs[k]).type;
      if (!type.IsTensor() || !type.tensor().IsComplete()) continue;
      const Argument& formal = schema->arguments[k];
      if (!formal.alias.is_write) contiguous = contiguous && LiesContiguously(type.tensor());
      for (size_t i = 0; i < node.outputs.size() && formal.alias.is_write; ++i) {
        const Type& result = g_.value(node.outputs[i]).type;
        if (schema->returns[i].alias.before == formal.alias.before && result.IsTensor())
          resizes = resizes || result.tensor().sizes != type.tensor().sizes;
      }
    }
    if (!resizes || contiguous) return absl::OkStatus();
    return absl::UnimplementedError(
        Fail(g_, n,
             "an out= that takes other sizes beside operands that are not contiguous, which PyTorch lays out in an "
             "order of its own")
            .message());
  }

  // A tensor that is written in place keeps its type. The other operands must be such that the functional form results
  // in the same sizes.
  absl::Status CheckWritten(NodeId n) const {
    const OpInfo& info = GetOpInfo(g_.node(n).op);
    if (info.kind != OpKind::kInplace || !info.functional) return absl::OkStatus();
    const FunctionSchema *written = FindSchema(g_.node(n).op), *functional = FindSchema(info.functional);
    const auto same = [](const Argument& a, const Argument& b) { return a.name == b.name; };
    if (written == nullptr || functional == nullptr || functional->returns.size() != 1 ||
        !absl::c_equal(written->arguments, functional->arguments, same))
      return absl::OkStatus();
    const absl::StatusOr<OpCall> call = OpCall::Of(g_, n);
    if (!call.ok()) return absl::OkStatus();
    // Sizes that the data decide, u0, are others in another call.
    const auto in_example = [&](const Expr& e) {
      return InExample(e) && absl::c_none_of(e.Symbols(), [](const std::string& s) { return s[0] == 'u'; });
    };
    for (const OpArg& a : call->args()) {
      if (a.IsTensor() && a.tensor.sizes && !absl::c_all_of(*a.tensor.sizes, in_example)) return absl::OkStatus();
    }
    const auto results = InferCall(OpCall(info.functional, call->args()), hinted_);
    if (absl::IsInvalidArgument(results.status()) && !IsUndecided(results.status())) {
      return Fail(g_, n, results.status().message());
    }
    if (!results.ok() || results->size() != 1 || !call->arg(0).IsTensor() || !(*results)[0].type.IsTensor())
      return absl::OkStatus();
    const TensorType &self = call->arg(0).tensor, &result = (*results)[0].type.tensor();
    if (!self.sizes || !result.sizes) return absl::OkStatus();
    bool fits = self.rank() == result.rank();
    for (int d = 0; d < self.rank() && fits; ++d) fits = !Contradict((*self.sizes)[d], (*result.sizes)[d]);
    if (fits) return absl::OkStatus();
    return Fail(g_, n, "argument \"", written->arguments[0].name, "\" is ", Type::Tensor(self).ToString(),
                ", but the result to be written to it is ", Type::Tensor(result).ToString());
  }

  // Checks a value that a condition or a loop passes from one block to another.
  absl::Status CheckHanded(NodeId n, ValueId from, ValueId to, absl::string_view what) const {
    const Type &a = g_.value(to).type, &b = g_.value(from).type;
    std::string field = Difference(a, b, Strides::kAny);
    if (field.empty() || absl::StartsWith(field, "size")) return absl::OkStatus();  // another round's may be others
    return Fail(g_, n, what, ": the ", field, " of %", g_.value(to).name, " is declared otherwise than that of %",
                g_.value(from).name, ": ", a.ToString(), " and ", b.ToString());
  }

  absl::Status CheckBlocks(NodeId n) {
    const Node& node = g_.node(n);
    const std::string& name = node.op.name();
    const bool loop = name == "prim::Loop", both = name == "smelt::while_loop", cond = name == "smelt::cond";
    if (!loop && !both && !cond && name != "prim::If") return absl::OkStatus();
    for (size_t k = 0; k < node.blocks.size(); ++k) {
      const BlockId b = node.blocks[k];
      const size_t first_input = loop ? 2 : cond ? 1 : 0, first_param = loop ? 1 : 0;
      const size_t first_result = loop ? 1 : 0;
      const auto params = g_.params(b), results = g_.results(b);
      for (size_t i = 0; i + first_param < params.size() && i + first_input < node.inputs.size(); ++i) {
        SMELT_RETURN_IF_ERROR(CheckHanded(n, node.inputs[i + first_input], params[i + first_param], "an operand"));
      }
      if (both && k == 0) continue;  // the condition
      for (size_t i = 0; i + first_result < results.size() && i < node.outputs.size(); ++i) {
        SMELT_RETURN_IF_ERROR(CheckHanded(n, results[i + first_result], node.outputs[i], "a result"));
      }
    }
    return absl::OkStatus();
  }

  Graph& g_;
  SymbolRanges hinted_;
};

}  // namespace

ValueId InsertArgument(Graph& g, NodeId anchor, const ConstantValue& c, const Type& formal) {
  const Type& base = Inner(formal);
  const bool list = base.kind() == TypeKind::kList;
  ValueId v;
  if (base.kind() == TypeKind::kFloat && std::holds_alternative<int64_t>(c)) {
    v = InsertConstant(g, anchor, static_cast<double>(std::get<int64_t>(c)));
  } else if (list && base.element().kind() == TypeKind::kFloat && std::holds_alternative<std::vector<int64_t>>(c)) {
    const auto& ints = std::get<std::vector<int64_t>>(c);
    v = InsertConstant(g, anchor, std::vector<double>(ints.begin(), ints.end()));
  } else if (list && base.element().kind() == TypeKind::kInt && std::holds_alternative<int64_t>(c)) {
    v = InsertConstant(g, anchor, std::vector<int64_t>{std::get<int64_t>(c)});
  } else {
    v = InsertConstant(g, anchor, c);
  }
  if (std::holds_alternative<std::string>(c) && base.kind() == TypeKind::kDevice) g.SetType(v, Type::Device());
  return v;
}

absl::Status FillArguments(Graph& g) {
  for (NodeId n : g.AllNodes()) {
    const FunctionSchema* schema = FindSchema(g.node(n).op);
    if (schema == nullptr) continue;
    for (size_t k = g.node(n).inputs.size(); k < schema->arguments.size(); ++k) {
      const Argument& a = schema->arguments[k];
      if (!a.default_value) {
        return Fail(g, n, "expected ", schema->arguments.size(), " inputs, found ", k, ", and \"", a.name,
                    "\" has no default; its schema is ", schema->ToString());
      }
      g.AddNodeInput(n, InsertArgument(g, n, *a.default_value, a.type));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckArgumentKinds(const Graph& g) { return CheckKinds(g, 0); }

absl::Status CheckDeclaredTypes(Graph& g) { return TypeChecker(g).Run(0); }

absl::Status CheckArguments(Graph& g) {
  if (const absl::Status sound = VerifyGraph(g); !sound.ok()) return absl::InvalidArgumentError(sound.message());
  SMELT_RETURN_IF_ERROR(FillArguments(g));
  SMELT_RETURN_IF_ERROR(VerifySchemas(g, {.check_types = false}));
  return CheckArgumentKinds(g);
}

absl::Status CheckModel(Graph& g) {
  SMELT_RETURN_IF_ERROR(CheckArguments(g));
  return CheckDeclaredTypes(g);
}

}  // namespace smelt

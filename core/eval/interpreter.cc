#include "smelt/core/eval/interpreter.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/cause.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/eval/elements.h"
#include "smelt/core/op/branch.h"
#include "smelt/core/op/traits.h"
#include "smelt/exec/write_protocol.h"

namespace smelt::eval_internal {
namespace {

using Symbols = absl::flat_hash_map<std::string, int64_t>;

absl::StatusOr<std::vector<int64_t>> EvaluateAll(absl::Span<const Expr> exprs, const Symbols& symbols) {
  std::vector<int64_t> out;
  for (const Expr& e : exprs) {
    SMELT_ASSIGN_OR_RETURN(int64_t v, e.Evaluate(symbols));
    out.push_back(v);
  }
  return out;
}

bool IsControl(OpName op) { return IsBranch(op) || op == "prim::Loop" || op == "smelt::while_loop"; }

// Collects the tensors in a value, including those in lists.
void Collect(const EvalValue& v, std::vector<Tensor>& out) {
  if (v.IsTensor() && v.tensor().defined()) out.push_back(v.tensor());
  if (v.IsList()) {
    for (const EvalValue& e : v.elements()) Collect(e, out);
  }
}

// Computes the symbol of a size like 2*s0 + 1 from the size's value.
void BindLinear(const Expr& size, int64_t value, Symbols& symbols) {
  const std::vector<std::string> names = size.Symbols();
  if (names.size() != 1 || symbols.contains(names[0])) return;
  const auto at0 = size.Evaluate({{names[0], 0}}), at1 = size.Evaluate({{names[0], 1}}),
             at7 = size.Evaluate({{names[0], 7}});
  if (!at0.ok() || !at1.ok() || !at7.ok()) return;
  const int64_t scale = *at1 - *at0;
  if (scale == 0 || *at7 != *at0 + 7 * scale || (value - *at0) % scale != 0) return;
  symbols.emplace(names[0], (value - *at0) / scale);
}

class Interpreter {
 public:
  Interpreter(State& state, const Graph& g, Symbols symbols)
      : state_(state), g_(g), symbols_(std::move(symbols)), env_(g.value_index_bound()) {
    for (NodeId n : g.AllNodes()) {
      const std::string& name = g.node(n).op.name();
      if (name == "smelt::view" || name == "smelt::write_region" || name == "smelt::materialize") pure_ = true;
    }
    pure_ = pure_ || state.pure;
  }

  absl::StatusOr<Values> Run(absl::Span<const EvalValue> inputs) {
    SMELT_RETURN_IF_ERROR(BindSymbols(g_, inputs, symbols_));
    Bind(g_.inputs(), inputs);
    SMELT_RETURN_IF_ERROR(RunBlock(g_.top()));
    return Get(g_.outputs());
  }
  const Symbols& symbols() const { return symbols_; }

 private:
  void Bind(absl::Span<const ValueId> values, absl::Span<const EvalValue> with) {
    for (size_t i = 0; i < values.size() && i < with.size(); ++i) Set(values[i], with[i]);
  }
  void Set(ValueId v, EvalValue x) {
    // A number that only the data determines.
    const std::optional<Expr>& e = g_.value(v).expr;
    if (e && e->IsSymbol() && x.IsInt()) symbols_[e->SymbolName()] = x.as_int();
    if (state_.options.observer != nullptr) state_.options.observer->OnValue(g_, v, x);
    env_[v.index] = std::move(x);
  }
  Values Get(absl::Span<const ValueId> values) const {
    Values out;
    for (ValueId v : values) out.push_back(env_[v.index]);
    return out;
  }

  absl::Status RunBlock(BlockId b) {
    for (NodeId n = g_.block(b).first; g_.IsLive(n); n = g_.node(n).next) {
      if (++state_.steps > state_.options.max_steps)
        return absl::ResourceExhaustedError("the evaluator has run too many nodes: a loop does not end");
      absl::Status s = RunNode(n);
      if (!s.ok()) {
        const Node& node = g_.node(n);
        if (node.source != nullptr && !node.source->ToString().empty()) return Annotate(s, node.source->ToString());
        return s;
      }
    }
    return absl::OkStatus();
  }

  absl::Status RunNode(NodeId n) {
    const Node& node = g_.node(n);
    const std::string& name = node.op.name();
    if (name == "prim::Constant") {
      const std::optional<ConstantValue> c = GetConstant(g_, node.outputs[0]);
      Set(node.outputs[0], c ? FromConstant(*c) : EvalValue());
      return absl::OkStatus();
    }
    const Values args = Get(node.inputs);
    if (IsControl(node.op)) return RunControl(n, args);
    Observe(n, args);
    SMELT_ASSIGN_OR_RETURN(Values results, Compute(node, args));
    if (results.size() < node.outputs.size())
      return absl::InternalError(
          absl::StrCat(node.op.full(), " gave ", results.size(), " results, the node has ", node.outputs.size()));
    if (pure_ && name != "smelt::view") SMELT_RETURN_IF_ERROR(OwnMemory(node, args, results));
    Bind(node.outputs, results);
    return absl::OkStatus();
  }

  absl::StatusOr<Values> Compute(const Node& node, const Values& args) {
    const std::string& name = node.op.name();
    if (absl::StartsWith(name, "smelt::")) return ComputeOwn(node, args);
    if (name == "prim::ListConstruct") {
      // The list is made anew each time the node runs.
      return Values{EvalValue::List(args)};
    }
    if (name == "prim::TupleConstruct") return Values{EvalValue::Tuple(args)};
    if (name == "prim::DictConstruct") {
      EvalValue d = EvalValue::Dict();
      for (size_t i = 0; i + 1 < args.size(); i += 2) d.dict().items.push_back({args[i], args[i + 1]});
      return Values{d};
    }
    if (name == "prim::ListUnpack" || name == "prim::TupleUnpack") {
      if (args.empty() || !args[0].IsList()) return absl::InvalidArgumentError(absl::StrCat(name, " of no list"));
      if (args[0].elements().size() != node.outputs.size()) {
        return absl::InvalidArgumentError(absl::StrCat("a list of ", args[0].elements().size(), " is unpacked into ",
                                                       node.outputs.size(), " values"));
      }
      return args[0].elements();
    }
    if (name == "prim::Uninitialized") return Values(node.outputs.size());
    if (name == "prim::Print") return Values();
    if (name == "prim::RaiseException") {
      return absl::FailedPreconditionError(absl::StrCat("the model raises: ", args.empty() ? "" : args[0].ToString()));
    }
    if (name == "prim::unchecked_cast" || name == "prim::unchecked_unwrap_optional") return Values{args[0]};
    if (name == "prim::TupleSlice") {
      const auto* begin = node.FindAttribute("beg");
      const auto* end = node.FindAttribute("end");
      if (args.empty() || !args[0].IsList() || begin == nullptr || end == nullptr)
        return absl::InvalidArgumentError("prim::TupleSlice without bounds");
      const std::vector<EvalValue>& e = args[0].elements();
      const int64_t lo = std::clamp<int64_t>(std::get<int64_t>(*begin), 0, e.size());
      const int64_t hi = std::clamp<int64_t>(std::get<int64_t>(*end), lo, e.size());
      return Values{EvalValue::Tuple(Values(e.begin() + lo, e.begin() + hi))};
    }
    if (name == "prims::convert_element_type" && args.size() == 2) {
      return eval_internal::Run(
          state_, OpName::Get("aten::_to_copy"),
          Values{args[0], args[1], EvalValue(), EvalValue(), EvalValue(), EvalValue(false), EvalValue()});
    }
    if (name == "aten::amax" && node.FindAttribute("may_be_of_nothing") != nullptr && args[0].IsTensor() &&
        args[0].tensor().NumElements() == 0) {
      // Any value of the right shape.
      return eval_internal::Run(state_, OpName::Get("aten::sum.dim_IntList"),
                                Values{args[0], args[1], args[2], EvalValue()});
    }
    return eval_internal::Run(state_, node.op, args);
  }

  // --- smelt's own operators ---
  const Expr* ExprOf(const Node& node, absl::string_view key, Expr& storage) const {
    const Attribute* a = node.FindAttribute(key);
    if (a == nullptr) return nullptr;
    if (const Expr* e = std::get_if<Expr>(a)) return e;
    if (const int64_t* i = std::get_if<int64_t>(a)) {
      storage = Expr(*i);
      return &storage;
    }
    return nullptr;
  }
  absl::StatusOr<std::vector<int64_t>> IntsOf(const Node& node, absl::string_view key) const {
    const Attribute* a = node.FindAttribute(key);
    if (a != nullptr) {
      if (const auto* e = std::get_if<std::vector<Expr>>(a)) return EvaluateAll(*e, symbols_);
      if (const auto* i = std::get_if<std::vector<int64_t>>(a)) return *i;
    }
    return absl::InvalidArgumentError(absl::StrCat(node.op.full(), ": attribute \"", key, "\" is missing"));
  }
  // Returns the argument from which a region counts: the node's own or, for a view of views, the one that they name.
  const Attribute* HomeOf(const Node& node) const {
    for (const Node* n = &node;;) {
      if (const Attribute* home = n->FindAttribute("argument")) return home;
      const NodeId def = g_.value(n->inputs[0]).def;
      if (g_.IsParam(def) || g_.node(def).op != "smelt::view") return nullptr;
      n = &g_.node(def);
    }
  }

  // Returns the region in `base`'s storage that a node's attributes describe.
  absl::StatusOr<Tensor> RegionOf(const Node& node, const Tensor& base) const {
    Geometry g;
    SMELT_ASSIGN_OR_RETURN(g.sizes, IntsOf(node, "sizes"));
    SMELT_ASSIGN_OR_RETURN(g.strides, IntsOf(node, "strides"));
    if (g.sizes.size() != g.strides.size())
      return absl::InvalidArgumentError(absl::StrCat(node.op.full(), ": as many strides as sizes are needed"));
    Expr storage;
    const Expr* offset = ExprOf(node, "offset", storage);
    const Attribute* code = node.FindAttribute("dtype");
    if (offset == nullptr || code == nullptr || !std::holds_alternative<int64_t>(*code))
      return absl::InvalidArgumentError(absl::StrCat(node.op.full(), ": attributes are missing"));
    const std::optional<DType> dtype = DTypeFromScalarType(std::get<int64_t>(*code));
    if (!dtype) return absl::InvalidArgumentError(absl::StrCat(node.op.full(), ": no such dtype"));
    SMELT_ASSIGN_OR_RETURN(g.offset, offset->Evaluate(symbols_));
    int64_t origin = 0;
    const Attribute* argument = HomeOf(node);
    if (argument != nullptr && std::holds_alternative<int64_t>(*argument)) {
      auto it = state_.argument_origins.find(static_cast<int>(std::get<int64_t>(*argument)));
      if (it == state_.argument_origins.end())
        return absl::InvalidArgumentError(absl::StrCat(node.op.full(), ": no such argument"));
      origin = it->second;
    } else if (auto it = state_.origins.find(base.storage().get()); it != state_.origins.end()) {
      origin = it->second;
    }
    if (origin % ItemSize(*dtype) != 0)
      return WithCause(
          absl::InvalidArgumentError(absl::StrCat(node.op.full(), ": memory is not aligned for ", Name(*dtype))),
          Cause::kUnaligned);
    g.offset += origin / ItemSize(*dtype);
    for (int64_t s : g.sizes) {
      if (s < 0) return absl::InvalidArgumentError(absl::StrCat(node.op.full(), ": a size is negative"));
    }
    Tensor t = base.ViewAs(*dtype, g);
    if (!t.InBounds()) {
      return absl::InvalidArgumentError(absl::StrCat(node.op.full(), ": the region ", g.ToString(), " of ",
                                                     Name(*dtype), " is out of bounds for a storage of ",
                                                     base.storage()->bytes(), " bytes"));
    }
    return t;
  }
  absl::StatusOr<Tensor> TensorOf(const Node& node, const Values& args, size_t i) const {
    if (i >= args.size() || !args[i].IsTensor())
      return absl::InvalidArgumentError(absl::StrCat(node.op.full(), ": argument ", i, " is no tensor"));
    return args[i].tensor();
  }

  // A case for each of smelt's own operators. Each is a few lines, and shares nothing with the others.
  absl::StatusOr<Values> ComputeOwn(const Node& node, const Values& args) {
    const std::string& name = node.op.name();
    if (name == "smelt::view") {
      SMELT_ASSIGN_OR_RETURN(Tensor base, TensorOf(node, args, 0));
      SMELT_ASSIGN_OR_RETURN(Tensor t, RegionOf(node, base));
      return Values{EvalValue(t)};
    }
    if (name == "smelt::write_region" || name == "smelt::overlay") {
      SMELT_ASSIGN_OR_RETURN(Tensor base, TensorOf(node, args, 0));
      SMELT_ASSIGN_OR_RETURN(Tensor value, TensorOf(node, args, 1));
      SMELT_ASSIGN_OR_RETURN(Tensor checked, RegionOf(node, base));
      std::shared_ptr<Storage> copy = Storage::Allocate(base.storage()->bytes());
      if (copy->bytes() > 0) std::memcpy(copy->data(), base.storage()->data(), copy->bytes());
      if (auto it = state_.origins.find(base.storage().get()); it != state_.origins.end()) {
        const int64_t origin = it->second;
        state_.origins[copy.get()] = origin;
      }
      state_.kept.push_back(copy);  // so that no other storage takes its place in `origins`
      const Tensor result(copy, base.dtype(), base.geometry());
      if (value.dtype() != checked.dtype())
        return absl::InvalidArgumentError(absl::StrCat(name, ": the value has another dtype than the region"));
      SMELT_RETURN_IF_ERROR(CopyInto(result.ViewAs(checked.dtype(), checked.geometry()), value));
      return Values{EvalValue(result)};
    }
    if (name == "smelt::materialize") {
      SMELT_ASSIGN_OR_RETURN(Tensor value, TensorOf(node, args, 0));
      SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> strides, IntsOf(node, "strides"));
      if (static_cast<int>(strides.size()) != value.rank())
        return absl::InvalidArgumentError("smelt::materialize: one stride for each dim is needed");
      return Values{EvalValue(CopyWithStrides(value, strides))};
    }
    if (name == "smelt::full") {
      const Type& type = g_.value(node.outputs[0]).type;
      if (!type.IsTensor() || !type.tensor().IsComplete())
        return absl::InvalidArgumentError("smelt::full: its type is not complete");
      SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> sizes, EvaluateAll(*type.tensor().sizes, symbols_));
      SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> strides, EvaluateAll(*type.tensor().strides, symbols_));
      SMELT_ASSIGN_OR_RETURN(Tensor t, NewTensor(state_, *type.tensor().dtype, sizes, strides));
      EvalValue value(0.0);
      if (const Attribute* a = node.FindAttribute("value"); a != nullptr) {
        if (const auto* d = std::get_if<double>(a)) value = EvalValue(*d);
        if (const auto* i = std::get_if<int64_t>(a)) value = EvalValue(*i);
        if (const auto* b = std::get_if<bool>(a)) value = EvalValue(*b);
      }
      SMELT_RETURN_IF_ERROR(CopyInto(t, ScalarTensor(t.dtype(), value)));
      return Values{EvalValue(t)};
    }
    if (name == "smelt::assert_computed") return Values();  // it has been
    if (name == "smelt::assert_size") {
      SMELT_ASSIGN_OR_RETURN(int64_t v, std::get<Expr>(*node.FindAttribute("value")).Evaluate(symbols_));
      if (v == 0) return absl::FailedPreconditionError(std::get<std::string>(*node.FindAttribute("message")));
      return Values();
    }
    if (name == "smelt::size" || name == "smelt::expr") {
      Expr storage;
      const Expr* e = ExprOf(node, "value", storage);
      if (e == nullptr && !node.outputs.empty() && g_.value(node.outputs[0]).expr) {
        storage = *g_.value(node.outputs[0]).expr;
        e = &storage;
      }
      if (e == nullptr) return absl::InvalidArgumentError(absl::StrCat(name, " without an expression"));
      SMELT_ASSIGN_OR_RETURN(int64_t v, e->Evaluate(symbols_));
      return Values{EvalValue(v)};
    }
    if (name == "smelt::FusionGroup") {
      const Attribute* a = node.FindAttribute("Subgraph");
      const auto* sub = a == nullptr ? nullptr : std::get_if<std::shared_ptr<Graph>>(a);
      if (sub == nullptr || *sub == nullptr) return absl::InvalidArgumentError("smelt::FusionGroup without a Subgraph");
      const bool before = state_.pure;
      state_.pure = true;
      absl::StatusOr<Values> results = RunGraph(state_, **sub, args, symbols_);
      state_.pure = before;
      return results;
    }
    if (name == "smelt::assert_no_internal_overlap" || name == "smelt::assert_no_partial_overlap" ||
        name == "smelt::assert_no_overlap") {
      Call c;
      c.state = &state_;
      c.op = OpCall(node.op, {});
      SMELT_ASSIGN_OR_RETURN(Tensor written, TensorOf(node, args, 0));
      if (name == "smelt::assert_no_internal_overlap") {
        if (absl::Status s = CheckNotExpanded(c, written); !s.ok()) {
          if (node.FindAttribute("in_order") != nullptr) return DependsOnOrderError();
          return absl::FailedPreconditionError(s.message());
        }
        SMELT_RETURN_IF_ERROR(CheckOrder(c, written, written));
      } else {
        SMELT_ASSIGN_OR_RETURN(Tensor read, TensorOf(node, args, 1));
        // One value stands for all names of a tensor here: being the same value does not make it the same name.
        read = read.View(read.geometry());
        if (name == "smelt::assert_no_overlap") {
          const auto rule = static_cast<OperandSharing>(std::get<int64_t>(*node.FindAttribute("rule")));
          SMELT_RETURN_IF_ERROR(CheckOperand(c, written, read, rule));
          if (rule == OperandSharing::kNone && IsReadWhileWritten(written, read)) return DependsOnOrderError();
        } else {
          SMELT_RETURN_IF_ERROR(CheckOperand(c, written, read, OperandSharing::kNotPartly));
          SMELT_RETURN_IF_ERROR(CheckOrder(c, written, read));
        }
      }
      return Values();
    }
    if (absl::StartsWith(name, "smelt::inplace_")) {
      // Runs the pure operator; whether the result may reuse its first argument's memory concerns only the plan.
      return eval_internal::Run(
          state_, OpName::Get(absl::StrCat("aten::", node.op.full().substr(sizeof("smelt::inplace_") - 1))), args);
    }
    if (name == "smelt::nonzero") return eval_internal::Run(state_, OpName::Get("aten::nonzero"), {args[0]});
    if (name == "smelt::bincount") {
      return eval_internal::Run(state_, OpName::Get("aten::bincount"),
                                {args[0], args.size() > 2 ? args[2] : EvalValue(), args[1]});
    }
    if (name == "smelt::unique" || name == "smelt::unique_count") {
      const auto* consecutive = std::get_if<int64_t>(node.FindAttribute("consecutive"));
      const EvalValue yes(true);
      absl::StatusOr<Values> found =
          consecutive != nullptr && *consecutive != 0
              ? eval_internal::Run(state_, OpName::Get("aten::unique_consecutive"), {args[0], yes, yes, EvalValue()})
              : eval_internal::Run(state_, OpName::Get("aten::_unique2"), {args[0], yes, yes, yes});
      if (!found.ok() || name == "smelt::unique") return found;
      return Values{EvalValue(ScalarTensor(DType::kInt64, EvalValue((*found)[0].tensor().NumElements())))};
    }
    if (GetOpTraits(node.op).library == LibraryCall::kPlain) return eval_internal::Run(state_, node.op, args);
    return absl::UnimplementedError(absl::StrCat(node.op.full(), " is not supported by the evaluator"));
  }

  // In a pure graph every result has its own memory, laid out as its type says.
  absl::Status OwnMemory(const Node& node, const Values& args, Values& results) {
    if (node.op.name() == "smelt::write_region") return absl::OkStatus();
    // The memory that a group writes has contents too: other regions count from the same byte of it.
    const Graph* group = nullptr;
    if (const Attribute* a = node.FindAttribute("Subgraph"); a != nullptr && node.op == "smelt::FusionGroup")
      group = std::get<std::shared_ptr<Graph>>(*a).get();
    std::vector<Tensor> inputs;
    for (const EvalValue& a : args) Collect(a, inputs);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (!results[i].IsTensor()) continue;
      if (group != nullptr) {
        const NodeId def = group->value(group->outputs()[i]).def;
        if (!group->IsParam(def) && group->node(def).op == "smelt::write_region") continue;
      }
      const Tensor& t = results[i].tensor();
      std::vector<int64_t> strides(t.strides().begin(), t.strides().end());
      bool copy = t.offset() != 0;
      for (const Tensor& in : inputs) copy = copy || in.storage() == t.storage();
      const Type& type = g_.value(node.outputs[i]).type;
      if (type.IsTensor() && type.tensor().IsComplete() && type.tensor().rank() == t.rank()) {
        SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> sizes, EvaluateAll(*type.tensor().sizes, symbols_));
        SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> wanted, EvaluateAll(*type.tensor().strides, symbols_));
        if (absl::MakeSpan(sizes) != t.sizes() || *type.tensor().dtype != t.dtype()) {
          return absl::InternalError(absl::StrCat(node.op.full(), ": its type says ", type.ToString(), ", it gave ",
                                                  Name(t.dtype()), " ", t.geometry().ToString()));
        }
        copy = copy || wanted != strides;
        strides = std::move(wanted);
      }
      if (copy) results[i] = EvalValue(CopyWithStrides(t, strides));
    }
    return absl::OkStatus();
  }

  // --- control flow ---
  absl::StatusOr<Values> RunInner(BlockId b, absl::Span<const EvalValue> params) {
    if (g_.params(b).size() > params.size())
      return absl::InvalidArgumentError("a block takes more values than it gets");
    Bind(g_.params(b), params);
    SMELT_RETURN_IF_ERROR(RunBlock(b));
    return Get(g_.results(b));
  }
  absl::StatusOr<bool> Condition(const EvalValue& v) const {
    if (v.IsTensor() && v.tensor().NumElements() != 1)
      return absl::InvalidArgumentError("Boolean value of Tensor with more than one value is ambiguous");
    if (!v.IsTensor() && !v.IsNumber()) return absl::InvalidArgumentError("a condition that is no number");
    return ToBool(v);
  }
  absl::Status RunControl(NodeId n, const Values& args) {
    const Node& node = g_.node(n);
    const std::string& name = node.op.name();
    const std::vector<BlockId> blocks(node.blocks.begin(), node.blocks.end());
    Values results;
    if (IsBranch(node.op)) {
      if (blocks.size() != 2 || args.empty())
        return absl::InvalidArgumentError(absl::StrCat(name, " needs two blocks"));
      SMELT_ASSIGN_OR_RETURN(bool which, Condition(args[0]));
      SMELT_ASSIGN_OR_RETURN(results, RunInner(blocks[which ? 0 : 1], absl::MakeSpan(args).subspan(1)));
    } else if (name == "prim::Loop") {
      if (blocks.size() != 1 || args.size() < 2)
        return absl::InvalidArgumentError("prim::Loop needs a block and bounds");
      const int64_t trips = ToInt(args[0]);
      SMELT_ASSIGN_OR_RETURN(bool go, Condition(args[1]));
      Values carried(args.begin() + 2, args.end());
      for (int64_t i = 0; go && i < trips; ++i) {
        Values params = {EvalValue(i)};
        params.insert(params.end(), carried.begin(), carried.end());
        SMELT_ASSIGN_OR_RETURN(Values r, RunInner(blocks[0], params));
        if (r.size() != carried.size() + 1)
          return absl::InvalidArgumentError("prim::Loop: its block returns another number of values than are carried");
        SMELT_ASSIGN_OR_RETURN(go, Condition(r[0]));
        carried.assign(r.begin() + 1, r.end());
        if (++state_.steps > state_.options.max_steps)
          return absl::ResourceExhaustedError("the evaluator has run too many nodes: a loop does not end");
      }
      results = std::move(carried);
    } else {
      if (blocks.size() != 2) return absl::InvalidArgumentError("smelt::while_loop needs two blocks");
      Values carried = args;
      for (bool first = true;; first = false) {
        SMELT_ASSIGN_OR_RETURN(Values c, RunInner(blocks[0], carried));
        if (c.empty()) return absl::InvalidArgumentError("smelt::while_loop: its condition returns nothing");
        SMELT_ASSIGN_OR_RETURN(bool go, Condition(c[0]));
        if (!go && first) {
          // PyTorch returns copies if the body never runs.
          for (EvalValue& v : carried) {
            if (v.IsTensor()) {
              SMELT_ASSIGN_OR_RETURN(Tensor copy, Run1(state_, "aten::clone", {v, EvalValue()}));
              v = EvalValue(copy);
            }
          }
        }
        if (!go) break;
        SMELT_ASSIGN_OR_RETURN(Values r, RunInner(blocks[1], carried));
        if (r.size() > carried.size())
          return absl::InvalidArgumentError("smelt::while_loop: its body returns more values than are carried");
        std::copy(r.begin(), r.end(), carried.begin());
        if (++state_.steps > state_.options.max_steps)
          return absl::ResourceExhaustedError("the evaluator has run too many nodes: a loop does not end");
      }
      results = std::move(carried);
    }
    if (results.size() < node.outputs.size())
      return absl::InvalidArgumentError(absl::StrCat(name, ": fewer results than outputs"));
    Bind(node.outputs, results);
    return absl::OkStatus();
  }

  void Observe(NodeId n, const Values& args) {
    if (state_.options.observer == nullptr) return;
    const Node& node = g_.node(n);
    const OpKind kind = GetOpInfo(node.op).kind;
    std::vector<Tensor> read, written;
    const FunctionSchema* schema = FindSchema(node.op);
    const std::string& name = node.op.name();
    const bool geometry_only = kind == OpKind::kView || kind == OpKind::kInplaceView || kind == OpKind::kContainer ||
                               name == "aten::set_" || name == "aten::resize_" || name == "aten::resize_as_" ||
                               absl::StartsWith(name, "prim::");
    for (size_t i = 0; !geometry_only && i < args.size(); ++i) {
      const bool writes = schema != nullptr && i < schema->arguments.size() &&
                          (schema->arguments[i].alias.is_write ||
                           std::any_of(
                               schema->arguments[i].alias.contained.begin(), schema->arguments[i].alias.contained.end(),
                               [](const AliasInfo& a) { return a.is_write; }));
      const bool only_written = writes && (schema->arguments[i].kw_only || name == "aten::copy_" ||
                                           name == "aten::fill_" || name == "aten::zero_");
      if (writes) Collect(args[i], written);
      if (!only_written) Collect(args[i], read);
    }
    state_.options.observer->OnNode(g_, n, read, written);
  }

  State& state_;
  const Graph& g_;
  Symbols symbols_;
  std::vector<EvalValue> env_;  // by ValueId::index
  bool pure_ = false;
};

}  // namespace

absl::Status BindSymbols(const Graph& g, absl::Span<const EvalValue> inputs,
                         absl::flat_hash_map<std::string, int64_t>& symbols) {
  if (inputs.size() != g.inputs().size())
    return absl::InvalidArgumentError(
        absl::StrCat("the graph takes ", g.inputs().size(), " inputs, ", inputs.size(), " are given"));
  // First binds symbols that are an input's size, then those that follow (2*s0 is 6), then checks that all agree.
  for (int pass = 0; pass < 3; ++pass) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Value& v = g.value(g.inputs()[i]);
      const EvalValue& x = inputs[i];
      auto error = [&] {
        return absl::InvalidArgumentError(
            absl::StrCat("input %", v.name, " is ", x.ToString(), ", expected ", v.type.ToString()));
      };
      if (v.expr && x.IsInt()) {
        if (pass == 0 && v.expr->IsSymbol()) symbols.try_emplace(v.expr->SymbolName(), x.as_int());
        if (pass == 2) {
          SMELT_ASSIGN_OR_RETURN(int64_t want, v.expr->Evaluate(symbols));
          if (want != x.as_int()) return error();
        }
      }
      if (!v.type.IsTensor()) continue;
      if (!x.IsTensor()) return error();
      const TensorType& t = v.type.tensor();
      const Tensor& value = x.tensor();
      if (pass == 0) {
        symbols.try_emplace(absl::StrCat(v.name, ".offset"), value.offset());
        for (int d = 0; d < value.rank(); ++d)
          symbols.try_emplace(absl::StrCat(v.name, ".stride", d), value.strides()[d]);
      }
      if (t.dtype && *t.dtype != value.dtype()) return error();
      if (!t.sizes) continue;
      if (t.rank() != value.rank()) return error();
      for (int d = 0; d < t.rank(); ++d) {
        const Expr& s = (*t.sizes)[d];
        if (s.IsPoison()) continue;
        if (pass == 0 && s.IsSymbol()) symbols.try_emplace(s.SymbolName(), value.sizes()[d]);
        if (pass == 1) BindLinear(s, value.sizes()[d], symbols);
        if (pass == 2) {
          absl::StatusOr<int64_t> want = s.Evaluate(symbols);
          if (want.ok() && *want != value.sizes()[d]) return error();
        }
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<EvalValue>> RunGraph(State& state, const Graph& g, absl::Span<const EvalValue> inputs,
                                                absl::flat_hash_map<std::string, int64_t> symbols,
                                                absl::flat_hash_map<std::string, int64_t>* symbols_after) {
  Interpreter interpreter(state, g, std::move(symbols));
  SMELT_ASSIGN_OR_RETURN(Values outputs, interpreter.Run(inputs));
  if (symbols_after != nullptr) *symbols_after = interpreter.symbols();
  return outputs;
}

}  // namespace smelt::eval_internal

#include "smelt/pipeline/eager_plan.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/ir/text.h"
#include "smelt/core/op/data_refusals.h"
#include "smelt/core/op/declare.h"
#include "smelt/core/op/decompose.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/op/traits.h"
#include "smelt/core/op/write_rules.h"
#include "smelt/functionalize/functional_counterpart.h"
#include "smelt/functionalize/functionalize.h"
#include "smelt/functionalize/open_composites.h"
#include "smelt/pipeline/call_graph.h"
#include "smelt/pipeline/expected_types.h"
#include "smelt/pipeline/passes.h"
#include "smelt/pipeline/resized_states.h"
#include "smelt/pipeline/result_layout.h"
#include "smelt/schema/eager_ops.h"

namespace smelt {
namespace {

bool IsTensorValue(const Graph& g, ValueId v) { return g.value(v).type.IsTensor(); }

std::optional<DType> DTypeOf(const Graph& g, ValueId v) {
  return IsTensorValue(g, v) ? g.value(v).type.tensor().dtype : std::nullopt;
}

class EagerBuilder {
 public:
  EagerBuilder(Graph& g, BundleBuilder& builder)
      : g_(g), builder_(builder), program_(std::make_unique<fb::EagerProgramT>()) {}

  absl::StatusOr<std::unique_ptr<fb::EagerProgramT>> Run() {
    program_->states.assign(g_.weights.size(), -1);
    changes_dims_ = ChangesDims(g_.top());
    for (ValueId v : g_.inputs()) NoteSymbols(v);
    for (size_t i = 0; i < g_.inputs().size(); ++i) {
      const InputInfo& info = g_.input_infos[i];
      if (info.kind == InputInfo::Kind::kUser) {
        program_->args.push_back(Number(g_.inputs()[i]));
      } else if (program_->states[info.weight] >= 0) {
        numbers_[g_.inputs()[i]] = program_->states[info.weight];
      } else {
        program_->states[info.weight] = Number(g_.inputs()[i]);
      }
    }
    program_->blocks.push_back(std::make_unique<fb::EagerBlockT>());
    SMELT_RETURN_IF_ERROR(Block(g_.top(), 0));
    for (ValueId v : g_.outputs()) {
      if (g_.value(v).type.kind() == TypeKind::kList) return absl::UnimplementedError("a list as an output");
      program_->outputs.push_back(Number(v));
    }
    program_->num_values = next_;
    std::vector<std::vector<int64_t>> sizes;
    for (const Weight& w : g_.weights) sizes.push_back(w.geometry.sizes);
    LetStatesHaveOtherSizes(sizes, std::move(changed_sizes_), *program_);
    return std::move(program_);
  }

 private:
  bool ChangesDims(BlockId b) const {
    for (NodeId n : g_.Nodes(b)) {
      const Node& node = g_.node(n);
      if (GetOpInfo(node.op).kind == OpKind::kInplaceView || GetOpTraits(node.op).resizes) return true;
      for (BlockId inner : node.blocks) {
        if (ChangesDims(inner)) return true;
      }
    }
    return false;
  }
  // Returns the number of a value; values that are one tensor have one number.
  int Number(ValueId v) {
    auto [it, fresh] = numbers_.try_emplace(v, next_);
    if (fresh) ++next_;
    return it->second;
  }
  int NumberOf(ValueId v) { return Number(v); }

  fb::EagerInstrT& Emit(fb::EagerKind kind, NodeId n) {
    auto i = std::make_unique<fb::EagerInstrT>();
    i->kind = kind;
    if (g_.node(n).source != nullptr) i->source = g_.node(n).source->ToString();
    program_->blocks[block_]->instrs.push_back(std::move(i));
    return *program_->blocks[block_]->instrs.back();
  }
  void Inputs(fb::EagerInstrT& i, NodeId n) {
    for (ValueId v : g_.node(n).inputs) i.inputs.push_back(Number(v));
  }
  void Outputs(fb::EagerInstrT& i, NodeId n) {
    for (ValueId v : g_.node(n).outputs) i.outputs.push_back(Number(v));
  }

  absl::Status Block(BlockId b, int index) {
    const int outer = block_;
    block_ = index;
    for (ValueId v : g_.params(b)) {
      if (b != g_.top()) program_->blocks[index]->params.push_back(Number(v));
    }
    for (NodeId n : g_.Nodes(b)) {
      absl::Status s = EmitNode(n);
      for (ValueId v : g_.node(n).outputs) NoteSymbols(v);
      if (!s.ok()) {
        const Node& node = g_.node(n);
        if (!node.blocks.empty()) return s;
        return Annotate(
            s, node.source ? absl::StrCat(node.op.full(), " (", node.source->ToString(), ")") : node.op.full());
      }
    }
    if (b != g_.top()) {
      for (ValueId v : g_.results(b)) program_->blocks[index]->results.push_back(Number(v));
    }
    block_ = outer;
    return absl::OkStatus();
  }
  absl::StatusOr<int> Inner(BlockId b) {
    const int index = static_cast<int>(program_->blocks.size());
    program_->blocks.push_back(std::make_unique<fb::EagerBlockT>());
    SMELT_RETURN_IF_ERROR(Block(b, index));
    return index;
  }

  absl::Status EmitNode(NodeId n) {
    const Node& node = g_.node(n);
    const std::string& name = node.op.name();
    const OpInfo& info = GetOpInfo(node.op);
    if (name == op::kPrimConstant) return EmitConstant(n);
    if (node.op.IsDeclared()) return EmitCustom(n);
    if (name == op::kPrimDevice || name == op::kPrimLayout) {
      Emit(fb::EagerKind::None, n).outputs = {Number(node.outputs[0])};
      return absl::OkStatus();
    }
    if (name == op::kPrimIf || name == op::kSmeltCond) return EmitControl(fb::EagerKind::If, n);
    if (name == op::kPrimLoop) return EmitControl(fb::EagerKind::Loop, n);
    if (name == op::kSmeltWhileLoop) return EmitControl(fb::EagerKind::While, n);
    if (!node.blocks.empty()) return absl::UnimplementedError("control flow of this kind");
    if (name == op::kSmeltSize) return EmitSize(n);
    if (name == op::kCopyInPlace) return EmitCopy(n);
    const OpTraits& traits = GetOpTraits(node.op);
    if (traits.resizes) return EmitGeometry(n);
    for (ValueId v : node.inputs) {
      const bool complex = DTypeOf(g_, v) && IsComplex(*DTypeOf(g_, v));
      if (complex && traits.conjugates_lazily) return absl::UnimplementedError("lazy conjugation of complex tensors");
    }
    if (name == op::kSmeltAssertType) return EmitTypeCheck(n);
    if (name == op::kSmeltAssertNoOverlap) return EmitNumber(n);
    if (name == op::kPrimDictConstruct) return EmitNumber(n, "dict::construct");
    if (!node.inputs.empty() && g_.value(node.inputs[0]).type.kind() == TypeKind::kDict) {
      const std::string op = absl::StrCat("dict::", absl::StripPrefix(name, op::kAtenNamespace));
      return IsEagerNumberOp(op) ? EmitNumber(n, op) : absl::UnimplementedError("an operator on dictionaries");
    }
    if (info.kind == OpKind::kInplaceView) {
      if (!IsEagerViewOp(info.functional.full())) return absl::UnimplementedError("a change of geometry of this kind");
      fb::EagerInstrT& i = Emit(fb::EagerKind::ViewInPlace, n);
      i.op = info.functional.full();
      Inputs(i, n);
      Same(n, 0, node.inputs[0]);
      return absl::OkStatus();
    }
    if (IsEagerViewOp(node.op.full())) {
      fb::EagerInstrT& i = Emit(fb::EagerKind::View, n);
      i.op = node.op.full();
      Inputs(i, n);
      Outputs(i, n);
      return absl::OkStatus();
    }
    if (info.kind == OpKind::kView) return absl::UnimplementedError("a view of this kind");
    if (traits.family == OpFamily::kConversion) return EmitConversion(n);
    const bool numbers = info.kind == OpKind::kScalar || info.kind == OpKind::kContainer ||
                         absl::StartsWith(name, op::kPrimNamespace) ||
                         absl::StartsWith(name, op::kPrivateAssertPrefix) || absl::StartsWith(name, op::kSymPrefix);
    if (numbers && IsEagerNumberOp(name)) return EmitNumber(n);
    bool all_known = !node.outputs.empty();
    for (ValueId v : node.outputs)
      all_known = all_known && g_.value(v).expr.has_value() && !g_.value(v).expr->IsPoison();
    if (all_known) return EmitSize(n);
    if (numbers) return absl::UnimplementedError("an operator on numbers or lists of this kind");
    const FunctionSchema* schema = FindSchema(node.op);
    if (schema == nullptr) return absl::UnimplementedError("no such operator is known");
    if (schema->IsMutable()) return EmitWrite(n, *schema);
    // If the list grows, or its tensors do, the runtime joins the elements that it finds.
    if ((name == op::kCat || name == op::kStack) && JoinsWhatThereIs(node.inputs[0])) {
      fb::EagerInstrT& i = Emit(fb::EagerKind::View, n);
      i.op = name;
      Inputs(i, n);
      Outputs(i, n);
      return absl::OkStatus();
    }
    return EmitPure(n);
  }

  bool JoinsWhatThereIs(ValueId list) const {
    const auto elements = GetListElements(g_, list);
    if (!elements) return true;
    bool unknown = false;
    for (ValueId v : *elements) {
      if (!DTypeOf(g_, v) || DTypeOf(g_, v) != DTypeOf(g_, elements->front())) return false;
      unknown = unknown || !g_.value(v).type.tensor().sizes;
    }
    return unknown;
  }

  void Same(NodeId n, size_t output, ValueId as) {
    if (output >= g_.node(n).outputs.size()) return;
    const ValueId now = g_.node(n).outputs[output];
    numbers_[now] = Number(as);
    NoteSizes(now);
  }
  // Called after an instruction of the top block that may have changed a tensor's sizes.
  void NoteSizes(ValueId now) {
    if (block_ != 0 || !IsTensorValue(g_, now) || !g_.value(now).type.tensor().sizes) return;
    changed_sizes_.push_back({Number(now), program_->blocks[0]->instrs.size(), *g_.value(now).type.tensor().sizes});
  }

  // --- numbers ---
  absl::Status EmitConstant(NodeId n) {
    const ValueId out = g_.node(n).outputs[0];
    auto c = GetConstant(g_, out);
    if (!c) {
      // A device's string, or a type: nothing computes with it.
      fb::EagerInstrT& i = Emit(fb::EagerKind::None, n);
      i.outputs = {Number(out)};
      return absl::OkStatus();
    }
    if (const auto* t = std::get_if<Tensor>(&*c)) {
      auto tensor = std::make_unique<fb::EagerTensorT>();
      const Tensor dense = t->Clone();
      tensor->value = Number(out);
      tensor->storage = builder_.AddConstantStorage(dense);
      tensor->dtype = static_cast<uint8_t>(dense.dtype());
      tensor->sizes.assign(dense.sizes().begin(), dense.sizes().end());
      program_->tensors.push_back(std::move(tensor));
      return absl::OkStatus();
    }
    fb::EagerInstrT& i = Emit(fb::EagerKind::None, n);
    i.outputs = {Number(out)};
    if (const auto* v = std::get_if<int64_t>(&*c)) i.kind = fb::EagerKind::Int, i.ints = {*v};
    if (const auto* v = std::get_if<double>(&*c)) i.kind = fb::EagerKind::Float, i.floats = {*v};
    if (const auto* v = std::get_if<bool>(&*c)) i.kind = fb::EagerKind::Bool, i.ints = {*v};
    if (const auto* v = std::get_if<std::string>(&*c)) i.kind = fb::EagerKind::String, i.text = *v;
    if (const auto* v = std::get_if<std::vector<int64_t>>(&*c)) i.kind = fb::EagerKind::IntList, i.ints = *v;
    if (const auto* v = std::get_if<std::vector<double>>(&*c)) i.kind = fb::EagerKind::FloatList, i.floats = *v;
    if (const auto* v = std::get_if<std::vector<bool>>(&*c)) {
      i.kind = fb::EagerKind::BoolList;
      i.ints.assign(v->begin(), v->end());
    }
    return absl::OkStatus();
  }
  absl::Status EmitSize(NodeId n) {
    for (ValueId v : std::vector<ValueId>(g_.node(n).outputs.begin(), g_.node(n).outputs.end())) {
      std::optional<Expr> e = g_.value(v).expr;
      if (const Attribute* a = g_.node(n).FindAttribute("value"); !e && a != nullptr) {
        if (const Expr* x = std::get_if<Expr>(a)) e = *x;
      }
      if (!e) return absl::UnimplementedError("a size that is not known");
      fb::EagerInstrT& i = Emit(fb::EagerKind::Size, n);
      i.expr = builder_.AddExpr(*e);
      i.outputs = {Number(v)};
    }
    return absl::OkStatus();
  }
  absl::Status EmitNumber(NodeId n, std::string op = "") {
    fb::EagerInstrT& i = Emit(fb::EagerKind::Number, n);
    i.op = op.empty() ? g_.node(n).op.name() : std::move(op);
    Inputs(i, n);
    Outputs(i, n);
    // Other sizes are expressions of a size that data decide.
    if (g_.node(n).outputs.empty()) return absl::OkStatus();
    const std::optional<Expr>& e = g_.value(g_.node(n).outputs[0]).expr;
    const bool item = i.op == op::kItem || i.op == op::kPrivateLocalScalarDense;
    if (item && e && e->IsSymbol()) i.symbol = builder_.AddDataSymbol(e->SymbolName());
    return absl::OkStatus();
  }
  absl::Status EmitTypeCheck(NodeId n) {
    std::vector<int> inputs = {Number(g_.node(n).inputs[0])};
    for (const char* attribute : {"dtype", "rank"}) {
      fb::EagerInstrT& code = Emit(fb::EagerKind::Int, n);
      code.ints = {std::get<int64_t>(*g_.node(n).FindAttribute(attribute))};
      code.outputs = {next_++};
      inputs.push_back(code.outputs[0]);
    }
    fb::EagerInstrT& i = Emit(fb::EagerKind::Number, n);
    i.op = g_.node(n).op.name();
    i.inputs = std::move(inputs);
    return absl::OkStatus();
  }

  void EmitRaise(const std::string& message, NodeId n) {
    const int text = next_++;
    fb::EagerInstrT& said = Emit(fb::EagerKind::String, n);
    said.text = message;
    said.outputs = {text};
    fb::EagerInstrT& i = Emit(fb::EagerKind::Number, n);
    i.op = op::kPrimRaiseException;
    i.inputs = {text};
  }

  absl::Status EmitControl(fb::EagerKind kind, NodeId n) {
    auto i = std::make_unique<fb::EagerInstrT>();
    i->kind = kind;
    if (g_.node(n).source != nullptr) i->source = g_.node(n).source->ToString();
    Inputs(*i, n);
    for (BlockId b : std::vector<BlockId>(g_.node(n).blocks.begin(), g_.node(n).blocks.end())) {
      SMELT_ASSIGN_OR_RETURN(int inner, Inner(b));
      i->blocks.push_back(inner);
    }
    Outputs(*i, n);
    program_->blocks[block_]->instrs.push_back(std::move(i));
    return absl::OkStatus();
  }

  // --- memory ---
  //
  // Returns whether v may lie in what CopiesStorage says. Here such a result has memory of its own size.
  bool MayHaveCopiedStorage(ValueId v) const {
    while (true) {
      const NodeId def = g_.value(v).def;
      const Node& node = g_.node(def);
      if (!g_.IsParam(def) && CopiesStorage(node.op)) return true;
      const OpKind kind = g_.IsParam(def) ? OpKind::kOther : GetOpInfo(node.op).kind;
      const bool passes = kind == OpKind::kView || kind == OpKind::kInplaceView || kind == OpKind::kInplace;
      if (passes && !node.inputs.empty()) {
        v = node.inputs[0];
        continue;
      }
      // A block or a list passes it on: it may be any value that the graph has.
      if (g_.IsParam(def) ? node.parent == g_.top() : node.blocks.empty() && kind != OpKind::kOther) return false;
      const std::vector<NodeId> all = g_.AllNodes();
      return std::any_of(all.begin(), all.end(), [&](NodeId n) { return CopiesStorage(g_.node(n).op); });
    }
  }

  absl::Status EmitGeometry(NodeId n) {
    const Node& node = g_.node(n);
    const std::string& overload = node.op.overload();
    if (node.op.name() == op::kSetInPlace && !overload.empty() && overload != "source_Tensor" &&
        overload != "source_Tensor_storage_offset") {
      return absl::UnimplementedError("set_ from a storage");
    }
    if (node.op.name() != op::kSetInPlace && MayHaveCopiedStorage(node.inputs[0]))
      return absl::UnimplementedError("resize_ of a copy of its operand's whole storage");
    fb::EagerInstrT& i = Emit(node.op.name() == op::kSetInPlace ? fb::EagerKind::Set : fb::EagerKind::Resize, n);
    i.op = node.op.name();
    Inputs(i, n);
    Same(n, 0, node.inputs[0]);
    return absl::OkStatus();
  }

  absl::Status EmitCopy(NodeId n) {
    const ValueId to = g_.node(n).inputs[0], from = g_.node(n).inputs[1];
    const std::optional<DType> a = DTypeOf(g_, to), b = DTypeOf(g_, from);
    if (!a || !b) return absl::UnimplementedError("a copy of unknown dtypes");
    int call = -1;
    if (*a != *b) {
      SMELT_ASSIGN_OR_RETURN(call, Conversion(from, *a));
    }
    fb::EagerInstrT& i = Emit(fb::EagerKind::Copy, n);
    i.inputs = {Number(to), Number(from)};
    i.call = call;
    Same(n, 0, to);
    return absl::OkStatus();
  }

  absl::StatusOr<int> Conversion(ValueId from, DType to) {
    CallGraph call(g_, /*flat=*/true);
    SMELT_ASSIGN_OR_RETURN(ValueId x, call.Operand(from));
    SMELT_ASSIGN_OR_RETURN(ValueId y, call.Cast(x, to));
    call.graph().AddOutput(y);
    return AddCall(call);
  }

  // to and similar operators: the tensor itself if nothing changes, otherwise a copy.
  absl::Status EmitConversion(NodeId n) {
    const Node& node = g_.node(n);
    const ValueId self = node.inputs[0], out = node.outputs[0];
    const std::optional<DType> from = DTypeOf(g_, self), to = DTypeOf(g_, out);
    if (!from || !to) return absl::UnimplementedError("a conversion of unknown dtypes");
    const FunctionSchema* schema = FindSchema(node.op);
    auto constant = [&](absl::string_view name) -> std::optional<ConstantValue> {
      const int at = schema == nullptr ? -1 : schema->FindArgument(name);
      return at < 0 ? std::nullopt : GetConstant(g_, node.inputs[at]);
    };
    bool copy = node.op.name() == op::kPrivateToCopy || node.op.name() == "prims::convert_element_type";
    if (auto c = constant("copy"); c && std::holds_alternative<bool>(*c)) copy = copy || std::get<bool>(*c);
    int64_t format = 1;  // preserve
    if (auto c = constant("memory_format"); c && std::holds_alternative<int64_t>(*c)) format = std::get<int64_t>(*c);
    if (*from == *to) {
      // to returns the tensor itself if its strides suggest the format; clone never does.
      if (!copy && format == 1) {
        Same(n, 0, self);
        return absl::OkStatus();
      }
      EmitLayout(n, copy ? op::kClone : op::kTo, Number(self), format, Number(out));
      return absl::OkStatus();
    }
    SMELT_ASSIGN_OR_RETURN(int call, Conversion(self, *to));
    fb::EagerInstrT& i = Emit(fb::EagerKind::Compute, n);
    i.call = call;
    i.flat = true;
    i.inputs = i.layout_inputs = {Number(self)};
    const size_t result[] = {0};
    if (format == 1) SetLayout(i, DescribeResultLayout(g_, node.op, node.inputs, result));
    i.outputs = {Number(out)};
    i.targets = {-1};
    if (format > 1) {
      i.outputs = {next_++};
      EmitLayout(n, op::kContiguous, i.outputs[0], format, Number(out));
    }
    return absl::OkStatus();
  }
  void EmitLayout(NodeId n, absl::string_view op, int from, int64_t format, int to) {
    const int code = next_++;
    fb::EagerInstrT& c = Emit(fb::EagerKind::Int, n);
    c.ints = {format};
    c.outputs = {code};
    fb::EagerInstrT& i = Emit(fb::EagerKind::View, n);
    i.op = std::string(op);
    i.inputs = {from, code};
    i.outputs = {to};
  }

  // --- operators of the user's own ---
  //
  // Takes note of the symbols that the program knows from here on.
  void NoteSymbols(ValueId v) {
    const Value& value = g_.value(v);
    if (value.expr) Note(*value.expr);
    if (!IsTensorValue(g_, v) || !value.type.tensor().sizes) return;
    for (const Expr& e : *value.type.tensor().sizes) Note(e);
  }
  void Note(const Expr& e) {
    if (e.IsPoison()) return;
    for (const std::string& symbol : e.Symbols()) known_symbols_.insert(symbol);
  }
  bool IsNew(const Expr& e) const {
    const std::vector<std::string> symbols = e.Symbols();
    return std::any_of(symbols.begin(), symbols.end(),
                       [&](const std::string& s) { return !known_symbols_.contains(s); });
  }

  absl::StatusOr<std::unique_ptr<fb::StatedTensorT>> Stated(const Type& type) {
    if (!type.IsTensor() || !type.tensor().dtype || !type.tensor().sizes)
      return absl::UnimplementedError("the dtype and the sizes of a result are not known");
    auto out = std::make_unique<fb::StatedTensorT>();
    out->dtype = static_cast<uint8_t>(*type.tensor().dtype);
    for (const Expr& e : *type.tensor().sizes)
      out->sizes.push_back(e.IsPoison() || IsNew(e) ? -1 : builder_.AddExpr(e));
    return out;
  }

  // Returns the values that the list is unpacked into at once; none if it is used in another way.
  std::vector<ValueId> UnpackedInto(ValueId list) const {
    const auto& uses = g_.value(list).uses;
    if (uses.size() != 1) return {};
    const Node& user = g_.node(uses.begin()->user);
    if (user.op != op::kPrimListUnpack) return {};
    return std::vector<ValueId>(user.outputs.begin(), user.outputs.end());
  }

  absl::Status EmitCustom(NodeId n) {
    const FunctionSchema& schema = *FindSchema(g_.node(n).op);
    const std::vector<ValueId> outputs(g_.node(n).outputs.begin(), g_.node(n).outputs.end());
    auto i = std::make_unique<fb::EagerInstrT>();
    i->kind = fb::EagerKind::Custom;
    i->custom = builder_.AddCustomOperator(g_.node(n).op);
    if (g_.node(n).source != nullptr) i->source = g_.node(n).source->ToString();
    Inputs(*i, n);
    for (size_t k = 0; k < outputs.size(); ++k) {
      auto stated = std::make_unique<fb::StatedResultT>();
      const TypeKind kind = schema.returns[k].type.kind();
      if (kind == TypeKind::kTensor) {
        SMELT_ASSIGN_OR_RETURN(auto tensor, Stated(g_.value(outputs[k]).type));
        stated->tensors.push_back(std::move(tensor));
      } else if (kind == TypeKind::kList) {
        for (ValueId v : UnpackedInto(outputs[k])) {
          SMELT_ASSIGN_OR_RETURN(auto tensor, Stated(g_.value(v).type));
          if (absl::c_linear_search(tensor->sizes, -1))
            return absl::UnimplementedError("a list of tensors whose sizes the data decide");
          stated->tensors.push_back(std::move(tensor));
        }
      }
      i->stated.push_back(std::move(stated));
      const ResultMemory memory = MemoryOfResult(schema, k);
      if (memory.is_argument) numbers_[outputs[k]] = Number(g_.node(n).inputs[memory.arguments[0]]);
      i->outputs.push_back(memory.is_argument ? -1 : Number(outputs[k]));
    }
    program_->blocks[block_]->instrs.push_back(std::move(i));
    for (ValueId v : outputs) SMELT_RETURN_IF_ERROR(DefineSymbols(n, v));
    return absl::OkStatus();
  }

  // Numbers and sizes that the implementation chose get their symbols' values.
  absl::Status DefineSymbols(NodeId n, ValueId v) {
    const auto define = [&](const Expr& e, absl::string_view op, std::vector<int> inputs) -> absl::Status {
      if (e.IsPoison() || !IsNew(e)) return absl::OkStatus();
      if (!e.IsSymbol())
        return absl::UnimplementedError(absl::StrCat("a number that only the data decide, ", e.ToString()));
      fb::EagerInstrT& i = Emit(fb::EagerKind::Number, n);
      i.op = std::string(op);
      i.inputs = std::move(inputs);
      i.outputs = {next_++};
      i.symbol = builder_.AddDataSymbol(e.SymbolName());
      Note(e);
      return absl::OkStatus();
    };
    if (const std::optional<Expr>& e = g_.value(v).expr) return define(*e, op::kInt, {Number(v)});
    if (!IsTensorValue(g_, v)) return absl::OkStatus();
    const std::vector<Expr> sizes = *g_.value(v).type.tensor().sizes;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (sizes[d].IsPoison() || !IsNew(sizes[d])) continue;
      const int dim = next_++;
      fb::EagerInstrT& number = Emit(fb::EagerKind::Int, n);
      number.ints = {static_cast<int64_t>(d)};
      number.outputs = {dim};
      SMELT_RETURN_IF_ERROR(define(sizes[d], op::kSymSize, {Number(v), dim}));
    }
    return absl::OkStatus();
  }

  // --- computing ---
  // Returns whether the operator sees one element at a time, or fills a tensor like another.
  static bool IsFlat(OpName op) { return GetOpInfo(op).kind == OpKind::kPointwise || GetOpTraits(op).like_operand; }

  // The values of a call's tensor operands, as far as they decide its shape.
  std::vector<int> TensorNumbers(const std::vector<ValueId>& args) {
    std::vector<int> out;
    for (ValueId v : args) {
      if (IsTensorValue(g_, v)) out.push_back(Number(v));
    }
    return out;
  }

  absl::Status CheckKnownDims(const std::vector<ValueId>& args) {
    // A tensor with dims and one without take different parts in type promotion.
    std::optional<DType> dtype;
    bool unknown = false, mixed = false;
    for (ValueId v : args) {
      if (!IsTensorValue(g_, v)) continue;
      const TensorType& t = g_.value(v).type.tensor();
      unknown = unknown || !t.sizes;
      mixed = mixed || (dtype && t.dtype && *dtype != *t.dtype);
      dtype = t.dtype;
    }
    return unknown && mixed ? absl::UnimplementedError("operands of several dtypes and unknown rank")
                            : absl::OkStatus();
  }

  absl::Status EmitPure(NodeId n) {
    const std::vector<ValueId> args(g_.node(n).inputs.begin(), g_.node(n).inputs.end());
    const std::vector<ValueId> outputs(g_.node(n).outputs.begin(), g_.node(n).outputs.end());
    const OpName op = g_.node(n).op;
    const std::vector<int> tensors = TensorNumbers(args);
    const bool flat = IsFlat(op) && !tensors.empty();
    if (flat) SMELT_RETURN_IF_ERROR(CheckKnownDims(args));
    CallGraph call(g_, flat);
    std::vector<ValueId> operands;
    for (ValueId v : args) {
      SMELT_ASSIGN_OR_RETURN(ValueId x, call.Operand(v));
      operands.push_back(x);
    }
    SMELT_ASSIGN_OR_RETURN(std::vector<ValueId> results,
                           call.Apply(op, operands, outputs.size(), g_.node(n).source, g_.node(n).attributes));
    std::vector<int> numbers;
    std::vector<size_t> used;
    for (size_t k = 0; k < outputs.size(); ++k) {
      if (g_.value(outputs[k]).uses.empty()) continue;
      if (!IsTensorValue(g_, outputs[k])) return absl::UnimplementedError("a result that is no tensor");
      call.graph().AddOutput(results[k]);
      numbers.push_back(Number(outputs[k]));
      used.push_back(k);
    }
    if (numbers.empty()) {
      // Nothing reads the result, but the call draws numbers, or PyTorch refuses it because of its operands' contents,
      // or because of dims that another name of its operand got.
      if (GetOpInfo(op).kind != OpKind::kRandom && !changes_dims_ && !MayRefuseData(g_, n)) return absl::OkStatus();
      call.graph().AddOutput(results[0]);
      numbers.push_back(-1);
      used.push_back(0);
    }
    SMELT_ASSIGN_OR_RETURN(int index, AddCall(call));
    fb::EagerInstrT& i = Emit(fb::EagerKind::Compute, n);
    i.call = index;
    for (ValueId v : call.operands()) i.inputs.push_back(Number(v));
    i.outputs = numbers;
    i.targets.assign(numbers.size(), -1);
    i.flat = flat;
    if (flat) i.layout_inputs = tensors;
    if (std::optional<std::vector<ValueId>> indices =
            GetOpTraits(op).family == OpFamily::kIndex ? GetListElements(g_, args[1]) : std::nullopt) {
      i.layout = fb::EagerLayout::Indexed;
      i.layout_inputs = {Number(args[0])};
      for (ValueId v : *indices) i.layout_inputs.push_back(IsTensorValue(g_, v) ? Number(v) : -1);
    } else {
      SetLayout(i, DescribeResultLayout(g_, op, args, used, g_.node(n).attributes));
    }
    return absl::OkStatus();
  }

  // If the layout depends on the operands' layouts, the rule's inputs replace the present ones.
  void SetLayout(fb::EagerInstrT& i, const ResultLayout& layout) {
    if (layout.rule.empty()) return;
    i.layout = fb::EagerLayout::Rule;
    i.layout_rule = layout.rule;
    i.layout_inputs.clear();
    for (ValueId v : layout.operands) i.layout_inputs.push_back(Number(v));
  }

  absl::Status EmitWrite(NodeId n, const FunctionSchema& schema) {
    const std::vector<ValueId> inputs(g_.node(n).inputs.begin(), g_.node(n).inputs.end());
    const std::vector<ValueId> outputs(g_.node(n).outputs.begin(), g_.node(n).outputs.end());
    SMELT_ASSIGN_OR_RETURN(FunctionalCounterpart pure, FindFunctionalCounterpart(schema));
    std::vector<ValueId> args;
    if (pure.fills) {
      const Type& to = g_.value(inputs[pure.results[0].argument]).type;
      if (!to.IsTensor() || to.tensor().rank() != 1)
        return absl::UnimplementedError("a range into a tensor of other dims");
    }
    for (int k : pure.arguments) args.push_back(k < 0 ? ValueId() : inputs[k]);
    std::vector<ValueId> known;
    for (ValueId v : args) {
      if (g_.IsLive(v)) known.push_back(v);
    }
    const std::vector<int> tensors = TensorNumbers(known);
    const bool zero = schema.op.name() == op::kZeroInPlace || schema.op.name() == op::kFillInPlace;
    const bool flat = (IsFlat(pure.op) || zero) && !tensors.empty();
    if (flat) SMELT_RETURN_IF_ERROR(CheckKnownDims(known));
    CallGraph call(g_, flat);
    std::vector<ValueId> operands;
    for (size_t k = 0; k < args.size(); ++k) {
      const ValueId v = args[k];
      if (pure.arguments[k] == FunctionalCounterpart::kDTypeOfWritten) {
        const std::optional<DType> dtype = DTypeOf(g_, inputs[pure.results[0].argument]);
        if (!dtype) return absl::UnimplementedError("a write to a tensor of unknown dtype");
        operands.push_back(call.Constant(static_cast<int64_t>(ScalarTypeOf(*dtype))));
        continue;
      }
      if (!g_.IsLive(v)) {
        operands.push_back(call.Constant(std::monostate()));
        continue;
      }
      SMELT_ASSIGN_OR_RETURN(ValueId x, call.Operand(v));
      operands.push_back(x);
    }
    SMELT_ASSIGN_OR_RETURN(std::vector<ValueId> results,
                           call.Apply(pure.op, operands, pure.results.size(), g_.node(n).source));
    std::vector<int> numbers, targets;
    bool grows = false;
    // A result of another dtype is computed in a temporary. Comparisons are written as they are.
    bool in_order =
        flat && results.size() == 1 && GetOpInfo(pure.op).kind == OpKind::kPointwise && !ResizesContiguously(schema.op);
    for (size_t k = 0; k < results.size(); ++k) {
      const int written = pure.results[k].argument;
      ValueId result = results[k];
      if (const std::optional<DType> computed = DTypeOf(call.graph(), result); in_order && written >= 0)
        in_order = computed == DTypeOf(g_, inputs[written]) || computed == DType::kBool;
      if (written >= 0) {
        const std::optional<DType> dtype = DTypeOf(g_, inputs[written]);
        if (!dtype) return absl::UnimplementedError("a write to a tensor of unknown dtype");
        const std::optional<DType> computed = DTypeOf(call.graph(), result);
        const std::string refused = computed ? RefusedCast(pure.op, *computed, *dtype) : "";
        if (!refused.empty()) {
          for (ValueId v : outputs) numbers_[v] = Number(inputs[written]);
          EmitRaise(refused, n);
          return absl::OkStatus();
        }
        SMELT_ASSIGN_OR_RETURN(result, call.Cast(result, *dtype));
        grows = grows || pure.results[k].may_resize;
      }
      call.graph().AddOutput(result);
      targets.push_back(written >= 0 ? Number(inputs[written]) : -1);
      numbers.push_back(written >= 0 ? -1 : next_++);
    }
    // At run time an operand is distinguished from the target by its number.
    absl::flat_hash_map<ValueId, OperandSharing> sharing;
    for (size_t k = 0; k < pure.sharing.size(); ++k) {
      const OperandSharing rule = pure.sharing[k];
      if (rule == OperandSharing::kAny || static_cast<int>(k) == pure.results[0].argument) continue;
      std::vector<ValueId> tensors = {inputs[k]};
      if (auto list = GetListElements(g_, inputs[k])) tensors.assign(list->begin(), list->end());
      for (ValueId v : tensors) {
        OperandSharing& of = sharing.try_emplace(v, rule).first->second;
        of = std::max(of, rule);
        if ((rule == OperandSharing::kNone || rule == OperandSharing::kApart) && numbers_.contains(v) &&
            Number(v) == targets[0])
          return absl::UnimplementedError("a write of a tensor into itself");
      }
    }
    if (NeedsContiguousOut(schema.op)) return absl::UnimplementedError(kNeedsContiguousOut);
    SMELT_ASSIGN_OR_RETURN(int index, AddCall(call));
    fb::EagerInstrT& i = Emit(fb::EagerKind::Compute, n);
    i.call = index;
    for (ValueId v : call.operands()) i.inputs.push_back(Number(v));
    i.outputs = numbers;
    i.targets = targets;
    i.grows = grows;
    i.computes_first = grows && ComputesBeforeItResizes(schema.op);
    for (ValueId v : call.operands()) {
      const auto rule = sharing.find(v);
      i.sharing.push_back(static_cast<uint8_t>(rule == sharing.end() ? OperandSharing::kAny : rule->second));
    }
    i.in_order = in_order;
    i.uniform = WritesExpanded(schema.op);
    i.fills = FillsSomeElements(schema.op, g_, inputs);
    i.flat = flat;
    if (flat) i.layout_inputs = tensors;
    if (grows && !ResizesContiguously(schema.op)) {
      // The results have the layout of the functional form.
      std::vector<size_t> all(pure.results.size());
      std::iota(all.begin(), all.end(), 0);
      SetLayout(i, DescribeResultLayout(g_, pure.op, args, all));
    }
    for (size_t o = 0; o < outputs.size(); ++o) {
      const int r = pure.result_of_output[o];
      numbers_[outputs[o]] = targets[r] >= 0 ? targets[r] : numbers[r];
      if (targets[r] >= 0 && grows) NoteSizes(outputs[o]);
    }
    return absl::OkStatus();
  }

  // Returns the number of a call; equal calls have one number.
  absl::StatusOr<int> AddCall(CallGraph& call) {
    Graph& g = call.graph();
    auto [it, fresh] = calls_.try_emplace(PrintGraph(g), static_cast<int>(program_->calls.size()));
    if (!fresh) return it->second;
    const std::unique_ptr<Graph> signature = g.Clone();
    PassContext context;
    PassRunOptions run;
    run.disabled = {"build-alias-db"};  // one operator's nodes depend on each other alone
    SMELT_RETURN_IF_ERROR(PassesOf({PassGroup::kPure, PassGroup::kExpand, PassGroup::kFuse}).Run(g, context, run));
    BundleBuilder builder(*signature, builder_);
    SMELT_RETURN_IF_ERROR(builder.AddPlan(g, context.Get<FunctionalizeResult>().convention, {}).status());
    if (!builder.constants().empty()) return absl::UnimplementedError("a constant tensor inside an operator");
    SMELT_ASSIGN_OR_RETURN(fb::BundleT bundle, builder.Finish());
    program_->calls.push_back(std::make_unique<fb::BundleT>(std::move(bundle)));
    return it->second;
  }

  Graph& g_;
  BundleBuilder& builder_;
  std::unique_ptr<fb::EagerProgramT> program_;
  absl::flat_hash_map<ValueId, int> numbers_;
  absl::flat_hash_map<std::string, int> calls_;  // by text
  int next_ = 0;
  int block_ = 0;
  bool changes_dims_ = false;  // of tensors that there are already
  absl::flat_hash_set<std::string> known_symbols_;
  std::vector<ChangedSizes> changed_sizes_;
};

}  // namespace

namespace {

// tril_indices and triu_indices become copies of constants: a program can have those, but the call of an operator
// cannot.
absl::Status OpenTriangles(Graph& g) {
  for (NodeId n : g.AllNodes()) {
    const std::string& name = g.node(n).op.name();
    if (name != op::kTrilIndices && name != op::kTriuIndices) continue;
    const ValueId out = g.node(n).outputs[0];
    const NodeId copy =
        g.InsertAfter(n, OpName::Get(op::kClone), {out, InsertConstant(g, n, std::monostate())}, {g.value(out).type});
    g.SetSource(copy, g.node(n).source);
    for (const Use& use : std::vector<Use>(g.value(out).uses.begin(), g.value(out).uses.end())) {
      if (use.user != copy) g.SetInput(use.user, use.index, g.node(copy).outputs[0]);
    }
    SMELT_RETURN_IF_ERROR(Decompose(g, n).status());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<fb::EagerProgramT>> BuildEagerProgram(const std::unique_ptr<Graph>& g,
                                                                     BundleBuilder& builder) {
  SMELT_RETURN_IF_ERROR(OpenTriangles(*g));
  SMELT_RETURN_IF_ERROR(OpenComposites(*g, StrideChoices::kAtRunTime).status());
  return EagerBuilder(*g, builder).Run();
}

// Returns a copy in which a convolution over one dim makes its operand contiguous before it looks at its format.
std::unique_ptr<Graph> WithContiguousRows(const Graph& graph) {
  std::unique_ptr<Graph> out = graph.Clone();
  Graph& g = *out;
  for (NodeId n : g.AllNodes()) {
    const std::string& name = g.node(n).op.name();
    if (name != op::kConv1d && name != op::kConvTranspose1d && name != op::kConvolution) continue;
    const ValueId rows = g.node(n).inputs[0], weight = g.node(n).inputs[1];
    const Type& type = g.value(weight).type;
    if (!type.IsTensor() || !type.tensor().sizes || type.tensor().rank() != 3) continue;
    const ValueId format = InsertConstant(g, n, int64_t{0});
    const NodeId copy = g.InsertBefore(n, OpName::Get(op::kContiguous), {rows, format}, {g.value(rows).type});
    g.SetSource(copy, g.node(n).source);
    if (InferNode(g, copy).ok()) g.SetInput(n, 0, g.node(copy).outputs[0]);
  }
  return out;
}

}  // namespace

absl::Status AddEagerPlan(const Graph& graph, const std::vector<int>& written_args,
                          const std::vector<int>& written_states, BundleBuilder& builder) {
  std::unique_ptr<Graph> g = WithContiguousRows(graph);
  const bool expects = ExpectTypes(*g, ExpectedDims::kExact);
  auto program = BuildEagerProgram(g, builder);
  if (expects && absl::IsUnimplemented(program.status())) {
    g = WithContiguousRows(graph);
    ExpectTypes(*g, ExpectedDims::kLikeOperands);
    auto guessed = BuildEagerProgram(g, builder);
    if (guessed.ok()) program = std::move(guessed);
  }
  SMELT_RETURN_IF_ERROR(program.status());
  builder.AddEagerPlan(*std::move(program), written_args, written_states);
  return absl::OkStatus();
}

}  // namespace smelt

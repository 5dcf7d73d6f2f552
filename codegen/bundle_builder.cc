#include "smelt/codegen/bundle_builder.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "smelt/codegen/bundle_tables.h"
#include "smelt/codegen/plan_builder.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/declare.h"
#include "smelt/core/op/schema.h"

namespace smelt {

int KernelTable::Add(const KernelSpec& spec) {
  auto [it, fresh] = index.try_emplace(spec.ToString(), static_cast<int>(kernels.size()));
  if (fresh) {
    kernels.push_back(spec);
    uses.push_back(0);
  }
  ++uses[it->second];
  return it->second;
}

void BundleTables::MarkMutated(int storage) {
  if (storages->mutated.size() <= static_cast<size_t>(storage)) storages->mutated.resize(storage + 1, false);
  storages->mutated[storage] = true;
}

int BundleTables::AddConstant(const Tensor& t) {
  std::string bytes(static_cast<const char*>(t.data()), t.NumElements() * ItemSize(t.dtype()));
  std::vector<Tensor>& constants = storages->constants;
  auto [it, fresh] = storages->constant_index.try_emplace(std::move(bytes), static_cast<int>(constants.size()));
  if (fresh) constants.push_back(t);
  return static_cast<int>(signature.weight_storages.size()) + it->second;
}

int BundleTables::AddDataSymbol(const std::string& name) {
  exprs.Add(Expr::Symbol(name));
  data_symbols.insert(name);
  const std::vector<std::string>& all = exprs.symbols();
  return static_cast<int>(std::find(all.begin(), all.end(), name) - all.begin());
}

void BundleTables::AddGuard(fb::PlanT& plan, const Expr& a, fb::ExprOp op, const Expr& b, const std::string& message) {
  auto guard = std::make_unique<fb::GuardT>();
  guard->expr = exprs.AddCompare(op, a, b);
  guard->message = message;
  plan.guards.push_back(std::move(guard));
}

void BundleTables::AddSizeGuards(fb::PlanT& plan) {
  for (const Graph::SizeGuard& guard : signature.size_guards) {
    AddGuard(plan, Expr(0), fb::ExprOp::Lt, guard.holds,
             absl::StrCat("the program was exported for sizes where ", guard.text));
  }
}

bool BundleTables::DependsOnData(const Expr& e) const {
  for (const std::string& s : e.Symbols()) {
    if (data_symbols.contains(s)) return true;
  }
  return false;
}

BundleBuilder::BundleBuilder(const Graph& signature)
    : tables_(std::make_unique<BundleTables>(signature, std::make_shared<KernelTable>(),
                                             std::make_shared<StorageTable>())) {}
BundleBuilder::BundleBuilder(const Graph& signature, BundleBuilder& outer)
    : tables_(std::make_unique<BundleTables>(signature, outer.tables_->kernels, std::make_shared<StorageTable>())) {}
BundleBuilder::BundleBuilder(const Graph& signature, const BundleBuilder& other, OtherMethod)
    : tables_(std::make_unique<BundleTables>(signature, other.tables_->kernels, other.tables_->storages)) {}
BundleBuilder::~BundleBuilder() = default;

absl::StatusOr<PlanStats> BundleBuilder::AddPlan(const Graph& pure, const Convention& convention,
                                                 const PlanOptions& options) {
  return PlanBuilder(*tables_, pure, convention, options).Build();
}

namespace {

// A plan without steps of its own, for calls that are refused or that another plan runs.
std::unique_ptr<fb::PlanT> EmptyPlan(BundleTables& impl) {
  auto plan = std::make_unique<fb::PlanT>();
  plan->arena_bytes = impl.exprs.Add(Expr(0));
  plan->blocks.push_back(std::make_unique<fb::BlockT>());
  plan->convention = std::make_unique<fb::ConventionT>();
  plan->convention->outputs = std::make_unique<fb::OutputsLayerT>();
  for (size_t k = 0; k < impl.signature.outputs().size(); ++k) {
    plan->convention->outputs->outputs.push_back(std::make_unique<fb::OutputRefT>());
    plan->convention->outputs->outputs.back()->kind = fb::OutputKind::None;
  }
  return plan;
}

// The type that the graph declares of a result. Its sizes bring no new symbols into the bundle.
void DeclareType(BundleTables& tables, const Type& type, fb::OutputDefT& out) {
  switch (type.kind()) {
    case TypeKind::kInt:
      out.kind = fb::ArgKind::Int;
      return;
    case TypeKind::kFloat:
      out.kind = fb::ArgKind::Float;
      return;
    case TypeKind::kBool:
      out.kind = fb::ArgKind::Bool;
      return;
    case TypeKind::kString:
      out.kind = fb::ArgKind::String;
      return;
    case TypeKind::kNone:
      out.kind = fb::ArgKind::None;
      return;
    default:
      break;
  }
  if (!type.IsTensor() || !type.tensor().dtype || !type.tensor().sizes) return;
  out.has_type = true;
  out.dtype = static_cast<uint8_t>(*type.tensor().dtype);
  const std::vector<std::string> known = tables.exprs.symbols();
  for (const Expr& size : *type.tensor().sizes) {
    const std::vector<std::string> symbols = size.Symbols();
    const bool is_known = !size.IsPoison() && std::all_of(symbols.begin(), symbols.end(), [&](const std::string& s) {
      return std::find(known.begin(), known.end(), s) != known.end();
    });
    out.sizes.push_back(is_known ? tables.exprs.Add(size) : -1);
  }
}

absl::Status DefineArguments(BundleTables& tables, fb::BundleT& bundle) {
  const Graph& g = tables.signature;
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    if (g.input_infos[i].kind != InputInfo::Kind::kUser) continue;
    const Value& v = g.value(g.inputs()[i]);
    auto a = std::make_unique<fb::ArgDefT>();
    a->name = v.name;
    const InputInfo& info = g.input_infos[i];
    a->has_constant = info.is_constant;
    switch (v.type.kind()) {
      case TypeKind::kTensor:
        a->kind = fb::ArgKind::Tensor;
        a->dtype = static_cast<uint8_t>(*v.type.tensor().dtype);
        a->sizes = tables.exprs.AddAll(*v.type.tensor().sizes);
        a->strides = tables.exprs.AddAll(*v.type.tensor().strides);
        break;
      case TypeKind::kInt:
        a->kind = fb::ArgKind::Int;
        if (const auto* c = std::get_if<int64_t>(&info.constant); info.is_constant && c != nullptr) a->int_value = *c;
        break;
      case TypeKind::kFloat:
        a->kind = fb::ArgKind::Float;
        if (const auto* c = std::get_if<double>(&info.constant); info.is_constant && c != nullptr) a->float_value = *c;
        break;
      case TypeKind::kBool:
        a->kind = fb::ArgKind::Bool;
        if (const auto* c = std::get_if<bool>(&info.constant); info.is_constant && c != nullptr) a->int_value = *c;
        break;
      case TypeKind::kString:
        a->kind = fb::ArgKind::String;
        if (const auto* c = std::get_if<std::string>(&info.constant); info.is_constant && c != nullptr)
          a->string_value = *c;
        break;
      case TypeKind::kNone:
        a->kind = fb::ArgKind::None;
        break;
      default:
        return absl::UnimplementedError(absl::StrCat("argument ", v.name, " of type ", v.type.ToString()));
    }
    bundle.args.push_back(std::move(a));
  }
  for (size_t i = 0; i < g.outputs().size(); ++i) {
    auto o = std::make_unique<fb::OutputDefT>();
    o->name = i < g.output_names.size() && !g.output_names[i].empty() ? g.output_names[i] : absl::StrCat("output", i);
    DeclareType(tables, g.value(g.outputs()[i]).type, *o);
    bundle.outputs.push_back(std::move(o));
  }
  return absl::OkStatus();
}

std::vector<ValueId> UserInputs(const Graph& g) {
  std::vector<ValueId> user;
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    if (g.input_infos[i].kind == InputInfo::Kind::kUser) user.push_back(g.inputs()[i]);
  }
  return user;
}

// The user's arguments, in order and by name.
struct UserArguments {
  explicit UserArguments(const Graph& g) : values(UserInputs(g)) {
    for (size_t a = 0; a < values.size(); ++a) by_name[g.value(values[a]).name] = static_cast<int>(a);
  }
  std::vector<ValueId> values;
  absl::flat_hash_map<std::string, int> by_name;
};

// Returns whether `name` is a property of an argument itself: its offset or a stride.
bool IsAddressSymbol(const Graph& g, const std::string& name, const UserArguments& user, fb::SymbolDefT& def) {
  const size_t dot = name.rfind('.');
  const auto it = dot == std::string::npos ? user.by_name.end() : user.by_name.find(name.substr(0, dot));
  if (it == user.by_name.end()) return false;
  if (name.substr(dot) == ".offset") {
    def.source = fb::SymbolSource::ArgOffset;
    def.arg = it->second;
    return true;
  }
  const Type& type = g.value(user.values[it->second]).type;
  for (int d = 0; type.IsTensor() && d < type.tensor().rank(); ++d) {
    if (name.substr(dot) != absl::StrCat(".stride", d)) continue;
    def.source = fb::SymbolSource::ArgStride;
    def.arg = it->second;
    def.dim = d;
    return true;
  }
  return false;
}

// Returns whether the export gives this name to one of the argument's strides, as it does for a part of a tensor with
// dynamic sizes.
bool IsStrideSymbol(const std::string& name, const Value& v, int a, fb::SymbolDefT& def) {
  if (!v.type.IsTensor() || !v.type.tensor().strides) return false;
  const std::vector<Expr>& strides = *v.type.tensor().strides;
  for (size_t d = 0; d < strides.size(); ++d) {
    if (!strides[d].IsSymbol() || strides[d].SymbolName() != name) continue;
    def.source = fb::SymbolSource::ArgStride;
    def.arg = a;
    def.dim = static_cast<int>(d);
    return true;
  }
  return false;
}

// Returns whether argument `a` determines the symbol by a size that is the symbol, or (`linear`) that is linear in it.
bool IsSizeSymbol(const std::string& name, const Value& v, int a, bool linear, fb::SymbolDefT& def) {
  if (!v.type.IsTensor()) return false;
  const std::vector<Expr>& sizes = *v.type.tensor().sizes;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d].Symbols() != std::vector<std::string>{name}) continue;
    if (!linear && !sizes[d].IsSymbol()) continue;
    const auto at0 = sizes[d].Evaluate({{name, 0}}), at1 = sizes[d].Evaluate({{name, 1}}),
               at7 = sizes[d].Evaluate({{name, 7}});
    if (!at0.ok() || !at1.ok() || !at7.ok()) continue;
    const int64_t scale = *at1 - *at0;
    if (scale <= 0 || *at7 != *at0 + 7 * scale) continue;
    def.source = fb::SymbolSource::ArgSize;
    def.arg = a;
    def.dim = static_cast<int>(d);
    def.scale = scale;
    def.addend = *at0;
    return true;
  }
  return false;
}

// Finds the source of a symbol's value. Returns false if there is none.
bool FindSource(const Graph& g, const std::string& name, const UserArguments& arguments, fb::SymbolDefT& def) {
  if (IsAddressSymbol(g, name, arguments, def)) return true;
  const std::vector<ValueId>& user = arguments.values;
  for (bool linear : {false, true}) {
    for (size_t a = 0; a < user.size(); ++a) {
      const Value& v = g.value(user[a]);
      if (v.type.kind() == TypeKind::kInt && v.expr && v.expr->IsSymbol() && v.expr->SymbolName() == name) {
        def.source = fb::SymbolSource::ArgInt;
        def.arg = static_cast<int>(a);
        def.min = std::min<int64_t>(def.min, g.symbols.Get(name).min);
        return true;
      }
      if (IsSizeSymbol(name, v, static_cast<int>(a), linear, def)) return true;
    }
  }
  for (size_t a = 0; a < user.size(); ++a) {
    if (IsStrideSymbol(name, g.value(user[a]), static_cast<int>(a), def)) return true;
  }
  return false;
}

// Defines values that follow from other arguments: integers that the export took to be a size, or found to be one
// number in every call.
void DefineValuesOfInts(BundleTables& tables, fb::BundleT& bundle) {
  const Graph& g = tables.signature;
  const UserArguments user(g);
  for (size_t a = 0; a < user.values.size(); ++a) {
    const Value& v = g.value(user.values[a]);
    if (v.type.kind() != TypeKind::kInt || !v.expr || bundle.args[a]->has_constant) continue;
    fb::SymbolDefT def;
    const bool is_source = v.expr->IsSymbol() && FindSource(g, v.expr->SymbolName(), user, def) &&
                           def.source == fb::SymbolSource::ArgInt && def.arg == static_cast<int>(a);
    if (!is_source) bundle.args[a]->value = tables.exprs.Add(*v.expr);
  }
}

absl::Status DefineSymbols(const BundleTables& tables, fb::BundleT& bundle) {
  const Graph& g = tables.signature;
  const UserArguments user(g);
  for (const std::string& name : tables.exprs.symbols()) {
    auto def = std::make_unique<fb::SymbolDefT>();
    def->name = name;
    const SymbolRanges::Range range = g.symbols.Get(name);
    def->min = range.accepted_min >= 0 ? range.accepted_min : range.min;
    def->max = range.max;
    if (tables.data_symbols.contains(name)) {
      def->source = fb::SymbolSource::Data;
      def->min = INT64_MIN;
    } else if (!FindSource(g, name, user, *def)) {
      return absl::InvalidArgumentError(absl::StrCat("the size symbol ", name, " is determined by no argument"));
    }
    bundle.symbols.push_back(std::move(def));
  }
  return absl::OkStatus();
}

void DefineStates(BundleTables& tables, fb::BundleT& bundle) {
  const Graph& g = tables.signature;
  const std::vector<Tensor>& constants = tables.storages->constants;
  tables.storages->mutated.resize(g.weight_storages.size() + constants.size(), false);
  for (size_t s = 0; s < g.weight_storages.size() + constants.size(); ++s) {
    auto out = std::make_unique<fb::StateStorageT>();
    out->bytes = s < g.weight_storages.size() ? g.weight_storages[s]->bytes()
                                              : constants[s - g.weight_storages.size()].NumElements() *
                                                    ItemSize(constants[s - g.weight_storages.size()].dtype());
    out->is_mutated = tables.storages->mutated[s];
    bundle.storages.push_back(std::move(out));
  }
  for (const Weight& w : g.weights) {
    auto out = std::make_unique<fb::StateTensorT>();
    out->name = w.name;
    out->kind = w.kind == Weight::Kind::kParameter ? fb::StateKind::Parameter
                : w.kind == Weight::Kind::kBuffer  ? fb::StateKind::Buffer
                                                   : fb::StateKind::Constant;
    out->storage = w.storage;
    out->dtype = static_cast<uint8_t>(w.dtype);
    out->sizes = w.geometry.sizes;
    out->strides = w.geometry.strides;
    out->offset = w.geometry.offset;
    bundle.states.push_back(std::move(out));
  }
}

}  // namespace

void BundleBuilder::AddRefusal(const std::string& message, const std::string& source) {
  auto plan = EmptyPlan(*tables_);
  auto check = std::make_unique<fb::CheckT>();
  check->kind = fb::CheckKind::NotZero;
  check->a = tables_->exprs.Add(Expr(0));
  check->message = message;
  check->source = source;
  plan->prologue_checks.push_back(std::move(check));
  tables_->plans.push_back(std::move(plan));
}

void BundleBuilder::AddEagerPlan(std::unique_ptr<fb::EagerProgramT> program, std::vector<int> written_args,
                                 const std::vector<int>& written_states) {
  auto plan = EmptyPlan(*tables_);
  plan->variant = fb::VariantKind::EagerOrder;
  plan->eager = std::move(program);
  plan->written_args = std::move(written_args);
  plan->written_states = written_states;
  for (int s : written_states) tables_->MarkMutated(s);
  tables_->AddSizeGuards(*plan);
  tables_->plans.push_back(std::move(plan));
}

int BundleBuilder::AddExpr(const Expr& e) { return tables_->exprs.Add(e); }
int BundleBuilder::AddConstantStorage(const Tensor& t) { return tables_->AddConstant(t); }
int BundleBuilder::AddDataSymbol(const std::string& name) { return tables_->AddDataSymbol(name); }

int BundleBuilder::AddCustomOperator(OpName op) {
  std::vector<OpName>& all = tables_->custom_operators;
  const auto it = std::find(all.begin(), all.end(), op);
  if (it != all.end()) return static_cast<int>(it - all.begin());
  all.push_back(op);
  return static_cast<int>(all.size()) - 1;
}

const std::vector<KernelSpec>& BundleBuilder::kernels() const { return tables_->kernels->kernels; }
const std::vector<int>& BundleBuilder::kernel_uses() const { return tables_->kernels->uses; }
const std::vector<Tensor>& BundleBuilder::constants() const { return tables_->storages->constants; }

namespace {

std::unique_ptr<fb::CustomOperatorT> DescribeOperator(OpName op) {
  const FunctionSchema& schema = *FindSchema(op);
  auto out = std::make_unique<fb::CustomOperatorT>();
  out->name = op.full();
  out->schema = DeclaredSchema(op);
  for (const Argument& a : schema.arguments) {
    auto argument = std::make_unique<fb::CustomArgumentT>();
    argument->name = a.name;
    argument->writes = IsWritten(a);
    out->args.push_back(std::move(argument));
  }
  for (size_t k = 0; k < schema.returns.size(); ++k) {
    auto result = std::make_unique<fb::CustomResultT>();
    result->name = schema.returns[k].name;
    const TypeKind kind = schema.returns[k].type.kind();
    using Kind = fb::CustomResultKind;
    result->kind = kind == TypeKind::kList    ? Kind::Tensors
                   : kind == TypeKind::kInt   ? Kind::Int
                   : kind == TypeKind::kFloat ? Kind::Float
                   : kind == TypeKind::kBool  ? Kind::Bool
                                              : Kind::Tensor;
    const ResultMemory memory = MemoryOfResult(schema, k);
    result->shares = memory.arguments;
    result->is_argument = memory.is_argument;
    out->results.push_back(std::move(result));
  }
  return out;
}

}  // namespace

absl::StatusOr<fb::BundleT> BundleBuilder::Finish() {
  fb::BundleT bundle;
  bundle.format = 1;
  bundle.abi = 1;
  bundle.model_name = tables_->signature.name;
  SMELT_RETURN_IF_ERROR(DefineArguments(*tables_, bundle));
  DefineValuesOfInts(*tables_, bundle);
  SMELT_RETURN_IF_ERROR(DefineSymbols(*tables_, bundle));
  bundle.exprs = tables_->exprs.nodes();
  DefineStates(*tables_, bundle);
  bundle.plans = std::move(tables_->plans);
  for (OpName op : tables_->custom_operators) bundle.custom_operators.push_back(DescribeOperator(op));
  return bundle;
}

}  // namespace smelt

#include "smelt/runtime/executable.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/core/base/check.h"
#include "smelt/core/base/closest_word.h"
#include "smelt/core/base/out_of_memory.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/runtime/cpu.h"
#include "smelt/runtime/describe.h"
#include "smelt/schema/bundle_signature.h"

namespace smelt {

const char* Name(AliasVariant v) {
  switch (v) {
    case AliasVariant::kDistinct:
      return "distinct";
    case AliasVariant::kDuplicate:
      return "duplicate";
    case AliasVariant::kOverlap:
      return "overlap";
    case AliasVariant::kEagerOrder:
      return "eager-order";
  }
  return "?";
}

void EvaluateExprs(const std::vector<fb::ExprNode>& nodes, const std::vector<int>& which,
                   const std::vector<int64_t>& symbols, const std::vector<uint8_t>& symbol_known, ExprValues* out) {
  using Op = fb::ExprOp;
  for (int i : which) {
    const fb::ExprNode& n = nodes[i];
    int64_t r = 0;
    bool ok = false;
    if (n.op() == Op::Constant) {
      r = n.constant();
      ok = true;
    } else if (n.op() == Op::Symbol) {
      ok = symbol_known[n.a()] != 0;
      r = symbols[n.a()];
    } else if (n.op() == Op::Select) {
      const int chosen = out->value[n.a()] != 0 ? n.b() : n.c();
      ok = out->known[n.a()] && out->known[chosen];
      r = out->value[chosen];
    } else if (n.op() == Op::Not) {
      ok = out->known[n.a()];
      r = out->value[n.a()] == 0;
    } else {
      const int64_t a = out->value[n.a()], b = out->value[n.b()];
      const bool ka = out->known[n.a()], kb = out->known[n.b()];
      if (n.op() == Op::And && ((ka && a == 0) || (kb && b == 0))) {
        ok = true;
        r = 0;
      } else if (n.op() == Op::Or && ((ka && a != 0) || (kb && b != 0))) {
        ok = true;
        r = 1;
      } else if (ka && kb) {
        ok = true;
        switch (n.op()) {
          case Op::Add:
            ok = !__builtin_add_overflow(a, b, &r);
            break;
          case Op::Sub:
            ok = !__builtin_sub_overflow(a, b, &r);
            break;
          case Op::Mul:
            ok = !__builtin_mul_overflow(a, b, &r);
            break;
          case Op::FloorDiv:
          case Op::Mod: {
            if (b == 0 || (a == std::numeric_limits<int64_t>::min() && b == -1)) {
              ok = false;
              break;
            }
            int64_t q = a / b, m = a % b;
            if (m != 0 && (m < 0) != (b < 0)) --q, m += b;
            r = n.op() == Op::FloorDiv ? q : m;
            break;
          }
          case Op::Min:
            r = std::min(a, b);
            break;
          case Op::Max:
            r = std::max(a, b);
            break;
          case Op::Eq:
            r = a == b;
            break;
          case Op::Lt:
            r = a < b;
            break;
          case Op::Le:
            r = a <= b;
            break;
          case Op::And:
          case Op::Or:
            r = n.op() == Op::And ? 1 : 0;  // decided above but for this
            break;
          default:
            ok = false;
        }
      }
    }
    out->value[i] = r;
    out->known[i] = ok;
  }
}

absl::StatusOr<std::shared_ptr<const Program>> Program::Load(absl::string_view path, const ProgramOptions& options) {
  return CatchOutOfMemory([&]() -> absl::StatusOr<std::shared_ptr<const Program>> {
    SMELT_ASSIGN_OR_RETURN(auto container, Container::Open(path, ContentKind::kBundle));
    return Executable::Make(std::move(container), options);
  });
}

absl::StatusOr<std::shared_ptr<const Program>> Program::LoadFromMemory(absl::Span<const uint8_t> bytes,
                                                                       const ProgramOptions& options,
                                                                       absl::string_view name) {
  return CatchOutOfMemory([&]() -> absl::StatusOr<std::shared_ptr<const Program>> {
    SMELT_ASSIGN_OR_RETURN(auto container, Container::FromMemory(bytes, ContentKind::kBundle, name));
    return Executable::Make(std::move(container), options);
  });
}

std::vector<std::string> Program::output_names() const {
  std::vector<std::string> names;
  for (const ResultInfo& r : results_) names.push_back(r.name);
  return names;
}

int64_t Program::packed_weight_bytes() const { return static_cast<const Executable*>(this)->library().packed_bytes(); }

absl::StatusOr<std::shared_ptr<const Program>> Executable::Make(std::shared_ptr<const Container> container,
                                                                const ProgramOptions& options) {
  auto p = std::shared_ptr<Executable>(new Executable());
  p->container_ = std::move(container);
  p->options_ = options;
  // A weight that has been packed is rarely read in its place again.
  p->library_ = std::make_shared<Library>([file = p->container_.get()](const PackedWeights::Source& weight) {
    // The source may be a packed form itself, which is no part of the file.
    if (file->Contains(weight.begin)) file->ReleasePages(weight.begin, weight.bytes);
  });
  const std::string& name = p->container_->name();
  SMELT_ASSIGN_OR_RETURN(p->own_bundle_, LoadBundle(*p->container_));
  p->bundle_ = p->own_bundle_.get();
  if (options.verify_weights) {
    for (int i = 0; i < static_cast<int>(p->container_->segments().size()); ++i) {
      if (p->container_->segments()[i].kind == SegmentKind::kWeights) {
        SMELT_RETURN_IF_ERROR(Annotate(p->container_->VerifyDigest(i), name));
      }
    }
  }
  SMELT_RETURN_IF_ERROR(Annotate(p->ChooseTarget(), name));
  SMELT_RETURN_IF_ERROR(Annotate(p->FindCustomOperators(), name));
  p->weights_of_all_rows_ = std::make_shared<std::set<const char*>>();
  p->FindWeightsOfAllRows(*p->bundle_);
  SMELT_RETURN_IF_ERROR(Annotate(p->Init(), name));
  p->DescribeForCaller();
  SMELT_RETURN_IF_ERROR(Annotate(p->MakeMethods(), name));
  return std::shared_ptr<const Program>(std::move(p));
}

absl::Status Executable::MakeMethods() {
  if (bundle_->methods.empty()) {
    method_names_ = {bundle_->method.empty() ? kDefaultMethod : bundle_->method};
    return absl::OkStatus();
  }
  for (const auto& m : bundle_->methods) {
    auto p = std::shared_ptr<Executable>(new Executable());
    p->container_ = container_;
    p->options_ = options_;
    p->own_bundle_ = std::shared_ptr<const fb::BundleT>(own_bundle_, m.get());
    p->bundle_ = m.get();
    p->target_ = target_;
    p->kernels_ = kernels_;
    p->device_ = device_;
    p->image_kernels_ = image_kernels_;
    p->on_device_ = on_device_;
    p->image_ = image_;
    p->library_ = library_;
    p->weights_of_all_rows_ = weights_of_all_rows_;
    p->prepared_bytes_ = prepared_bytes_;
    p->method_names_ = {m->method};
    const std::string where = absl::StrCat("method \"", m->method, "\"");
    SMELT_RETURN_IF_ERROR(Annotate(p->FindCustomOperators(), where));
    SMELT_RETURN_IF_ERROR(Annotate(p->Init(), where));
    p->prepared_bytes_ = nullptr;
    p->DescribeForCaller();
    p->bundle_format_ = bundle_format_;
    p->targets_ = targets_;
    // Another method may move a state.
    for (size_t s = 0; s < states_.size(); ++s) p->states_[s].may_move = states_[s].may_move;
    method_names_.push_back(m->method);
    methods_.push_back(std::move(p));
  }
  return absl::OkStatus();
}

absl::Status Program::NoSuchMethod(absl::string_view name) const {
  const auto quoted = [](std::string* out, const std::string& name) { absl::StrAppend(out, "\"", name, "\""); };
  const std::string known = absl::StrJoin(method_names_, ", ", quoted);
  const std::string meant = ClosestWord(name, method_names_);
  return absl::NotFoundError(absl::StrCat("the program has no method \"", name, "\"; it has ", known,
                                          meant.empty() ? "" : absl::StrCat("; did you mean \"", meant, "\"?")));
}

absl::StatusOr<std::shared_ptr<const Program>> Program::Method(absl::string_view name) const {
  for (size_t i = 0; i < method_names_.size(); ++i) {
    if (method_names_[i] != name) continue;
    if (method_names_.size() == 1) return shared_from_this();
    return static_cast<const Executable*>(this)->methods()[i];
  }
  return NoSuchMethod(name);
}

absl::StatusOr<std::shared_ptr<const Executable>> Executable::MakeCall(Executable& outer, const fb::BundleT& bundle) {
  auto p = std::shared_ptr<Executable>(new Executable());
  p->container_ = outer.container_;
  p->options_ = outer.options_;
  p->bundle_ = &bundle;
  p->kernels_ = outer.kernels_;
  p->device_ = outer.device_;
  p->image_kernels_ = outer.image_kernels_;
  p->image_ = outer.image_;
  p->library_ = outer.library_;
  p->weights_of_all_rows_ = outer.weights_of_all_rows_;
  p->prepared_bytes_ = outer.prepared_bytes_;
  SMELT_RETURN_IF_ERROR(p->Init());
  p->prepared_bytes_ = nullptr;
  return std::shared_ptr<const Executable>(std::move(p));
}

absl::Status Executable::Init() {
  Describe();
  plans_.resize(bundle_->plans.size());
  for (size_t i = 0; i < plans_.size(); ++i) Prepare(*bundle_->plans[i], &plans_[i]);

  arg_matters_.assign(bundle_->args.size(), 0);
  state_matters_.assign(bundle_->storages.size(), 0);
  for (const ExecutablePlan& plan : plans_) {
    for (size_t a = 0; a < arg_matters_.size(); ++a) {
      if (plan.writes_data[a] || plan.writes_geometry[a]) arg_matters_[a] = 1;
      const int first = plan.outer_of_inner[plan.inner_of_outer[a]];
      if (first != static_cast<int>(a)) arg_matters_[a] = arg_matters_[first] = 1;
    }
    for (size_t s = 0; s < state_matters_.size(); ++s) {
      if (plan.writes_state[s]) state_matters_[s] = 1, writes_states_ = true;
    }
    for (int k : plan.changed_states) state_matters_[bundle_->states[k]->storage] = 1, writes_states_ = true;
  }
  patterns_matter_ = writes_states_ || std::find(arg_matters_.begin(), arg_matters_.end(), 1) != arg_matters_.end();
  eager_calls_.resize(plans_.size());
  for (size_t i = 0; i < plans_.size(); ++i) {
    if (bundle_->plans[i]->eager == nullptr) continue;
    for (const auto& call : bundle_->plans[i]->eager->calls) {
      SMELT_ASSIGN_OR_RETURN(std::shared_ptr<const Executable> made, MakeCall(*this, *call));
      eager_calls_[i].push_back(std::move(made));
    }
  }
  return PrepareLibraryCalls();
}

absl::Status Executable::FindCustomOperators() {
  std::vector<std::string> missing;
  for (const auto& op : bundle_->custom_operators) {
    custom_operators_.push_back(FindOperator(op->name));
    if (custom_operators_.back() == nullptr) missing.push_back(op->schema.empty() ? op->name : op->schema);
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(
      "the model calls operators of its author's own that this process has no implementation of: ",
      absl::StrJoin(missing, "; "), "; register them, or load the library that holds them, before the bundle"));
}

absl::Status Executable::ChooseDeviceTarget(Device device) {
  SMELT_ASSIGN_OR_RETURN(device_, ExecutionDevice::Of(device));
  on_device_ = device;
  const bool calls_custom_operators =
      !bundle_->custom_operators.empty() || std::any_of(bundle_->methods.begin(), bundle_->methods.end(),
                                                        [](const auto& m) { return !m->custom_operators.empty(); });
  if (calls_custom_operators) {
    return absl::UnimplementedError(absl::StrCat("the model calls operators of its author's own, which do not run on ",
                                                 device.ToString(), "; run it on the CPU"));
  }
  const int has = device_->compute_capability();
  const fb::TargetCodeT* best = nullptr;
  bool from_ptx = false;
  std::vector<std::string> names;
  for (const auto& t : bundle_->targets) {
    names.push_back(t->name);
    const int needs = t->compute_capability;
    if (needs == 0 || needs > has || (!options_.target.empty() && t->name != options_.target)) continue;
    const bool runs = t->is_ptx || (t->exact_device ? needs == has : needs / 10 == has / 10);
    if (!runs && t->ptx_segment < 0) continue;
    // Code for the device itself is better than text that the driver compiles, and newer code better than older.
    const bool text = t->is_ptx || !runs;
    if (best != nullptr && std::pair(text, -needs) > std::pair(from_ptx, -best->compute_capability)) continue;
    best = t.get();
    from_ptx = text;
  }
  // Without kernels of its own a bundle runs anywhere; library steps run on the host then.
  if (best == nullptr && bundle_->kernels.empty() && options_.target.empty()) return absl::OkStatus();
  if (best == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "it holds no code for ", device.ToString(), ", which has compute capability ", has / 10, ".", has % 10,
        "; the bundle has targets ", absl::StrJoin(names, ", "), "; compile with --target=sm_", has));
  }
  target_ = best->name;
  const bool other_segment = from_ptx && !best->is_ptx;
  const int segment = other_segment ? best->ptx_segment : best->image_segment;
  if (bundle_->kernels.empty()) {
    // There may be library kernels. The segment is not verified where there are no others.
    const auto& segments = container_->segments();
    const bool is_code = segment >= 0 && segment < static_cast<int>(segments.size()) &&
                         segments[segment].kind == SegmentKind::kCode && segments[segment].size > 0;
    if (!is_code) return absl::OkStatus();
  }
  std::vector<DeviceKernel> kernels;
  for (size_t k = 0; k < best->kernels.size(); ++k) {
    kernels.push_back({best->kernels[k]->cuda.get(), bundle_->kernels[k]->num_words});
    if (kernels.back().launch == nullptr) {
      return absl::FailedPreconditionError(absl::StrCat(
          best->name,
          ": the bundle does not say how its kernels are launched: compile the model again with this version"));
    }
  }
  SMELT_RETURN_IF_ERROR(container_->VerifyDigest(segment));
  SMELT_ASSIGN_OR_RETURN(image_, device_->Load(container_->bytes(segment), std::move(kernels)));
  image_kernels_ = &bundle_->kernels;
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Storage>> Executable::StateOnDevice(int storage) const {
  const std::lock_guard<std::mutex> lock(states_mutex_);
  states_on_device_.resize(bundle_->storages.size());
  if (states_on_device_[storage] == nullptr) {
    const int64_t bytes = bundle_->storages[storage]->bytes;
    SMELT_ASSIGN_OR_RETURN(std::shared_ptr<Storage> made, device_->NewStorage(bytes));
    SMELT_RETURN_IF_ERROR(device_->FromHost(made->address(), StateBytes(storage), bytes));
    states_on_device_[storage] = std::move(made);
  }
  return states_on_device_[storage];
}

absl::Status Executable::ChooseTarget() {
  if (!options_.device.empty()) {
    SMELT_ASSIGN_OR_RETURN(const Device device, Device::Parse(options_.device));
    if (!device.is_cpu()) return ChooseDeviceTarget(device);
  }
  if (bundle_->kernels.empty() && options_.target.empty()) return absl::OkStatus();
  const fb::TargetCodeT* best = nullptr;
  std::vector<std::string> names;
  std::string why;
  for (const auto& t : bundle_->targets) {
    names.push_back(t->name);
    if (!options_.target.empty() && t->name != options_.target) continue;
    if (!RunsTriple(t->triple)) {
      why = absl::StrCat(t->name, " is for ", t->triple);
      continue;
    }
    const std::vector<std::string> missing = MissingFeatures(t->features);
    if (!missing.empty()) {
      why = absl::StrCat(t->name, " needs ", absl::StrJoin(missing, ", "), ", which this machine lacks");
      continue;
    }
    // More required features: the more specific target.
    if (best == nullptr || t->features.size() > best->features.size()) best = t.get();
  }
  if (best == nullptr) {
    const absl::string_view level = CpuLevel();
    if (why.empty() && !options_.target.empty()) why = absl::StrCat("it has no target ", options_.target);
    return absl::FailedPreconditionError(absl::StrCat(
        why.empty() ? "it holds no code for any machine" : why, "; the bundle has targets ", absl::StrJoin(names, ", "),
        "; compile with --target=", level.empty() || level == "x86-64" ? "a target of this machine" : level));
  }
  target_ = best->name;
  if (bundle_->kernels.empty()) return absl::OkStatus();
  SMELT_ASSIGN_OR_RETURN(const uint8_t* code, container_->MapExecutable(best->image_segment));
  std::vector<KernelEntry> kernels;
  for (const auto& k : best->kernels) {
    kernels.push_back(reinterpret_cast<KernelEntry>(const_cast<uint8_t*>(code) + k->offset));
  }
  kernels_ = std::make_shared<const std::vector<KernelEntry>>(std::move(kernels));
  return absl::OkStatus();
}

void Executable::DescribeForCaller() {
  const fb::BundleT& b = *bundle_;
  bundle_format_ = static_cast<int>(b.format);
  for (const auto& t : b.targets) targets_.push_back(t->name);
  argument_structure_ = StructureOf(b.argument_structure);
  result_structure_ = StructureOf(b.result_structure);
  smelt::DescribeForCaller(b, argument_structure_, result_structure_, {&args_, &states_, &results_});
}

void Executable::Describe() {
  const fb::BundleT& b = *bundle_;
  model_name_ = b.model_name;
  late_expr_.assign(b.exprs.size(), 0);
  for (size_t i = 0; i < b.exprs.size(); ++i) {
    const fb::ExprNode& n = b.exprs[i];
    using Op = fb::ExprOp;
    if (n.op() == Op::Constant) continue;
    if (n.op() == Op::Symbol) {
      late_expr_[i] = b.symbols[n.a()]->source == fb::SymbolSource::Data;
      continue;
    }
    late_expr_[i] = late_expr_[n.a()] | (n.op() != Op::Not ? late_expr_[n.b()] : 0) |
                    (n.op() == Op::Select ? late_expr_[n.c()] : 0);
  }
  std::vector<int> roots;
  for (const auto& a : b.args) {
    ArgInfo info;
    info.name = a->name;
    info.kind = static_cast<ValueKind>(a->kind);
    info.has_constant = a->has_constant;
    if (a->has_constant) {
      switch (a->kind) {
        case fb::ArgKind::Int:
          info.constant = Datum(a->int_value);
          break;
        case fb::ArgKind::Float:
          info.constant = Datum(a->float_value);
          break;
        case fb::ArgKind::Bool:
          info.constant = Datum(a->int_value != 0);
          break;
        case fb::ArgKind::String:
          info.constant = Datum(a->string_value);
          break;
        default:
          break;
      }
    }
    if (a->kind == fb::ArgKind::Int) roots.push_back(a->value);
    if (a->kind == fb::ArgKind::Tensor) {
      info.dtype = static_cast<DType>(a->dtype);
      for (int e : a->sizes) {
        info.sizes.push_back(b.exprs[e].op() == fb::ExprOp::Constant ? b.exprs[e].constant() : -1);
        roots.push_back(e);
      }
      roots.insert(roots.end(), a->strides.begin(), a->strides.end());
    }
    args_.push_back(std::move(info));
  }
  signature_exprs_ = Closure(roots);
  for (const auto& o : b.outputs) {
    ResultInfo& info = results_.emplace_back();
    info.name = o->name;
    info.kind = static_cast<ValueKind>(o->kind);
  }
  for (const auto& s : b.states) {
    StateInfo info;
    info.name = s->name;
    info.kind = static_cast<StateInfo::Kind>(s->kind);
    info.storage = s->storage;
    info.dtype = static_cast<DType>(s->dtype);
    info.geometry = Geometry{s->sizes, s->strides, s->offset};
    info.is_mutated = b.storages[s->storage]->is_mutated;
    states_.push_back(std::move(info));
  }
}

std::vector<int> Executable::Closure(const std::vector<int>& roots) const {
  std::vector<uint8_t> needed(bundle_->exprs.size(), 0);
  int last = -1;
  for (int r : roots) {
    if (r < 0) continue;
    needed[r] = 1;
    last = std::max(last, r);
  }
  std::vector<int> list;
  for (int i = last; i >= 0; --i) {
    if (!needed[i]) continue;
    list.push_back(i);
    const fb::ExprNode& n = bundle_->exprs[i];
    if (n.op() == fb::ExprOp::Constant || n.op() == fb::ExprOp::Symbol) continue;
    needed[n.a()] = 1;
    if (n.op() != fb::ExprOp::Not) needed[n.b()] = 1;
    if (n.op() == fb::ExprOp::Select) needed[n.c()] = 1;
  }
  std::reverse(list.begin(), list.end());
  return list;
}

// Derives everything that a call needs from a plan, field after field in the order in which they depend on each
// other. It is one function because most steps read what several earlier ones have set.
void Executable::Prepare(const fb::PlanT& p, ExecutablePlan* out) {
  const fb::BundleT& b = *bundle_;
  const int num_args = static_cast<int>(b.args.size());
  out->plan = &p;

  // Arguments.
  const fb::ConventionT& c = *p.convention;
  if (c.duplicates != nullptr) out->inner_of_outer = c.duplicates->inner_of_outer;
  if (out->inner_of_outer.empty()) {
    for (int i = 0; i < num_args; ++i) out->inner_of_outer.push_back(i);
  }
  std::vector<std::vector<int>> outers;  // by inner argument
  for (int i = 0; i < num_args; ++i) {
    const int inner = out->inner_of_outer[i];
    if (inner == static_cast<int>(out->outer_of_inner.size())) {
      out->outer_of_inner.push_back(i);
      outers.emplace_back();
    } else {
      out->identifies = true;
    }
    outers[inner].push_back(i);
  }
  if (c.mutated != nullptr) {
    for (const auto& m : c.mutated->inputs) {
      if (m->is_state && m->flags != static_cast<int>(fb::MutationKind::Data)) out->changed_states.push_back(m->arg);
      if (!(m->flags & static_cast<int>(fb::MutationKind::Resized))) continue;
      if (m->is_state) {
        out->grown_states.push_back({b.states[m->arg]->storage, m->final_bytes});
      } else {
        out->grows = true;
      }
    }
  }
  out->writes_data.assign(num_args, 0);
  out->writes_geometry.assign(num_args, 0);
  out->writes_state.assign(b.storages.size(), 0);
  out->returns_other.assign(num_args, 0);
  // Which of several names of one tensor is returned, the plan for distinct arguments says; it is the first.
  const fb::ConventionT& distinct = *b.plans[0]->convention;
  if (c.outputs != nullptr && distinct.outputs != nullptr) {
    for (size_t k = 0; k < c.outputs->outputs.size() && k < distinct.outputs->outputs.size(); ++k) {
      const fb::OutputRefT &o = *c.outputs->outputs[k], &meant = *distinct.outputs->outputs[k];
      if (o.kind != fb::OutputKind::IsArg || (meant.kind == o.kind && meant.index == o.index)) continue;
      for (int i : outers[out->inner_of_outer[o.index]]) out->returns_other[i] = 1;
    }
  }
  for (int a : p.written_args) out->writes_data[a] = 1;
  for (int s : p.written_states) out->writes_state[s] = 1;
  if (c.mutated != nullptr) {
    constexpr int kGeometry = static_cast<int>(fb::MutationKind::Geometry);
    for (const auto& m : c.mutated->inputs) {
      if (m->is_state) {
        if (m->flags & static_cast<int>(fb::MutationKind::Data)) out->writes_state[b.states[m->arg]->storage] = 1;
        continue;
      }
      for (int i : outers[m->arg]) {
        // Geometry alone touches no memory: tensors that merely share bytes do not notice.
        out->writes_data[i] = (m->flags & ~kGeometry) != 0;
        out->writes_geometry[i] = m->flags != static_cast<int>(fb::MutationKind::Data);
      }
    }
  }
  // If arguments may overlap, a copy would not see a write to the other.
  const bool overlap = p.variant == fb::VariantKind::Overlap;
  for (int i = 0; i < num_args; ++i) {
    out->may_be_copied.push_back(p.other_strides != fb::OtherStrides::Refused || (!overlap && b.args[i]->any_strides));
  }
  const auto keep = [&](int inner) {
    for (int i : outers[inner]) out->may_be_copied[i] = 0;
  };
  out->state_may_move.assign(b.storages.size(), p.other_strides != fb::OtherStrides::Refused);
  out->state_may_be_copied = out->state_may_move;
  const auto keep_memory_of = [&](int view) {
    if (view < 0) return;
    const fb::SlotT& slot = *p.slots[p.views[view]->slot];
    if (slot.kind == fb::SlotKind::ArgStorage) keep(slot.index);
    if (slot.kind == fb::SlotKind::StateStorage) out->state_may_be_copied[slot.index] = 0;
  };
  for (const auto& o : c.outputs->outputs) {
    keep_memory_of(o->view);
  }
  if (c.mutated != nullptr) {
    for (const auto& m : c.mutated->inputs) keep_memory_of(m->final_view);
  }
  for (const auto& slot : p.slots) {
    if (slot->kind == fb::SlotKind::ArgStorage && slot->whole_storage) keep(slot->index);
  }
  for (int i = 0; i < num_args; ++i) {
    if (out->writes_data[i] || out->writes_geometry[i]) keep(out->inner_of_outer[i]);
  }
  for (size_t s = 0; s < out->writes_state.size(); ++s) {
    if (out->writes_state[s]) out->state_may_be_copied[s] = 0;
  }
  out->groups_of.resize(num_args);
  if (c.overlaps != nullptr) {
    for (size_t g = 0; g < c.overlaps->groups.size(); ++g) {
      std::vector<int> outer;
      for (int m : c.overlaps->groups[g]->members) outer.insert(outer.end(), outers[m].begin(), outers[m].end());
      std::sort(outer.begin(), outer.end());
      outer.erase(std::unique(outer.begin(), outer.end()), outer.end());
      for (int i : outer) out->groups_of[i].push_back(static_cast<int>(g));
      if (c.overlaps->groups[g]->same_storage) out->one_storage.push_back(std::move(outer));
    }
  }

  // Memory.
  const auto late = [&](int e) { return e >= 0 && late_expr_[e]; };
  out->memory.slot_late.assign(p.slots.size(), 0);
  for (size_t s = 0; s < p.slots.size(); ++s) {
    out->memory.slot_late[s] = p.slots[s]->kind == fb::SlotKind::Heap || late(p.slots[s]->bytes);
  }
  for (size_t k = 0; k < p.blocks.size(); ++k) {
    for (const auto& step : p.blocks[k]->steps) {
      if (step->step.type == fb::StepUnion::Alloc) out->memory.slot_late[step->step.AsAlloc()->slot] = 1;
    }
  }
  out->memory.view_late.assign(p.views.size(), 0);
  for (size_t v = 0; v < p.views.size(); ++v) {
    bool is_late = out->memory.slot_late[p.views[v]->slot] || late(p.views[v]->offset);
    for (int e : p.views[v]->sizes) is_late = is_late || late(e);
    for (int e : p.views[v]->strides) is_late = is_late || late(e);
    out->memory.view_late[v] = is_late;
    const fb::SlotT& slot = *p.slots[p.views[v]->slot];
    if (is_late && slot.kind == fb::SlotKind::StateStorage) out->state_may_move[slot.index] = 0;
  }
  out->memory.output_of_slot.assign(p.slots.size(), -1);
  for (size_t k = 0; k < c.outputs->outputs.size(); ++k) {
    const fb::OutputRefT& o = *c.outputs->outputs[k];
    if (o.view < 0 || o.kind == fb::OutputKind::IsArg || o.kind == fb::OutputKind::IsState) continue;
    int& user = out->memory.output_of_slot[p.views[o.view]->slot];
    user = user == -1 ? static_cast<int>(k) : -2;
  }
  if (c.mutated != nullptr) {
    for (const auto& m : c.mutated->inputs) {
      if (m->final_view >= 0) out->memory.output_of_slot[p.views[m->final_view]->slot] = -2;
    }
  }

  // Expressions.
  std::vector<int> roots;
  const auto add = [&](const std::vector<int>& list) { roots.insert(roots.end(), list.begin(), list.end()); };
  roots.push_back(p.arena_bytes);
  for (const auto& g : p.guards) roots.push_back(g->expr);
  for (const auto& s : p.slots) roots.push_back(s->bytes), roots.push_back(s->offset);
  for (const auto& v : p.views) add(v->sizes), add(v->strides), roots.push_back(v->offset);
  for (const auto& k : p.prologue_checks) {
    if (k->kind == fb::CheckKind::NotZero) roots.push_back(k->a);
    if (k->kind == fb::CheckKind::IndexInRange || k->kind == fb::CheckKind::WrappedIndexInRange) roots.push_back(k->b);
  }
  if (c.mutated != nullptr) {
    for (const auto& m : c.mutated->inputs) roots.push_back(m->final_bytes);
  }
  for (const auto& o : c.outputs->outputs) roots.push_back(o->expr);
  if (p.eager != nullptr) {
    for (const auto& block : p.eager->blocks) {
      for (const auto& i : block->instrs) {
        roots.push_back(i->expr);
        for (const auto& result : i->stated) {
          for (const auto& t : result->tensors) add(t->sizes);
        }
      }
    }
  }
  for (const auto& block : p.blocks) {
    out->steps.first.push_back(out->steps.count);
    out->steps.count += static_cast<int>(block->steps.size());
  }
  out->steps.writes_visible.assign(out->steps.count, 0);
  // Notes a view that is written.
  const auto visible = [&](int v) {
    if (v < 0) return false;
    const fb::SlotKind k = p.slots[p.views[v]->slot]->kind;
    const bool is_visible = k == fb::SlotKind::ArgStorage || k == fb::SlotKind::StateStorage;
    std::vector<int>& views = out->steps.written_views;
    if (is_visible && std::find(views.begin(), views.end(), v) == views.end()) views.push_back(v);
    return is_visible;
  };
  for (size_t k = 0; k < p.blocks.size(); ++k) {
    for (size_t i = 0; i < p.blocks[k]->steps.size(); ++i) {
      const fb::StepT& step = *p.blocks[k]->steps[i];
      uint8_t& writes = out->steps.writes_visible[out->steps.first[k] + i];
      switch (step.step.type) {
        case fb::StepUnion::Launch: {
          const fb::LaunchT& l = *step.step.AsLaunch();
          roots.push_back(l.tiles);
          roots.push_back(l.bytes);
          for (const fb::Word& w : l.words) {
            if (w.kind() == fb::WordKind::Expr) roots.push_back(w.a());
            if (w.kind() == fb::WordKind::Address) roots.push_back(w.b());
          }
          for (int v : l.writes) writes |= visible(v);
          break;
        }
        case fb::StepUnion::LibraryCall:
          add(step.step.AsLibraryCall()->ints);
          for (int v : step.step.AsLibraryCall()->outputs) writes |= visible(v);
          break;
        case fb::StepUnion::Copy:
          writes = visible(step.step.AsCopy()->dst);
          break;
        case fb::StepUnion::Random:
          writes = visible(step.step.AsRandom()->out);
          break;
        case fb::StepUnion::Check:
          if (step.step.AsCheck()->kind == fb::CheckKind::NotZero) roots.push_back(step.step.AsCheck()->a);
          break;
        case fb::StepUnion::While:
          roots.push_back(step.step.AsWhile()->max_trips);
          break;
        case fb::StepUnion::SetRegister:
          roots.push_back(step.step.AsSetRegister()->expr);
          break;
        default:
          break;
      }
    }
  }
  std::vector<uint8_t> seen(b.symbols.size(), 0);
  for (int e : Closure(roots)) {
    (late_expr_[e] ? out->late_exprs : out->exprs).push_back(e);
    if (!late_expr_[e] && b.exprs[e].op() == fb::ExprOp::Symbol) seen[b.exprs[e].a()] = 1;
  }
  for (size_t s = 0; s < seen.size(); ++s) {
    if (!seen[s]) continue;
    out->symbols.push_back(static_cast<int>(s));
    const fb::SymbolDefT& def = *b.symbols[s];
    if (def.source == fb::SymbolSource::ArgOffset) out->reaches_beyond.push_back(def.arg);
  }
}

const char* Executable::StateBytes(const fb::StateStorageT& s) const {
  if (s.bytes == 0) return nullptr;
  return reinterpret_cast<const char*>(container_->bytes(s.segment).data()) + s.segment_offset;
}

absl::StatusOr<LibraryRequest> Executable::RequestOf(const ExecutablePlan& plan, const fb::LibraryCallT& call,
                                                     const ExprValues& values) const {
  LibraryRequest r;
  r.op = call.op;
  bool known = true;
  const auto value = [&](int e) {
    if (!values.known[e]) known = false;
    return values.value[e];
  };
  const auto shape = [&](int v) {
    OperandShape o;
    if (v < 0) return o;
    const fb::ViewT& view = *plan.plan->views[v];
    o.present = true;
    o.dtype = static_cast<DType>(view.dtype);
    for (int e : view.sizes) o.sizes.push_back(value(e));
    for (int e : view.strides) o.strides.push_back(value(e));
    const fb::SlotT& slot = *plan.plan->slots[view.slot];
    // Only memory that nothing writes is packed, at its place in the file. The bounds are checked when the plan is
    // bound, but packing reads before that. An expanded weight takes more memory packed than it has.
    if (known && slot.kind == fb::SlotKind::StateStorage && !bundle_->storages[slot.index]->is_mutated) {
      const int64_t limit = bundle_->storages[slot.index]->bytes / ItemSize(o.dtype);
      int64_t low = value(view.offset), high = low, elements = 1;
      bool inside = true;
      for (int d = 0; inside && d < o.rank(); ++d) {
        int64_t reach = 0;
        if (o.sizes[d] < 1 || __builtin_mul_overflow(elements, o.sizes[d], &elements) || elements > limit ||
            __builtin_mul_overflow(o.sizes[d] - 1, o.strides[d], &reach) ||
            __builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high)) {
          inside = false;
        }
      }
      if (known && inside && low >= 0 && high < limit) {
        o.constant = StateBytes(slot.index) + value(view.offset) * ItemSize(o.dtype);
        o.serves_all_rows = weights_of_all_rows_->count(StateBytes(slot.index)) != 0;
      }
    }
    return o;
  };
  for (int v : call.inputs) r.inputs.push_back(shape(v));
  for (int v : call.outputs) r.outputs.push_back(shape(v));
  for (int e : call.ints) r.ints.push_back(value(e));
  r.floats = call.floats;
  r.strings = call.strings;
  if (!known) return absl::InternalError("sizes are not known");
  return r;
}

// Returns whether preparing the call takes time and memory in proportion to the file. Preparation packs constants, and
// makes tables and tiles for the sizes, which a small file may claim to be huge. The first call prepares whatever is
// not prepared now.
bool Executable::IsCheapToPrepare(const LibraryRequest& request) {
  constexpr int64_t kMostOfOne = int64_t{1} << 24, kMost = int64_t{1} << 27;  // of a small file
  // The tables of a transform take up to twenty times the memory of its signal. Other operators cut a result of many MB
  // into tiles.
  const bool has_tables = request.op == "fourier";
  int64_t cost = 1 << 16;  // code is generated for it
  for (const auto* list : {&request.inputs, &request.outputs}) {
    for (const OperandShape& o : *list) {
      int64_t bytes = o.present ? ItemSize(o.dtype) : 0;
      for (int64_t size : o.sizes) {
        if (size < 0) return true;  // it will be refused
        if (__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes)) return false;
      }
      if (o.constant == nullptr && !has_tables) bytes /= 16;
      if (__builtin_mul_overflow(bytes, has_tables ? 16 : 1, &bytes) || __builtin_add_overflow(cost, bytes, &cost)) {
        return false;
      }
    }
  }
  const int64_t file = container_->file_bytes();
  if (cost > std::max(kMostOfOne, 4 * file) || *prepared_bytes_ > std::max(kMost, 64 * file) - cost ||
      library_->packed_bytes() > 4 * file) {
    return false;
  }
  *prepared_bytes_ += cost;
  return true;
}

namespace {

// Returns element `i`, or null: the bundle's numbers have not been checked yet.
template <typename T>
const T* At(const std::vector<std::unique_ptr<T>>& list, int64_t i) {
  return i < 0 || i >= static_cast<int64_t>(list.size()) ? nullptr : list[i].get();
}

// Returns whether the sizes of a result, of which operand `input` of a product is a weight, make it read that in place:
// it has few rows. The left operand multiplies the columns of the right one.
bool IsReadInPlace(const fb::BundleT& bundle, const std::vector<int>& sizes, int input) {
  constexpr int64_t kMostInPlace = 2;
  if (sizes.empty()) return true;
  const auto first = input == 0 ? sizes.end() - 1 : sizes.begin(), last = input == 0 ? sizes.end() : sizes.end() - 1;
  int64_t rows = 1;
  return std::all_of(first, last, [&](int e) {
    if (e < 0 || e >= static_cast<int64_t>(bundle.exprs.size())) return false;
    const fb::ExprNode& n = bundle.exprs[e];
    return n.op() == fb::ExprOp::Constant && n.constant() >= 0 && n.constant() <= kMostInPlace &&
           (rows *= n.constant()) <= kMostInPlace;
  });
}

}  // namespace

void Executable::FindWeightsOfAllRows(const fb::BundleT& bundle) {
  const auto num_segments = static_cast<int64_t>(container_->segments().size());
  for (const auto& method : bundle.methods) FindWeightsOfAllRows(*method);
  for (const auto& plan : bundle.plans) {
    if (plan->eager != nullptr) {
      for (const auto& call : plan->eager->calls) FindWeightsOfAllRows(*call);
    }
    for (const auto& block : plan->blocks) {
      for (const auto& step : block->steps) {
        const fb::LibraryCallT* call = step->step.AsLibraryCall();
        if (call == nullptr || call->inputs.size() < 2 || call->outputs.size() != 1) continue;
        const bool grouped = call->op == "grouped_mm";
        if (call->op != "matmul" && !grouped) continue;
        const fb::ViewT* out = At(plan->views, call->outputs[0]);
        for (const int input : {0, 1}) {
          if (grouped && input == 0) continue;
          const fb::ViewT* view = At(plan->views, call->inputs[input]);
          const fb::SlotT* slot = view == nullptr ? nullptr : At(plan->slots, view->slot);
          if (out == nullptr || slot == nullptr || slot->kind != fb::SlotKind::StateStorage) continue;
          const fb::StateStorageT* storage = At(bundle.storages, slot->index);
          if (storage == nullptr || storage->segment < 0 || storage->segment >= num_segments) continue;
          if (!IsReadInPlace(bundle, out->sizes, input)) weights_of_all_rows_->insert(StateBytes(*storage));
        }
      }
    }
  }
}

// Prepares now whatever does not depend on a call's sizes, instead of in the first call.
absl::Status Executable::PrepareLibraryCalls() {
  const std::vector<int64_t> symbols(bundle_->symbols.size(), 0);
  const std::vector<uint8_t> unknown(bundle_->symbols.size(), 0);
  for (const ExecutablePlan& plan : plans_) {
    ExprValues values;
    values.Resize(bundle_->exprs.size());
    EvaluateExprs(bundle_->exprs, plan.exprs, symbols, unknown, &values);
    for (const auto& block : plan.plan->blocks) {
      for (const auto& step : block->steps) {
        if (step->step.type != fb::StepUnion::LibraryCall) continue;
        const fb::LibraryCallT& call = *step->step.AsLibraryCall();
        if (!IsLibraryOp(call.op)) {
          return absl::UnimplementedError(
              absl::StrCat("calls the library operator \"", call.op, "\", which this runtime does not have"));
        }
        // A device may have a kernel for it; else the host prepares it when it runs.
        if (device_ != nullptr) continue;
        absl::StatusOr<LibraryRequest> request = RequestOf(plan, call, values);
        if (!request.ok() || !IsCheapToPrepare(*request)) continue;
        const absl::Status prepared = library_->Prepare(*request).status();
        if (prepared.code() == absl::StatusCode::kInvalidArgument) {
          return absl::DataLossError(absl::StrCat(step->source, ": ", prepared.message()));
        }
        SMELT_RETURN_IF_ERROR(Annotate(prepared, step->source));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace smelt

// Checks the arguments against the signature, and computes the symbols that they define.
#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/core/base/cause.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/runtime/executor.h"
#include "smelt/runtime/memory_limit.h"
#include "smelt/runtime/strided.h"

namespace smelt {
namespace {

absl::string_view KindName(fb::ArgKind k) {
  switch (k) {
    case fb::ArgKind::Tensor:
      return "a tensor";
    case fb::ArgKind::Int:
      return "an int";
    case fb::ArgKind::Float:
      return "a float";
    case fb::ArgKind::Bool:
      return "a bool";
    case fb::ArgKind::None:
      return "None";
    case fb::ArgKind::String:
      return "a string";
    case fb::ArgKind::Complex:
      return "a complex";
  }
  return "?";
}

// Accepts also the kinds that PyTorch converts silently.
bool KindFits(fb::ArgKind want, const Datum& v) {
  switch (want) {
    case fb::ArgKind::Tensor:
      return v.IsTensor() && v.tensor().defined();
    case fb::ArgKind::Int:
      return v.IsInt() || v.IsBool();
    case fb::ArgKind::Float:
      return v.IsFloat() || v.IsInt() || v.IsBool();
    case fb::ArgKind::Bool:
      return v.IsBool();
    case fb::ArgKind::None:
      return v.IsNone();
    case fb::ArgKind::String:
      return v.IsString();
    case fb::ArgKind::Complex:
      return v.IsComplex() || v.IsFloat() || v.IsInt();
  }
  return false;
}

int64_t AsInt(const Datum& v) { return v.IsBool() ? v.as_bool() : v.as_int(); }
double AsDouble(const Datum& v) { return v.IsFloat() ? v.as_float() : static_cast<double>(AsInt(v)); }

}  // namespace

absl::Status Executor::ReadArguments(absl::Span<const Datum> args) {
  const auto& defs = bundle_.args;
  if (args.size() != defs.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the model takes ", defs.size(),
                                                   defs.size() == 1 ? " argument, " : " arguments, ", args.size(),
                                                   args.size() == 1 ? " was given" : " were given"));
  }
  for (size_t i = 0; i < defs.size(); ++i) {
    const fb::ArgDefT& def = *defs[i];
    const std::string& name = ArgName(static_cast<int>(i));
    const Datum& v = args[i];
    Extent& extent = extents_[i];
    extent = Extent();
    if (!KindFits(def.kind, v)) {
      return absl::InvalidArgumentError(
          absl::StrCat("argument \"", name, "\" is ", v.KindName(), ", expected ", KindName(def.kind)));
    }
    if (def.kind != fb::ArgKind::Tensor) {
      if (!def.has_constant) continue;
      const bool same = def.kind == fb::ArgKind::Float    ? AsDouble(v) == def.float_value
                        : def.kind == fb::ArgKind::String ? v.as_string() == def.string_value
                        : def.kind == fb::ArgKind::Int || def.kind == fb::ArgKind::Bool ? AsInt(v) == def.int_value
                                                                                        : true;
      if (!same) {
        return absl::InvalidArgumentError(absl::StrCat("argument \"", name, "\" must have the value of the export: ",
                                                       def.kind == fb::ArgKind::Float ? absl::StrCat(def.float_value)
                                                       : def.kind == fb::ArgKind::String
                                                           ? absl::StrCat("\"", def.string_value, "\"")
                                                           : absl::StrCat(def.int_value)));
      }
      continue;
    }
    const Tensor& t = v.tensor();
    if (static_cast<uint8_t>(t.dtype()) != def.dtype) {
      return absl::InvalidArgumentError(absl::StrCat("argument \"", name, "\" is of ", Name(t.dtype()), ", expected ",
                                                     Name(static_cast<DType>(def.dtype))));
    }
    const Geometry& g = t.geometry();
    if (g.sizes.size() != def.sizes.size() || g.strides.size() != g.sizes.size()) {
      return absl::InvalidArgumentError(absl::StrCat("argument \"", name, "\" has sizes [",
                                                     absl::StrJoin(g.sizes, ", "), "], expected ",
                                                     ExpectedSizes(static_cast<int>(i), /*evaluated=*/false)));
    }
    // Computes its extent with checked arithmetic, because the caller may pass anything.
    int64_t low = g.offset, high = g.offset;
    bool empty = false, fits = true;
    for (int64_t s : g.sizes) {
      if (s == 0) empty = true;
      if (s < 0) fits = false;
    }
    const int64_t item = ItemSize(t.dtype()), bytes = t.storage()->bytes();
    for (int d = 0; fits && !empty && d < g.rank(); ++d) {
      int64_t reach;
      fits = !__builtin_mul_overflow(g.sizes[d] - 1, g.strides[d], &reach) &&
             !__builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high);
    }
    if (!fits || low < 0 || (empty ? low > INT64_MAX / 16 : high >= bytes / item)) {
      return absl::InvalidArgumentError(absl::StrCat("argument \"", name, "\" of ", g.ToString(),
                                                     " reaches outside its storage of ", bytes, " bytes"));
    }
    const uintptr_t start = reinterpret_cast<uintptr_t>(t.storage()->data());
    extent.tensor = true;
    extent.low = start + static_cast<uintptr_t>(low * item);
    extent.high = empty ? extent.low : start + static_cast<uintptr_t>((high + 1) * item);
  }
  return absl::OkStatus();
}

// Reports the size that the symbol is a part of, which the caller knows.
absl::Status Executor::OutOfRange(const fb::SymbolDefT& s, int64_t value) const {
  using S = fb::SymbolSource;
  const std::string who = s.source == S::StateOffset ? bundle_.states[s.arg]->name : ArgName(s.arg);
  const std::string what = s.source == S::ArgSize           ? absl::StrCat("size ", s.dim)
                           : s.source == S::ArgStride       ? absl::StrCat("stride ", s.dim)
                           : s.source == S::ArgInt          ? "the number"
                           : s.source == S::ArgStorageBytes ? "the storage's bytes"
                                                            : "the offset";
  const auto whole = [&](int64_t v) {
    int64_t size;
    const bool fits = s.source == S::ArgSize && !__builtin_mul_overflow(v, s.scale, &size) &&
                      !__builtin_add_overflow(size, s.addend, &size);
    return fits ? size : v;
  };
  return absl::InvalidArgumentError(absl::StrCat(
      "argument \"", who, "\": ", what, " is ", whole(value), ", expected ",
      s.max == INT64_MAX ? absl::StrCat("at least ", whole(s.min)) : absl::StrCat(whole(s.min), " to ", whole(s.max))));
}

absl::Status Executor::ReadSymbols(absl::Span<const Datum> args) {
  const auto& defs = bundle_.symbols;
  for (size_t i = 0; i < defs.size(); ++i) {
    const fb::SymbolDefT& s = *defs[i];
    int64_t v = 0;
    switch (s.source) {
      case fb::SymbolSource::Data:
        symbol_known_[i] = 0;
        continue;
      case fb::SymbolSource::ArgSize: {
        const int64_t size = args[s.arg].tensor().sizes()[s.dim];
        int64_t less;
        if (__builtin_sub_overflow(size, s.addend, &less) || (s.scale == -1 && less == INT64_MIN) ||
            less % s.scale != 0) {
          return absl::InvalidArgumentError(absl::StrCat("argument \"", ArgName(s.arg), "\": size ", s.dim, " is ",
                                                         size, ", expected ", s.scale, "*", s.name, " + ", s.addend));
        }
        v = less / s.scale;
        break;
      }
      case fb::SymbolSource::ArgStride:
        v = args[s.arg].tensor().strides()[s.dim];
        break;
      case fb::SymbolSource::ArgOffset:
        v = args[s.arg].tensor().offset();
        break;
      case fb::SymbolSource::ArgInt:
        v = AsInt(args[s.arg]);
        break;
      case fb::SymbolSource::StateOffset:
        v = states_[s.arg].offset();
        break;
      case fb::SymbolSource::ArgStorageBytes:
        v = args[s.arg].tensor().storage()->bytes();
        break;
    }
    if (v < s.min || v > s.max) {
      return OutOfRange(s, v);
    }
    symbols_[i] = v;
    symbol_known_[i] = 1;
  }
  return absl::OkStatus();
}

// Returns the sizes that an argument may have. `evaluated`: the expressions have the values of this call.
std::string Executor::ExpectedSizes(int arg, bool evaluated) const {
  const fb::ArgDefT& def = *bundle_.args[arg];
  std::vector<std::string> want;
  const std::vector<DimInfo>& dims = program_->args()[arg].dims;
  for (size_t d = 0; d < def.sizes.size(); ++d) {
    const bool known = evaluated && signature_.known[def.sizes[d]];
    const std::string value = known ? absl::StrCat(signature_.value[def.sizes[d]]) : "?";
    // The calls of an eager-order plan are not described to a caller.
    if (dims.size() != def.sizes.size()) {
      want.push_back(value);
      continue;
    }
    const DimInfo& dim = dims[d];
    const fb::ExprNode& e = bundle_.exprs[def.sizes[d]];
    const fb::SymbolDefT* s = e.op() == fb::ExprOp::Symbol ? bundle_.symbols[e.a()].get() : nullptr;
    if (s != nullptr && s->source == fb::SymbolSource::ArgSize && s->arg == arg && s->dim == static_cast<int>(d)) {
      want.push_back(dim.max == INT64_MAX ? absl::StrCat(dim.min, " or more") : absl::StrCat(dim.min, "..", dim.max));
    } else if (dim.size >= 0) {
      want.push_back(absl::StrCat(dim.size));
    } else {
      // Another size of the call decides, where there is one.
      want.push_back(known ? value : dim.expr);
    }
  }
  return absl::StrCat("[", absl::StrJoin(want, ", "), "]");
}

absl::Status Executor::CheckSizes(absl::Span<const Datum> args) {
  // With the same symbols as in the last call, the expressions have their values already.
  if (signature_key_ != symbols_) {
    EvaluateExprs(bundle_.exprs, program_->signature_exprs(), symbols_, symbol_known_, &signature_);
    signature_key_ = symbols_;
  }
  for (size_t i = 0; i < bundle_.args.size(); ++i) {
    const fb::ArgDefT& def = *bundle_.args[i];
    const std::string& name = ArgName(static_cast<int>(i));
    if (def.kind == fb::ArgKind::Int && def.value >= 0) {
      const bool is_known = signature_.known[def.value];
      if (is_known && signature_.value[def.value] == AsInt(args[i])) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("argument \"", name, "\" is ", AsInt(args[i]), ", expected ",
                       is_known ? absl::StrCat(signature_.value[def.value]) : "a number that cannot be computed"));
    }
    if (def.kind != fb::ArgKind::Tensor) continue;
    const absl::Span<const int64_t> sizes = args[i].tensor().sizes();
    for (size_t d = 0; d < def.sizes.size(); ++d) {
      if (signature_.known[def.sizes[d]] && signature_.value[def.sizes[d]] == sizes[d]) continue;
      return absl::InvalidArgumentError(absl::StrCat("argument \"", name, "\" has sizes [", absl::StrJoin(sizes, ", "),
                                                     "], expected ",
                                                     ExpectedSizes(static_cast<int>(i), /*evaluated=*/true)));
    }
  }
  return absl::OkStatus();
}

bool Executor::HasExportedStrides(int arg, const Tensor& t) const {
  const fb::ArgDefT& def = *bundle_.args[arg];
  if (extents_[arg].low == extents_[arg].high) return true;  // empty: strides mean nothing
  for (size_t d = 0; d < def.strides.size(); ++d) {
    if (t.sizes()[d] == 1 && !def.strides_of_ones) continue;
    if (!signature_.known[def.strides[d]] || signature_.value[def.strides[d]] != t.strides()[d]) return false;
  }
  return true;
}

bool CopyIsAsGood(const Tensor& t, absl::Span<const int64_t> exported, bool in_order) {
  int previous = -1;  // the dim of several elements with the next larger exported stride
  absl::InlinedVector<int, 8> dims;
  for (size_t d = 0; d < exported.size(); ++d) {
    if (t.sizes()[d] != 1) dims.push_back(static_cast<int>(d));
  }
  std::sort(dims.begin(), dims.end(), [&](int a, int b) { return exported[a] > exported[b]; });
  // Memory that overlaps itself (an expanded example) holds no copy of other elements.
  int64_t reach = 0;
  for (size_t k = dims.size(); k-- > 0;) {
    const int64_t stride = exported[dims[k]];
    int64_t further;
    if (stride <= reach || __builtin_mul_overflow(t.sizes()[dims[k]] - 1, stride, &further) ||
        __builtin_add_overflow(reach, further, &reach))
      return false;
  }
  if (!in_order) return true;
  for (int d : dims) {
    // Among equal strides PyTorch uses more than their order.
    if (previous >= 0 && (exported[previous] == exported[d] || t.strides()[previous] <= t.strides()[d])) return false;
    previous = d;
  }
  return dims.size() < 2 || t.strides()[dims.back()] > 0;
}

bool Executor::MayBeCopied(int arg, const Tensor& t, const ExecutablePlan& plan) const {
  const bool by_rule = !plan.plan->result_rule.empty();
  if (!plan.may_be_copied[arg] || (bundle_.args[arg]->strides_of_ones && !by_rule)) return false;
  absl::InlinedVector<int64_t, 8> exported;
  for (int e : bundle_.args[arg]->strides) {
    if (!signature_.known[e]) return false;
    exported.push_back(signature_.value[e]);
  }
  const bool in_order =
      plan.plan->other_strides != fb::OtherStrides::Copied && !bundle_.args[arg]->any_strides && !by_rule;
  return CopyIsAsGood(t, exported, in_order);
}

absl::Status Executor::CheckStrides(absl::Span<const Datum> args, const ExecutablePlan& plan) {
  for (size_t i = 0; i < bundle_.args.size(); ++i) {
    const fb::ArgDefT& def = *bundle_.args[i];
    const std::string& name = ArgName(static_cast<int>(i));
    if (def.kind != fb::ArgKind::Tensor) continue;
    const Tensor& t = args[i].tensor();
    if (HasExportedStrides(static_cast<int>(i), t)) continue;
    if (MayBeCopied(static_cast<int>(i), t, plan)) {
      to_copy_.push_back(static_cast<int>(i));
      continue;
    }
    std::vector<std::string> want;
    for (int e : def.strides) want.push_back(signature_.known[e] ? absl::StrCat(signature_.value[e]) : "?");
    return WithCause(absl::InvalidArgumentError(
                         absl::StrCat("argument \"", name, "\" has strides [", absl::StrJoin(t.strides(), ", "),
                                      "], expected those of the export: [", absl::StrJoin(want, ", "),
                                      "] (a bundle compiled with --alias-variants=all takes any)")),
                     Cause::kOtherStrides);
  }
  return to_copy_.empty() || plan.plan->result_rule.empty() ? absl::OkStatus() : LayOutResults(args, plan);
}

absl::Status Executor::LayOutResults(absl::Span<const Datum> args, const ExecutablePlan& plan) {
  std::vector<LayoutInput> inputs;
  for (const Datum& arg : args) {
    LayoutInput& input = inputs.emplace_back();
    if (arg.IsTensor()) input.geometry = arg.tensor().geometry();
    if (arg.IsInt()) input.number = arg.as_int();
  }
  absl::StatusOr<std::vector<EvaluatedLayout>> layouts = EvaluateLayoutRule(plan.plan->result_rule, inputs);
  if (layouts.ok() && layouts->size() == bundle_.outputs.size()) {
    result_layouts_ = *std::move(layouts);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("arguments have other strides than at export, and how PyTorch lays out the results is not known: ",
                   layouts.ok() ? "the rule is for other results" : layouts.status().message()));
}

absl::Status Executor::MoveToLayout(const EvaluatedLayout& layout, Datum* out) {
  if (layout.kind == LayoutResult::kUnknown || !out->IsTensor() || !out->tensor().defined()) return absl::OkStatus();
  const Tensor& t = out->tensor();
  const std::vector<int64_t> strides =
      layout.kind == LayoutResult::kContiguous ? Geometry::Contiguous(t.geometry().sizes).strides : layout.strides;
  if (strides == t.geometry().strides || t.NumElements() == 0) return absl::OkStatus();
  const int64_t reach = ReachOfLayout(t.sizes(), strides);
  if (reach < 0) return absl::InternalError("a result has other dims than its layout rule is for");
  SMELT_RETURN_IF_ERROR(CheckMemoryFor(reach, ItemSize(t.dtype())));
  Tensor moved = Tensor::EmptyStrided(t.dtype(), t.sizes(), strides);
  CopyStrided(static_cast<char*>(moved.data()), moved.strides(), static_cast<const char*>(t.data()), t.strides(),
              t.sizes(), ItemSize(t.dtype()), pool_, width_);
  *out = Datum(std::move(moved));
  return absl::OkStatus();
}

absl::Span<const Datum> Executor::InExportedStrides(absl::Span<const Datum> args) {
  if (to_copy_.empty()) return args;
  copied_args_.assign(args.begin(), args.end());
  copies_.resize(args.size());
  for (int i : to_copy_) {
    const Tensor& t = args[i].tensor();
    std::vector<int64_t> strides;
    for (int e : bundle_.args[i]->strides) strides.push_back(signature_.value[e]);
    Tensor& copy = copies_[i];
    if (!copy.defined() || copy.sizes() != t.sizes() || copy.strides() != absl::MakeConstSpan(strides))
      copy = Tensor::EmptyStrided(t.dtype(), t.sizes(), strides);
    CopyStrided(static_cast<char*>(copy.data()), copy.strides(), static_cast<const char*>(t.data()), t.strides(),
                t.sizes(), ItemSize(t.dtype()), pool_, width_);
    copied_args_[i] = copy;
  }
  return copied_args_;
}

}  // namespace smelt

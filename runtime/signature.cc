#include "smelt/runtime/signature.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/runtime/state_store.h"

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

Signature::Signature(const Executable& program)
    : program_(program),
      bundle_(program.bundle()),
      device_(program.device() == nullptr ? Device::Cpu() : program.device()->device()),
      symbols_(bundle_.symbols.size()),
      symbol_known_(bundle_.symbols.size()),
      // No call has these symbols, so the first one evaluates.
      key_(bundle_.symbols.size() + 1, 0),
      extents_(bundle_.args.size()) {
  exprs_.Resize(bundle_.exprs.size());
}

absl::Status Signature::Read(absl::Span<const Datum> args, const StateStore& states) {
  SMELT_RETURN_IF_ERROR(ReadArguments(args));
  SMELT_RETURN_IF_ERROR(ReadSymbols(args, states));
  return CheckSizes(args);
}

void Signature::SetSymbol(int symbol, int64_t value) {
  symbols_[symbol] = value;
  symbol_known_[symbol] = 1;
}

absl::Status Signature::ReadArguments(absl::Span<const Datum> args) {
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
    if (t.device() != device_) {
      return absl::InvalidArgumentError(absl::StrCat("argument \"", name, "\" is in the memory of ",
                                                     t.device().ToString(), ", expected ", device_.ToString()));
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
    const uintptr_t start = reinterpret_cast<uintptr_t>(t.storage()->address());
    extent.tensor = true;
    extent.low = start + static_cast<uintptr_t>(low * item);
    extent.high = empty ? extent.low : start + static_cast<uintptr_t>((high + 1) * item);
  }
  return absl::OkStatus();
}

// Reports the size that the symbol is a part of, which the caller knows.
absl::Status Signature::OutOfRange(const fb::SymbolDefT& s, int64_t value) const {
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

absl::Status Signature::ReadSymbols(absl::Span<const Datum> args, const StateStore& states) {
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
        v = states.tensors()[s.arg].offset();
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
std::string Signature::ExpectedSizes(int arg, bool evaluated) const {
  const fb::ArgDefT& def = *bundle_.args[arg];
  std::vector<std::string> want;
  const std::vector<DimInfo>& dims = program_.args()[arg].dims;
  for (size_t d = 0; d < def.sizes.size(); ++d) {
    const bool known = evaluated && exprs_.known[def.sizes[d]];
    const std::string value = known ? absl::StrCat(exprs_.value[def.sizes[d]]) : "?";
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

absl::Status Signature::CheckSizes(absl::Span<const Datum> args) {
  // With the same symbols as in the last call, the expressions have their values already.
  if (key_ != symbols_) {
    EvaluateExprs(bundle_.exprs, program_.signature_exprs(), symbols_, symbol_known_, &exprs_);
    key_ = symbols_;
  }
  for (size_t i = 0; i < bundle_.args.size(); ++i) {
    const fb::ArgDefT& def = *bundle_.args[i];
    const std::string& name = ArgName(static_cast<int>(i));
    if (def.kind == fb::ArgKind::Int && def.value >= 0) {
      const bool is_known = exprs_.known[def.value];
      if (is_known && exprs_.value[def.value] == AsInt(args[i])) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("argument \"", name, "\" is ", AsInt(args[i]), ", expected ",
                       is_known ? absl::StrCat(exprs_.value[def.value]) : "a number that cannot be computed"));
    }
    if (def.kind != fb::ArgKind::Tensor) continue;
    const absl::Span<const int64_t> sizes = args[i].tensor().sizes();
    for (size_t d = 0; d < def.sizes.size(); ++d) {
      if (exprs_.known[def.sizes[d]] && exprs_.value[def.sizes[d]] == sizes[d]) continue;
      return absl::InvalidArgumentError(absl::StrCat("argument \"", name, "\" has sizes [", absl::StrJoin(sizes, ", "),
                                                     "], expected ",
                                                     ExpectedSizes(static_cast<int>(i), /*evaluated=*/true)));
    }
  }
  return absl::OkStatus();
}

}  // namespace smelt

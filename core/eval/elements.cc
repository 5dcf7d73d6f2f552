#include "smelt/core/eval/elements.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/check.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/float16.h"
#include "smelt/core/tensor/float8.h"

namespace smelt::eval_internal {
namespace {

template <typename M>
M Load(const char* p) {
  M v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}
template <typename M>
void Store(char* p, M v) {
  std::memcpy(p, &v, sizeof(v));
}

// Converts as x86 does and PyTorch shows: NaN and values out of range become the smallest value.
int64_t Truncated(double d) {
  return d >= -0x1p63 && d < 0x1p63 ? static_cast<int64_t>(d) : std::numeric_limits<int64_t>::min();
}

template <typename T, typename From>
T To(From v) {
  if constexpr (std::is_same_v<T, From>) {
    return v;
  } else if constexpr (std::is_same_v<From, Cx>) {
    return To<T>(v.real());
  } else if constexpr (std::is_same_v<T, Cx>) {
    return Cx(static_cast<double>(v), 0);
  } else if constexpr (std::is_same_v<T, int64_t>) {
    return Truncated(v);
  } else {
    return static_cast<T>(v);
  }
}

// Converts to an integer of at most 32 bits through int32 (see ScalarOp::kCast).
template <typename T>
int64_t Low32(T v) {
  if constexpr (std::is_same_v<T, int64_t>) {
    return v;
  } else {
    const double d = std::trunc(To<double>(v));
    return d >= -0x1p31 && d < 0x1p31 ? static_cast<int64_t>(d) : std::numeric_limits<int32_t>::min();
  }
}

}  // namespace

template <typename T>
T LoadAs(const char* p, DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return To<T>(static_cast<int64_t>(Load<uint8_t>(p) != 0));
    case DType::kUInt8:
      return To<T>(static_cast<int64_t>(Load<uint8_t>(p)));
    case DType::kInt8:
      return To<T>(static_cast<int64_t>(Load<int8_t>(p)));
    case DType::kInt16:
      return To<T>(static_cast<int64_t>(Load<int16_t>(p)));
    case DType::kInt32:
      return To<T>(static_cast<int64_t>(Load<int32_t>(p)));
    case DType::kInt64:
      return To<T>(Load<int64_t>(p));
    case DType::kFloat16:
      return To<T>(static_cast<double>(HalfToFloat(Load<uint16_t>(p))));
    case DType::kBFloat16:
      return To<T>(static_cast<double>(BFloat16ToFloat(Load<uint16_t>(p))));
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E5M2:
      return To<T>(static_cast<double>(Float8ToFloat(dtype, Load<uint8_t>(p))));
    case DType::kFloat32:
      return To<T>(static_cast<double>(Load<float>(p)));
    case DType::kFloat64:
      return To<T>(Load<double>(p));
    case DType::kComplex64:
      return To<T>(Cx(Load<float>(p), Load<float>(p + 4)));
    case DType::kComplex128:
      return To<T>(Cx(Load<double>(p), Load<double>(p + 8)));
  }
  SMELT_UNREACHABLE();
}

template <typename T>
void StoreAs(char* p, DType dtype, T value) {
  switch (dtype) {
    case DType::kBool:
      return Store<uint8_t>(p, value != T(0));
    case DType::kUInt8:
      return Store<uint8_t>(p, static_cast<uint8_t>(Low32(value)));
    case DType::kInt8:
      return Store<int8_t>(p, static_cast<int8_t>(Low32(value)));
    case DType::kInt16:
      return Store<int16_t>(p, static_cast<int16_t>(Low32(value)));
    case DType::kInt32:
      return Store<int32_t>(p, static_cast<int32_t>(Low32(value)));
    case DType::kInt64:
      return Store<int64_t>(p, To<int64_t>(value));
    case DType::kFloat16:
      return Store<uint16_t>(p, FloatToHalf(static_cast<float>(To<double>(value))));
    case DType::kBFloat16:
      return Store<uint16_t>(p, FloatToBFloat16(static_cast<float>(To<double>(value))));
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E5M2:
      return Store<uint8_t>(p, FloatToFloat8(dtype, static_cast<float>(To<double>(value))));
    case DType::kFloat32:
      if constexpr (std::is_same_v<T, int64_t>) return Store<float>(p, static_cast<float>(value));
      return Store<float>(p, static_cast<float>(To<double>(value)));
    case DType::kFloat64:
      return Store<double>(p, To<double>(value));
    case DType::kComplex64:
      Store<float>(p, static_cast<float>(To<Cx>(value).real()));
      return Store<float>(p + 4, static_cast<float>(To<Cx>(value).imag()));
    case DType::kComplex128:
      Store<double>(p, To<Cx>(value).real());
      return Store<double>(p + 8, To<Cx>(value).imag());
  }
  SMELT_UNREACHABLE();
}

template double LoadAs<double>(const char*, DType);
template int64_t LoadAs<int64_t>(const char*, DType);
template Cx LoadAs<Cx>(const char*, DType);
template void StoreAs<double>(char*, DType, double);
template void StoreAs<int64_t>(char*, DType, int64_t);
template void StoreAs<Cx>(char*, DType, Cx);

std::vector<char> ReadBytes(const Tensor& t) {
  const int item = ItemSize(t.dtype());
  std::vector<char> out;
  out.reserve(t.NumElements() * item);
  const char* base = static_cast<const char*>(t.data());
  Walk(t.sizes(), {std::vector<int64_t>(t.strides().begin(), t.strides().end())},
       [&](const std::vector<int64_t>& o) { out.insert(out.end(), base + o[0] * item, base + (o[0] + 1) * item); });
  return out;
}

void WriteBytes(const Tensor& t, const std::vector<char>& bytes) {
  const int item = ItemSize(t.dtype());
  char* base = static_cast<char*>(t.data());
  const char* from = bytes.data();
  Walk(t.sizes(), {std::vector<int64_t>(t.strides().begin(), t.strides().end())}, [&](const std::vector<int64_t>& o) {
    std::memcpy(base + o[0] * item, from, item);
    from += item;
  });
}

std::vector<int64_t> ContiguousStridesOf(absl::Span<const int64_t> sizes) {
  return Geometry::Contiguous(sizes).strides;
}

int64_t Product(absl::Span<const int64_t> sizes) {
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  return n;
}

absl::StatusOr<Geometry> Broadcasted(const Geometry& g, absl::Span<const int64_t> sizes) {
  Geometry out;
  out.offset = g.offset;
  out.sizes.assign(sizes.begin(), sizes.end());
  out.strides.assign(sizes.size(), 0);
  const int lead = static_cast<int>(sizes.size()) - g.rank();
  for (int d = 0; d < g.rank(); ++d) {
    // More dims than requested are accepted if they have size 1.
    if (lead + d < 0) {
      if (g.sizes[d] == 1) continue;
    } else if (g.sizes[d] == sizes[lead + d]) {
      out.strides[lead + d] = g.strides[d];
      continue;
    } else if (g.sizes[d] == 1) {
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("a tensor ", g.ToString(), " cannot be broadcast to ", Geometry::Contiguous(sizes).ToString()));
  }
  return out;
}

absl::Status CopyInto(const Tensor& to, const Tensor& from) {
  SMELT_ASSIGN_OR_RETURN(Geometry g, Broadcasted(from.geometry(), to.sizes()));
  const Tensor source = from.View(std::move(g));
  if (from.dtype() == to.dtype()) {
    WriteBytes(to, ReadBytes(source));
    return absl::OkStatus();
  }
  WithNumber(from.dtype(), [&](auto tag) {
    using T = decltype(tag);
    Write<T>(to, Read<T>(source));
    return 0;
  });
  return absl::OkStatus();
}

Tensor CopyWithStrides(const Tensor& t, absl::Span<const int64_t> strides) {
  Tensor out = Tensor::EmptyStrided(t.dtype(), t.sizes(), strides);
  if (out.storage()->bytes() > 0) std::memset(out.storage()->data(), 0, out.storage()->bytes());
  WriteBytes(out, ReadBytes(t));
  return out;
}

Tensor Converted(const Tensor& t, DType dtype) {
  Tensor out = Tensor::Empty(dtype, t.sizes());
  SMELT_CHECK_OK(CopyInto(out, t));
  return out;
}

double ToDouble(const PythonValue& v) {
  if (v.IsInt()) return static_cast<double>(v.as_int());
  if (v.IsBool()) return v.as_bool();
  if (v.IsComplex()) return v.as_complex().real();
  return v.IsDouble() ? v.as_double() : 0;
}
int64_t ToInt(const PythonValue& v) {
  if (v.IsInt()) return v.as_int();
  if (v.IsBool()) return v.as_bool();
  return v.IsNumber() ? Truncated(ToDouble(v)) : 0;
}
Cx ToComplex(const PythonValue& v) { return v.IsComplex() ? v.as_complex() : Cx(ToDouble(v), 0); }
bool ToBool(const PythonValue& v) {
  if (v.IsBool()) return v.as_bool();
  if (v.IsInt()) return v.as_int() != 0;
  if (v.IsTensor()) return LoadAs<Cx>(static_cast<const char*>(v.tensor().data()), v.tensor().dtype()) != Cx(0);
  return v.IsNumber() && ToComplex(v) != Cx(0);
}

Tensor ScalarTensor(DType dtype, const PythonValue& v) {
  Tensor t = Tensor::Empty(dtype, {});
  char* p = static_cast<char*>(t.data());
  if (v.IsInt() || v.IsBool()) {
    StoreAs<int64_t>(p, dtype, ToInt(v));
  } else if (v.IsComplex()) {
    StoreAs<Cx>(p, dtype, v.as_complex());
  } else {
    StoreAs<double>(p, dtype, ToDouble(v));
  }
  return t;
}

}  // namespace smelt::eval_internal

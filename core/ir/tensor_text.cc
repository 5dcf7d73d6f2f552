#include "smelt/core/ir/tensor_text.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/ir/type_parser.h"
#include "smelt/core/tensor/float8.h"

namespace smelt {

namespace {

// A constant in a text form is small; a larger one is a mistake or an attack.
constexpr int64_t kMaxSpan = int64_t{1} << 26;

// Returns the exact value of a float16 or bfloat16.
double HalfToDouble(uint16_t bits, bool is_bfloat) {
  int mantissa_bits = is_bfloat ? 7 : 10;
  int exponent_bits = 15 - mantissa_bits;
  int bias = (1 << (exponent_bits - 1)) - 1;
  int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  int mantissa = bits & ((1 << mantissa_bits) - 1);
  double sign = bits >> 15 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::copysign(std::numeric_limits<double>::quiet_NaN(), sign);
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

// Rounds to nearest, ties to even.
uint16_t DoubleToHalf(double value, bool is_bfloat) {
  int mantissa_bits = is_bfloat ? 7 : 10;
  int exponent_bits = 15 - mantissa_bits;
  int bias = (1 << (exponent_bits - 1)) - 1;
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  uint16_t infinity = static_cast<uint16_t>(((1 << exponent_bits) - 1) << mantissa_bits);
  if (std::isnan(value)) return static_cast<uint16_t>(sign | infinity | (1 << (mantissa_bits - 1)));
  double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  if (std::isinf(magnitude)) return sign | infinity;
  int exponent;
  std::frexp(magnitude, &exponent);  // magnitude = m * 2^exponent, m in [0.5, 1)
  int unit = std::max(exponent - 1, 1 - bias) - mantissa_bits;
  double units = std::nearbyint(std::ldexp(magnitude, -unit));
  // `units` counts quanta of 2^unit: adding it to the exponent field carries over if rounding reached the next power of
  // two.
  int64_t field =
      static_cast<int64_t>(units) + (static_cast<int64_t>(unit + mantissa_bits - (1 - bias)) << mantissa_bits);
  return field >= infinity ? sign | infinity : static_cast<uint16_t>(sign | field);
}

// Calls f(byte offset of the element) for every index in row-major order.
template <typename F>
void ForEachElement(const Tensor& t, const F& f) {
  int64_t count = t.NumElements();
  const Geometry& g = t.geometry();
  std::vector<int64_t> index(g.rank(), 0);
  int64_t at = 0;
  for (int64_t i = 0; i < count; ++i) {
    f(static_cast<char*>(t.data()) + at * ItemSize(t.dtype()));
    for (int d = g.rank() - 1; d >= 0; --d) {
      at += g.strides[d];
      if (++index[d] < g.sizes[d]) break;
      at -= g.strides[d] * g.sizes[d];
      index[d] = 0;
    }
  }
}

template <typename T>
T Load(const char* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

template <typename T>
void Store(char* p, T value) {
  std::memcpy(p, &value, sizeof(T));
}

// Prints a float without a needless ".", as "1"; a tensor's integers and floats are read the same way.
template <typename T, typename Bits>
void AppendFloat(T value, Bits bits, Bits usual_nan, std::string& out) {
  if (std::isnan(value)) {
    if (bits == usual_nan) {
      out += "nan";
      return;
    }
    char buffer[20];
    auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), static_cast<uint64_t>(bits), 16);
    absl::StrAppend(&out, "0x", absl::string_view(buffer, end - buffer));
  } else if (std::isinf(value)) {
    out += value < 0 ? "-inf" : "inf";
  } else {
    char buffer[40];
    auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), value);
    out.append(buffer, end);
  }
}

void AppendElement(DType dtype, const char* p, std::string& out) {
  switch (dtype) {
    case DType::kBool:
      absl::StrAppend(&out, static_cast<int>(Load<uint8_t>(p)));
      return;
    case DType::kUInt8:
      absl::StrAppend(&out, static_cast<int>(Load<uint8_t>(p)));
      return;
    case DType::kInt8:
      absl::StrAppend(&out, static_cast<int>(Load<int8_t>(p)));
      return;
    case DType::kInt16:
      absl::StrAppend(&out, static_cast<int>(Load<int16_t>(p)));
      return;
    case DType::kInt32:
      absl::StrAppend(&out, Load<int32_t>(p));
      return;
    case DType::kInt64:
      absl::StrAppend(&out, Load<int64_t>(p));
      return;
    case DType::kFloat16:
      AppendFloat<double, uint16_t>(HalfToDouble(Load<uint16_t>(p), false), Load<uint16_t>(p), 0x7e00, out);
      return;
    case DType::kBFloat16:
      AppendFloat<double, uint16_t>(HalfToDouble(Load<uint16_t>(p), true), Load<uint16_t>(p), 0x7fc0, out);
      return;
    case DType::kFloat32:
      AppendFloat<float, uint32_t>(Load<float>(p), Load<uint32_t>(p), 0x7fc00000u, out);
      return;
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E5M2:
      AppendFloat<double, uint8_t>(Float8ToFloat(dtype, Load<uint8_t>(p)), Load<uint8_t>(p), 0x7f, out);
      return;
    case DType::kFloat64:
      AppendFloat<double, uint64_t>(Load<double>(p), Load<uint64_t>(p), 0x7ff8000000000000u, out);
      return;
    case DType::kComplex64:
    case DType::kComplex128: {
      DType real = RealOf(dtype);
      out += "(";
      AppendElement(real, p, out);
      out += ", ";
      AppendElement(real, p + ItemSize(real), out);
      out += ")";
      return;
    }
  }
}

// A case for each dtype, whose numbers have a text and a range of their own.
absl::Status ParseElement(Cursor& c, DType dtype, char* p) {
  c.SkipSpaces();
  size_t start = c.pos();
  if (IsComplex(dtype)) {
    DType real = RealOf(dtype);
    SMELT_RETURN_IF_ERROR(c.Consume("("));
    SMELT_RETURN_IF_ERROR(ParseElement(c, real, p));
    SMELT_RETURN_IF_ERROR(c.Consume(","));
    SMELT_RETURN_IF_ERROR(ParseElement(c, real, p + ItemSize(real)));
    return c.Consume(")");
  }
  if (c.LooksAt("0x")) {
    c.Skip(2);
    uint64_t bits = 0;
    const char* begin = c.text().data() + c.pos();
    auto [end, error] = std::from_chars(begin, c.text().data() + c.text().size(), bits, 16);
    int width = ItemSize(dtype) * 8;
    if (error != std::errc() || (width < 64 && bits >> width != 0)) {
      return c.ErrorAt(start, absl::StrCat("expected the bits of a ", Name(dtype)));
    }
    c.Skip(end - begin);
    std::memcpy(p, &bits, ItemSize(dtype));
    return absl::OkStatus();
  }
  SMELT_ASSIGN_OR_RETURN(auto number, c.Number());
  if (IsFloating(dtype)) {
    if (dtype == DType::kFloat32) {
      // Read directly from the text: through a double it would be rounded twice.
      absl::string_view text = c.Since(start);
      float value = 0;
      auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (error == std::errc() && end == text.data() + text.size() && !std::isnan(value)) {
        Store(p, value);
        return absl::OkStatus();
      }
    }
    double value = std::holds_alternative<int64_t>(number) ? static_cast<double>(std::get<int64_t>(number))
                                                           : std::get<double>(number);
    if (std::isnan(value)) {
      switch (dtype) {
        case DType::kFloat16:
          Store<uint16_t>(p, 0x7e00);
          break;
        case DType::kBFloat16:
          Store<uint16_t>(p, 0x7fc0);
          break;
        case DType::kFloat32:
          Store<uint32_t>(p, 0x7fc00000u);
          break;
        case DType::kFloat8E4M3FN:
        case DType::kFloat8E5M2:
          Store<uint8_t>(p, 0x7f);
          break;
        default:
          Store<uint64_t>(p, 0x7ff8000000000000u);
          break;
      }
      return absl::OkStatus();
    }
    switch (dtype) {
      case DType::kFloat16:
        Store(p, DoubleToHalf(value, false));
        break;
      case DType::kBFloat16:
        Store(p, DoubleToHalf(value, true));
        break;
      case DType::kFloat32:
        Store(p, static_cast<float>(value));
        break;
      case DType::kFloat8E4M3FN:
      case DType::kFloat8E5M2:
        Store(p, FloatToFloat8(dtype, static_cast<float>(value)));
        break;
      default:
        Store(p, value);
        break;
    }
    return absl::OkStatus();
  }
  int64_t value = 0;
  if (const int64_t* i = std::get_if<int64_t>(&number)) {
    value = *i;
  } else {
    double d = std::get<double>(number);
    if (!(d >= -9007199254740992.0 && d <= 9007199254740992.0) || d != std::nearbyint(d)) {
      return c.ErrorAt(start, absl::StrCat("expected a ", Name(dtype)));
    }
    value = static_cast<int64_t>(d);
  }
  int64_t low = 0, high = 0;
  switch (dtype) {
    case DType::kBool:
      low = 0, high = 1;
      break;
    case DType::kUInt8:
      low = 0, high = 255;
      break;
    case DType::kInt8:
      low = INT8_MIN, high = INT8_MAX;
      break;
    case DType::kInt16:
      low = INT16_MIN, high = INT16_MAX;
      break;
    case DType::kInt32:
      low = INT32_MIN, high = INT32_MAX;
      break;
    default:
      low = INT64_MIN, high = INT64_MAX;
      break;
  }
  // A bool's byte in memory may be other than 0 and 1; it is kept.
  if (dtype == DType::kBool) high = 255;
  if (value < low || value > high) return c.ErrorAt(start, absl::StrCat("expected a ", Name(dtype)));
  std::memcpy(p, &value, ItemSize(dtype));  // little-endian
  return absl::OkStatus();
}

static_assert(std::endian::native == std::endian::little);

// The geometry of a type if all of it is constant, with non-negative sizes and strides; the number of elements and the
// span.
struct ConstantGeometry {
  std::vector<int64_t> sizes, strides;
  int64_t elements = 0;
};
std::optional<ConstantGeometry> GeometryOf(const TensorType& t) {
  if (!t.sizes) return std::nullopt;
  ConstantGeometry g;
  std::vector<Expr> strides = t.strides ? *t.strides : ContiguousStrides(*t.sizes);
  int64_t span = 1;
  g.elements = 1;
  bool empty = false;
  for (size_t i = 0; i < t.sizes->size(); ++i) {
    std::optional<int64_t> size = (*t.sizes)[i].Constant(), stride = strides[i].Constant();
    if (!size || !stride || *size < 0 || *stride < 0) return std::nullopt;
    g.sizes.push_back(*size);
    g.strides.push_back(*stride);
    empty = empty || *size == 0;
    if (*size > kMaxSpan) return std::nullopt;
    if (!empty && __builtin_mul_overflow(g.elements, *size, &g.elements)) return std::nullopt;
    int64_t reach;
    if (!empty && (__builtin_mul_overflow(*size - 1, *stride, &reach) || __builtin_add_overflow(span, reach, &span))) {
      return std::nullopt;
    }
  }
  if (empty) {
    g.elements = 0;
    // The strides of an empty tensor address nothing, but multiplying them must not overflow.
    for (int64_t stride : g.strides) {
      if (stride > kMaxSpan) return std::nullopt;
    }
  } else if (span > kMaxSpan || g.elements > kMaxSpan) {
    return std::nullopt;
  }
  return g;
}

Tensor MakeTensor(DType dtype, const ConstantGeometry& g) {
  Tensor t = Tensor::EmptyStrided(dtype, g.sizes, g.strides);
  std::memset(t.storage()->data(), 0, static_cast<size_t>(t.storage()->bytes()));
  return t;
}

}  // namespace

void AppendTensor(const Tensor& t, std::string& out) {
  if (!t.defined()) {
    out += "<Undefined>";
    return;
  }
  const Geometry& g = t.geometry();
  std::vector<Expr> sizes(g.sizes.begin(), g.sizes.end()), strides(g.strides.begin(), g.strides.end());
  TensorType type;
  type.dtype = t.dtype();
  if (strides != ContiguousStrides(sizes)) type.strides = std::move(strides);
  type.sizes = std::move(sizes);
  absl::StrAppend(&out, "<", Type::Tensor(std::move(type)).ToString(), ":");
  bool first = true;
  ForEachElement(t, [&](const char* p) {
    out += first ? " " : ", ";
    first = false;
    AppendElement(t.dtype(), p, out);
  });
  out += ">";
}

absl::StatusOr<Tensor> ParseTensor(Cursor& c) {
  c.SkipSpaces();
  size_t start = c.pos();
  if (c.LooksAt("<Undefined>")) {
    c.Skip(11);
    return Tensor();
  }
  SMELT_RETURN_IF_ERROR(c.Consume("<"));
  SMELT_ASSIGN_OR_RETURN(Type type, ParseType(c));
  if (!type.IsTensor() || !type.tensor().dtype || !type.tensor().sizes) {
    return c.ErrorAt(start, "expected the tensor's dtype and sizes");
  }
  std::optional<ConstantGeometry> g = GeometryOf(type.tensor());
  if (!g)
    return c.ErrorAt(start,
                     absl::StrCat("expected constant sizes and strides that reach at most ", kMaxSpan, " elements"));
  SMELT_RETURN_IF_ERROR(c.Consume(":"));
  // Each element takes at least one character: apart from gaps between strides, no more is allocated than the text
  // justifies.
  if (static_cast<int64_t>(c.text().size() - c.pos()) < g->elements) {
    return c.ErrorAt(start, absl::StrCat("expected ", g->elements, " elements"));
  }
  Tensor t = MakeTensor(*type.tensor().dtype, *g);
  absl::Status status;
  bool first = true;
  ForEachElement(t, [&](char* p) {
    if (!status.ok()) return;
    if (!first) status = c.Consume(",");
    first = false;
    if (status.ok()) status = ParseElement(c, t.dtype(), p);
  });
  if (!status.ok()) return status;
  SMELT_RETURN_IF_ERROR(c.Consume(">"));
  return t;
}

absl::StatusOr<Tensor> ParseOneElementTensor(Cursor& c, const Type* hint) {
  SMELT_RETURN_IF_ERROR(c.Consume("{"));
  c.SkipSpaces();
  size_t start = c.pos();
  ConstantGeometry g;
  g.elements = 1;
  DType dtype = DType::kInt64;
  bool has_dtype = false;
  if (hint != nullptr && hint->IsTensor()) {
    if (hint->tensor().dtype) {
      dtype = *hint->tensor().dtype;
      has_dtype = true;
    }
    std::optional<ConstantGeometry> known = GeometryOf(hint->tensor());
    if (known && known->elements == 1) g = *std::move(known);
  }
  if (!has_dtype) {
    SMELT_ASSIGN_OR_RETURN(auto number, c.Number());
    if (std::holds_alternative<double>(number)) dtype = DType::kFloat32;
    c.Seek(start);
  }
  Tensor t = MakeTensor(dtype, g);
  char* p = static_cast<char*>(t.data());
  SMELT_RETURN_IF_ERROR(ParseElement(c, dtype, p));
  SMELT_RETURN_IF_ERROR(c.Consume("}"));
  return t;
}

// PyTorch's text says its dtype and sizes at the end, and scales and rows before it. So the parts are read in another
// order than they stand in, by one function that holds all of them.
std::optional<Tensor> ParseTorchTensor(absl::string_view text, const Type* hint) {
  // The end: "[ CPUFloatType{2,2} ]".
  size_t bracket = text.rfind('[');
  if (bracket == absl::string_view::npos) return std::nullopt;
  Cursor tail(text.substr(bracket + 1));
  absl::string_view name = tail.Identifier();
  if (name.size() < 5 || name.substr(name.size() - 4) != "Type" || tail.Peek() != '{') return std::nullopt;
  name.remove_suffix(4);
  std::optional<DType> dtype;
  for (int i = 0; i < kNumDTypes; ++i) {
    absl::string_view scalar = ScalarTypeName(static_cast<DType>(i));
    if (name.size() >= scalar.size() && name.substr(name.size() - scalar.size()) == scalar &&
        (!dtype || scalar.size() > ScalarTypeName(*dtype).size())) {
      dtype = static_cast<DType>(i);
    }
  }
  if (!dtype || IsComplex(*dtype)) return std::nullopt;
  tail.Skip();
  TensorType type;
  type.dtype = dtype;
  type.sizes.emplace();
  while (tail.Peek() != '}') {
    if (!type.sizes->empty() && !tail.TryConsume(",")) return std::nullopt;
    absl::StatusOr<int64_t> size = tail.Integer();
    if (!size.ok()) return std::nullopt;
    type.sizes->push_back(*size);
    if (type.sizes->size() > 64) return std::nullopt;
  }
  tail.Skip();
  if (!tail.TryConsume("]")) return std::nullopt;
  tail.SkipSpaces();
  if (!tail.AtEnd()) return std::nullopt;
  if (hint != nullptr && hint->IsTensor() && hint->tensor().strides && hint->tensor().sizes == type.sizes) {
    type.strides = hint->tensor().strides;
  }
  std::optional<ConstantGeometry> g = GeometryOf(type);
  if (!g || g->elements > static_cast<int64_t>(text.size())) return std::nullopt;

  // The body: an optional "1e-05 *", then numbers, each matrix of a higher rank after "(1,2,.,.) =".
  Cursor body(text.substr(0, bracket));
  double scale = 1;
  body.SkipSpaces();
  size_t start = body.pos();
  if (absl::StatusOr<std::variant<int64_t, double>> number = body.Number(); number.ok()) {
    body.SkipSpaces();
    if (body.Peek() == '*') {
      body.Skip();
      scale = std::holds_alternative<int64_t>(*number) ? static_cast<double>(std::get<int64_t>(*number))
                                                       : std::get<double>(*number);
    } else {
      body.Seek(start);
    }
  }
  Tensor t = MakeTensor(*dtype, *g);
  bool ok = true;
  ForEachElement(t, [&](char* p) {
    body.SkipSpaces();
    if (body.Peek() == '(') {
      while (!body.AtEnd() && body.Peek() != '=') body.Skip();
      body.Skip();
    }
    body.SkipSpaces();
    if (!ok) return;
    if (scale != 1) {
      absl::StatusOr<std::variant<int64_t, double>> number = body.Number();
      if (!number.ok() || !IsFloating(*dtype)) {
        ok = false;
        return;
      }
      double value = scale * (std::holds_alternative<int64_t>(*number) ? static_cast<double>(std::get<int64_t>(*number))
                                                                       : std::get<double>(*number));
      std::string scaled = DoubleToText(value);
      Cursor again(scaled);
      ok = ParseElement(again, *dtype, p).ok();
    } else {
      ok = ParseElement(body, *dtype, p).ok();
    }
  });
  body.SkipSpaces();
  if (!ok || !body.AtEnd()) return std::nullopt;
  return t;
}

}  // namespace smelt

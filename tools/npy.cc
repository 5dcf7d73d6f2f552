#include "smelt/tools/npy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "smelt/core/base/out_of_memory.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/runtime/strided.h"

namespace smelt {
namespace {

constexpr absl::string_view kMagic("\x93NUMPY", 6);
constexpr int kMostDims = 64;  // NumPy's limit

constexpr struct {
  const char* descr;
  DType dtype;
} kDescrs[] = {{"|b1", DType::kBool},      {"|u1", DType::kUInt8},      {"|i1", DType::kInt8},
               {"<i2", DType::kInt16},     {"<i4", DType::kInt32},      {"<i8", DType::kInt64},
               {"<f2", DType::kFloat16},   {"<f4", DType::kFloat32},    {"<f8", DType::kFloat64},
               {"<c8", DType::kComplex64}, {"<c16", DType::kComplex128}};

struct Header {
  std::string descr;
  bool column_major = false;
  std::vector<int64_t> shape;
};

// Reads {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }, in any order. Messages say what is wrong with it.
class HeaderReader {
 public:
  explicit HeaderReader(absl::string_view text) : rest_(text) {}

  absl::StatusOr<Header> Read() {
    Header out;
    bool has_descr = false, has_order = false, has_shape = false;
    if (!Take('{')) return Wrong("a dictionary");
    while (!Take('}')) {
      SMELT_ASSIGN_OR_RETURN(const std::string key, Text());
      if (!Take(':')) return Wrong("a colon");
      if (key == "descr") {
        has_descr = true;
        if (Sees('[')) return absl::UnimplementedError("its elements are records of several fields");
        SMELT_ASSIGN_OR_RETURN(out.descr, Text());
      } else if (key == "fortran_order") {
        has_order = true;
        out.column_major = TakeWord("True");
        if (!out.column_major && !TakeWord("False")) return Wrong("True or False");
      } else if (key == "shape") {
        has_shape = true;
        SMELT_ASSIGN_OR_RETURN(out.shape, Shape());
      } else {
        return absl::DataLossError(absl::StrCat("unknown key \"", absl::CHexEscape(key.substr(0, 40)), "\""));
      }
      if (!Take(',') && !Sees('}')) return Wrong("a comma or the end");
    }
    if (!has_descr || !has_order || !has_shape) return Wrong("descr, fortran_order and shape");
    if (!absl::StripAsciiWhitespace(rest_).empty()) return Wrong("nothing after the dictionary");
    return out;
  }

 private:
  static absl::Status Wrong(absl::string_view expected) {
    return absl::DataLossError(absl::StrCat("the header is no .npy header: ", expected, " expected"));
  }
  bool Sees(char c) {
    rest_ = absl::StripLeadingAsciiWhitespace(rest_);
    return !rest_.empty() && rest_[0] == c;
  }
  bool Take(char c) {
    if (!Sees(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool TakeWord(absl::string_view word) {
    rest_ = absl::StripLeadingAsciiWhitespace(rest_);
    return absl::ConsumePrefix(&rest_, word);
  }
  absl::StatusOr<std::string> Text() {
    if (!Sees('\'') && !Sees('"')) return Wrong("a text in quotes");
    const char quote = rest_[0];
    const size_t end = rest_.find(quote, 1);
    if (end == absl::string_view::npos) return Wrong("the end of a text");
    std::string out(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return out;
  }
  absl::StatusOr<std::vector<int64_t>> Shape() {
    std::vector<int64_t> out;
    if (!Take('(')) return Wrong("a tuple of sizes");
    while (!Take(')')) {
      rest_ = absl::StripLeadingAsciiWhitespace(rest_);
      size_t digits = 0;
      while (digits < rest_.size() && absl::ascii_isdigit(static_cast<unsigned char>(rest_[digits]))) ++digits;
      int64_t n = 0;
      if (digits == 0 || !absl::SimpleAtoi(rest_.substr(0, digits), &n)) return Wrong("sizes that fit 64 bits");
      rest_.remove_prefix(digits);
      (void)absl::ConsumePrefix(&rest_, "L");  // as Python 2 wrote it
      out.push_back(n);
      if (out.size() > kMostDims) return absl::DataLossError(absl::StrCat("more than ", kMostDims, " dims"));
      if (!Take(',') && !Sees(')')) return Wrong("a comma or the end of the sizes");
    }
    return out;
  }

  absl::string_view rest_;
};

absl::StatusOr<DType> DTypeOfDescr(const std::string& descr) {
  for (const auto& d : kDescrs) {
    // One byte has no order, and NumPy's "=" never gets into a file.
    if (descr == d.descr) return d.dtype;
  }
  const std::string shown = absl::CHexEscape(descr.substr(0, 40));
  if (!descr.empty() && descr[0] == '>') {
    return absl::UnimplementedError(
        absl::StrCat("its elements are big-endian (", shown, "); convert them: x.astype(x.dtype.newbyteorder('<'))"));
  }
  if (absl::StrContains(descr, 'O'))
    return absl::UnimplementedError("its elements are Python objects; save an array of numbers");
  return absl::UnimplementedError(absl::StrCat("elements of type ", shown, " are not supported; expected bool, uint8, ",
                                               "int8 to int64, float16 to float64 or complex"));
}

absl::StatusOr<Tensor> Parse(absl::string_view bytes) {
  if (!IsNpy(bytes) || bytes.size() < 10) return absl::DataLossError("not a .npy file");
  const int major = static_cast<unsigned char>(bytes[6]);
  if (major < 1 || major > 3)
    return absl::UnimplementedError(absl::StrCat("version ", major, " of .npy, 1 to 3 expected"));
  const size_t length_bytes = major == 1 ? 2 : 4, begin = 8 + length_bytes;
  if (bytes.size() < begin) return absl::DataLossError("cut off in its header");
  uint32_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i)
    length |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[8 + i])) << (8 * i);
  if (length > bytes.size() - begin)
    return absl::DataLossError(absl::StrCat("cut off: a header of ", length, " bytes in a file of ", bytes.size()));
  SMELT_ASSIGN_OR_RETURN(const Header header, HeaderReader(bytes.substr(begin, length)).Read());
  SMELT_ASSIGN_OR_RETURN(const DType dtype, DTypeOfDescr(header.descr));
  const absl::string_view data = bytes.substr(begin + length);

  int64_t want = ItemSize(dtype), reach = want;
  for (int64_t n : header.shape) {
    // Strides are products of sizes, of empty arrays too.
    if (__builtin_mul_overflow(want, n, &want) || __builtin_mul_overflow(reach, std::max<int64_t>(n, 1), &reach))
      return absl::DataLossError(absl::StrCat("absurd sizes: [", absl::StrJoin(header.shape, ", "), "]"));
  }
  if (want != static_cast<int64_t>(data.size())) {
    return absl::DataLossError(absl::StrCat("[", absl::StrJoin(header.shape, ", "), "] of ", Name(dtype), " take ",
                                            want, " bytes, but ", data.size(), " bytes follow the header",
                                            static_cast<int64_t>(data.size()) < want ? ": the file is cut off" : ""));
  }
  return CatchOutOfMemory([&]() -> absl::StatusOr<Tensor> {
    Tensor out = Tensor::Empty(dtype, header.shape);
    if (want == 0) return out;
    if (!header.column_major || header.shape.size() < 2) {
      std::memcpy(out.data(), data.data(), static_cast<size_t>(want));
      return out;
    }
    std::vector<int64_t> strides;
    int64_t stride = 1;
    for (int64_t n : header.shape) {
      strides.push_back(stride);
      stride *= n;
    }
    CopyStrided(static_cast<char*>(out.data()), out.strides(), data.data(), strides, out.sizes(), ItemSize(dtype));
    return out;
  });
}

}  // namespace

bool IsNpy(absl::string_view bytes) { return absl::StartsWith(bytes, kMagic); }

absl::StatusOr<Tensor> ParseNpy(absl::string_view bytes, absl::string_view where) {
  absl::StatusOr<Tensor> out = Parse(bytes);
  if (out.ok()) return out;
  return absl::Status(out.status().code(), absl::StrCat(where, ": ", out.status().message()));
}

absl::StatusOr<std::string> EncodeNpy(const Tensor& tensor) {
  const char* descr = nullptr;
  for (const auto& d : kDescrs) {
    if (d.dtype == tensor.dtype()) descr = d.descr;
  }
  if (descr == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("a .npy cannot hold ", Name(tensor.dtype()), "; write a .safetensors instead"));
  }
  std::string header = absl::StrCat("{'descr': '", descr, "', 'fortran_order': False, 'shape': (",
                                    absl::StrJoin(tensor.sizes(), ", "), tensor.rank() == 1 ? ",), }" : "), }");
  // The elements begin at a multiple of 64 bytes.
  header.append((64 - (10 + header.size() + 1) % 64) % 64, ' ');
  header += '\n';
  const char length[] = {static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  return CatchOutOfMemory([&]() -> absl::StatusOr<std::string> {
    const Tensor dense = tensor.geometry().IsContiguous() ? tensor : tensor.Clone();
    const absl::string_view data(static_cast<const char*>(dense.data()),
                                 static_cast<size_t>(dense.NumElements() * ItemSize(dense.dtype())));
    return absl::StrCat(kMagic, absl::string_view("\x01\0", 2), absl::string_view(length, 2), header, data);
  });
}

}  // namespace smelt

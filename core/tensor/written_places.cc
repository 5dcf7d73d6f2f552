#include "smelt/core/tensor/written_places.h"

#include <cstring>
#include <numeric>

#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/element_order.h"
#include "smelt/core/tensor/float16.h"

namespace smelt {
namespace {

// Returns the bytes of a number in the dtype.
std::vector<char> BytesOf(DType dtype, int number) {
  std::vector<char> out(ItemSize(dtype));
  const auto put = [&](auto v) { std::memcpy(out.data(), &v, sizeof v); };
  if (dtype == DType::kFloat64) put(static_cast<double>(number));
  if (dtype == DType::kFloat32) put(static_cast<float>(number));
  if (dtype == DType::kFloat16) put(FloatToHalf(static_cast<float>(number)));
  if (dtype == DType::kBFloat16) put(FloatToBFloat16(static_cast<float>(number)));
  return out;
}

std::vector<int> LastDimFirst(int rank) {
  std::vector<int> dims(rank);
  std::iota(dims.rbegin(), dims.rend(), 0);
  return dims;
}

}  // namespace

Tensor OneNumber(DType dtype, absl::Span<const int64_t> sizes, int number) {
  Tensor t = Tensor::Empty(dtype, sizes);
  const std::vector<char> bytes = BytesOf(dtype, number);
  for (int64_t i = 0; i < t.NumElements(); ++i)
    std::memcpy(static_cast<char*>(t.data()) + i * bytes.size(), bytes.data(), bytes.size());
  return t;
}

absl::StatusOr<bool> WritesWhereItReads(const Tensor& written, absl::Span<const Tensor> read,
                                        const std::function<absl::StatusOr<Tensor>(int held, int given)>& call) {
  const DType t = written.dtype();
  if (!IsFloating(t) || IsComplex(t)) return true;
  const int item = ItemSize(t);
  const auto [low, high] = written.geometry().Span();
  const char* const begin = written.storage()->data() + low * item;
  std::vector<bool> touched((high - low) * item, false);
  for (const auto& [held, given] : {std::pair(2, 3), std::pair(3, 2)}) {
    SMELT_ASSIGN_OR_RETURN(const Tensor answer, call(held, given));
    if (answer.sizes() != written.sizes() || answer.dtype() != t) return true;
    const std::vector<char> kept = BytesOf(t, held);
    VisitInOrder(written.sizes(), LastDimFirst(written.rank()), [&](absl::Span<const int64_t> index) {
      const char* now = answer.storage()->data() + OffsetOf(answer.geometry(), index) * item;
      if (std::memcmp(now, kept.data(), item) == 0) return true;
      const char* place = written.storage()->data() + OffsetOf(written.geometry(), index) * item;
      for (int b = 0; b < item; ++b) touched[place + b - begin] = true;
      return true;
    });
  }
  bool reads = false;
  for (const Tensor& r : read) {
    VisitInOrder(r.sizes(), LastDimFirst(r.rank()), [&](absl::Span<const int64_t> index) {
      const char* at = r.storage()->data() + OffsetOf(r.geometry(), index) * ItemSize(r.dtype());
      for (int b = 0; b < ItemSize(r.dtype()); ++b) {
        const int64_t i = at + b - begin;
        reads = reads || (i >= 0 && i < static_cast<int64_t>(touched.size()) && touched[i]);
      }
      return !reads;
    });
  }
  return reads;
}

}  // namespace smelt

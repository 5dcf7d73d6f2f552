// Products with a matrix for each group of rows, and with weights of 8 and of 4 bits.
#include <algorithm>

#include "smelt/core/base/status_macros.h"
#include "smelt/core/eval/kernels.h"
#include "smelt/core/tensor/int4_form.h"

namespace smelt::eval_internal {
namespace {

absl::StatusOr<Values> GroupedMm(Call& c) {
  const Tensor rows = c.T("rows"), matrices = c.T("matrices");
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  const std::vector<int64_t> ends = Read<int64_t>(c.T("ends"));
  const int64_t count = rows.sizes()[0], depth = rows.sizes()[1], columns = matrices.sizes()[2];
  if (depth != matrices.sizes()[1] || static_cast<int64_t>(ends.size()) != matrices.sizes()[0])
    return c.Error("the sizes do not fit");
  WithNumber(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const std::vector<T> a = Read<T>(rows), b = Read<T>(matrices);
    std::vector<T> y(out.NumElements(), T(0));
    for (int64_t i = 0; i < count; ++i) {
      // A row belongs to the first group that ends after it.
      const int64_t group = std::find_if(ends.begin(), ends.end(), [&](int64_t end) { return end > i; }) - ends.begin();
      if (group == static_cast<int64_t>(ends.size())) continue;
      for (int64_t j = 0; j < columns; ++j) {
        for (int64_t k = 0; k < depth; ++k)
          y[i * columns + j] += a[i * depth + k] * b[(group * depth + k) * columns + j];
      }
    }
    Write(out, y);
    return 0;
  });
  return Values{EvalValue(out)};
}

absl::StatusOr<Values> Int8Mm(Call& c) {
  const Tensor rows = c.T("rows"), weight = c.T("weight");
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  const std::vector<double> a = Read<double>(rows), w = Read<double>(weight), scales = Read<double>(c.T("scales"));
  const int64_t depth = rows.sizes()[1], columns = weight.sizes()[0], scaled = static_cast<int64_t>(scales.size());
  if (depth != weight.sizes()[1] || (scaled != columns && scaled != 1)) return c.Error("the sizes do not fit");
  std::vector<double> y(out.NumElements());
  for (int64_t i = 0; i < rows.sizes()[0]; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < depth; ++k) sum += a[i * depth + k] * w[j * depth + k];
      y[i * columns + j] = sum * scales[scaled == 1 ? 0 : j];
    }
  }
  Write(out, y);
  return Values{EvalValue(out)};
}

absl::StatusOr<Values> Int4Mm(Call& c) {
  const Tensor rows = c.T("rows"), weight = c.T("weight");
  const auto form = static_cast<Int4Form>(c.I("form"));
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  const std::vector<double> a = Read<double>(rows), scales = Read<double>(c.T("scales")),
                            zeros = Read<double>(c.T("zeros"));
  const std::vector<uint8_t> bytes = [&] {
    const std::vector<int64_t> read = Read<int64_t>(weight);
    return std::vector<uint8_t>(read.begin(), read.end());
  }();
  const bool blocks = form == Int4Form::kBlocks, is_signed = weight.dtype() == DType::kInt8;
  const int64_t depth = rows.sizes()[1], columns = weight.sizes()[0], groups = c.T("scales").sizes()[1];
  if (weight.sizes()[1] * (blocks ? 2 : 1) != depth || groups < 1 || depth % groups != 0 ||
      static_cast<int64_t>(scales.size()) != columns * groups || zeros.size() != scales.size() ||
      (blocks && columns % 2 != 0))
    return c.Error("the sizes do not fit");
  const int64_t group = depth / groups;
  std::vector<double> y(out.NumElements(), 0);
  for (int64_t j = 0; j < columns; ++j) {
    for (int64_t k = 0; k < depth; ++k) {
      const double scale = scales[j * groups + k / group], zero = zeros[j * groups + k / group];
      const uint8_t byte = blocks ? 0 : bytes[j * depth + k];
      double w = is_signed ? static_cast<int8_t>(byte) : byte;
      if (form == Int4Form::kBytes) w *= scale;
      if (form == Int4Form::kBytesWithZeros) w = (w - zero) * scale;
      if (blocks) w = (BlockedInt4(bytes.data(), columns, depth, j, k) - 8) * scale + zero;
      for (int64_t i = 0; i < rows.sizes()[0]; ++i) y[i * columns + j] += a[i * depth + k] * w;
    }
  }
  Write(out, y);
  return Values{EvalValue(out)};
}

// row_sums(weight [n, k] of int8): [n] of int32.
absl::StatusOr<Values> RowSums(Call& c) {
  const Tensor weight = c.T("weight");
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  const std::vector<int64_t> elements = Read<int64_t>(weight);
  const int64_t depth = weight.sizes()[1];
  std::vector<int64_t> sums(out.NumElements(), 0);
  for (size_t i = 0; i < elements.size(); ++i) sums[i / depth] += elements[i];
  Write(out, sums);
  return Values{EvalValue(out)};
}

}  // namespace

void AddWeightProductKernels(KernelTable& t) {
  t["smelt::grouped_mm"] = GroupedMm;
  t["smelt::int8_mm"] = Int8Mm;
  t["smelt::row_sums"] = RowSums;
  t["smelt::int4_mm"] = Int4Mm;
}

}  // namespace smelt::eval_internal

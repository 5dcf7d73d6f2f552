#include "smelt/runtime/library/select.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/runtime/library/library.h"
#include "smelt/runtime/library/order.h"

namespace smelt::library_internal {
namespace {

// Calls f with a function for the dtype that maps an element's address to whether it is nonzero.
template <typename F>
auto WithNonzero(DType t, F f) {
  const auto bits = [&](auto zero, uint64_t sign) {
    using T = decltype(zero);
    return f([sign](const char* p) {
      T v;
      std::memcpy(&v, p, sizeof v);
      return (v & static_cast<T>(~sign)) != 0;
    });
  };
  if (IsComplex(t)) return f([t](const char* p) { return LoadComplex(p, t) != std::complex<double>(0, 0); });
  // In a floating-point number every bit but the sign counts.
  const uint64_t sign = IsFloating(t) ? uint64_t{1} << (8 * ItemSize(t) - 1) : 0;
  switch (ItemSize(t)) {
    case 1:
      return bits(uint8_t{}, sign);
    case 2:
      return bits(uint16_t{}, sign);
    case 4:
      return bits(uint32_t{}, sign);
    default:
      return bits(uint64_t{}, sign);
  }
}

// Calls f(address, index along the last dim, indices of the other dims) for every element in row-major order.
template <typename F>
void ForEachInLines(const OperandShape& o, char* data, F f) {
  const int64_t n = o.NumElements();
  if (n == 0) return;
  const int last = o.rank() - 1;
  const int64_t length = last < 0 ? 1 : o.sizes[last];
  const int64_t step = last < 0 ? 0 : o.strides[last] * ItemSize(o.dtype);
  std::vector<int64_t> index(static_cast<size_t>(std::max(last, 0)), 0);
  char* line = data;
  for (int64_t k = 0; k < n / length; ++k) {
    for (int64_t j = 0; j < length; ++j) f(line + j * step, j, index);
    for (int d = last - 1; d >= 0; --d) {
      line += o.strides[d] * ItemSize(o.dtype);
      if (++index[d] < o.sizes[d]) break;
      line -= o.sizes[d] * o.strides[d] * ItemSize(o.dtype);
      index[d] = 0;
    }
  }
}

class FunctionOp : public PreparedOp {
 public:
  using Body = std::function<absl::Status(absl::Span<char* const>, absl::Span<char* const>)>;
  explicit FunctionOp(Body body) : body_(std::move(body)) {}
  absl::Status Run(const LibraryContext&, absl::Span<char* const> inputs,
                   absl::Span<char* const> outputs) const override {
    return body_(inputs, outputs);
  }

 private:
  Body body_;
};

MakeResult Make(FunctionOp::Body body) { return std::unique_ptr<PreparedOp>(new FunctionOp(std::move(body))); }

StridedSpan At(const OperandShape& o, char* data) { return {data, o.dtype, o.sizes, o.strides}; }

absl::Status IsCount(const LibraryRequest& r, const OperandShape& o) {
  if (o.dtype == DType::kInt64 && o.NumElements() == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(r.op, ": the count must be one int64"));
}

// Returns the addresses of the elements in row-major order, for walks over several operands at once.
std::vector<char*> Addresses(const OperandShape& o, char* data) {
  std::vector<char*> list;
  list.reserve(static_cast<size_t>(o.NumElements()));
  ForEachElement(At(o, data), [&](char* p) { list.push_back(p); });
  return list;
}

}  // namespace

MakeResult MakeCountNonzero(const LibraryRequest& r, PackedWeights*) {
  SMELT_RETURN_IF_ERROR(CheckArity(r, 1, 1, 1, 1, 0));
  SMELT_RETURN_IF_ERROR(IsCount(r, r.outputs[0]));
  return Make([in = r.inputs[0]](auto inputs, auto outputs) {
    int64_t n = 0;
    WithNonzero(in.dtype, [&](auto is_nonzero) {
      ForEachInLines(in, inputs[0], [&](const char* p, int64_t, const auto&) { n += is_nonzero(p); });
    });
    std::memcpy(outputs[0], &n, 8);
    return absl::OkStatus();
  });
}

MakeResult MakeNonzero(const LibraryRequest& r, PackedWeights*) {
  SMELT_RETURN_IF_ERROR(CheckArity(r, 1, 1, 1, 1, 0));
  const OperandShape& out = r.outputs[0];
  if (out.rank() != 2 || out.sizes[1] != r.inputs[0].rank() || out.dtype != DType::kInt64) {
    return absl::InvalidArgumentError("nonzero: the result must be int64 of [count, rank]");
  }
  return Make([in = r.inputs[0], out](auto inputs, auto outputs) -> absl::Status {
    const int rank = in.rank();
    int64_t n = 0;
    WithNonzero(in.dtype, [&](auto is_nonzero) {
      ForEachInLines(in, inputs[0], [&](const char* p, int64_t j, const std::vector<int64_t>& index) {
        if (!is_nonzero(p)) return;
        if (n < out.sizes[0]) {
          int64_t* to = reinterpret_cast<int64_t*>(outputs[0]) + n * out.strides[0];
          for (int d = 0; d + 1 < rank; ++d) to[d * out.strides[1]] = index[d];
          if (rank > 0) to[(rank - 1) * out.strides[1]] = j;
        }
        ++n;
      });
    });
    return n == out.sizes[0] ? absl::OkStatus() : absl::InternalError("nonzero: the count was wrong");
  });
}

MakeResult MakeMaskedSelect(const LibraryRequest& r, PackedWeights*) {
  SMELT_RETURN_IF_ERROR(CheckArity(r, 2, 2, 1, 1, 0));
  const OperandShape &in = r.inputs[0], &mask = r.inputs[1], &out = r.outputs[0];
  if (mask.sizes != in.sizes || mask.dtype != DType::kBool || out.rank() != 1 || out.dtype != in.dtype) {
    return absl::InvalidArgumentError("masked_select: the operands do not fit each other");
  }
  return Make([in, mask, out](auto inputs, auto outputs) -> absl::Status {
    const int item = ItemSize(in.dtype);
    int64_t n = 0;
    const auto take = [&](const char* p) {
      if (n < out.sizes[0]) std::memcpy(outputs[0] + n * out.strides[0] * item, p, static_cast<size_t>(item));
      ++n;
    };
    if (in.IsDense() && mask.IsDense()) {
      const int64_t count = in.NumElements();
      for (int64_t i = 0; i < count; ++i) {
        if (inputs[1][i] != 0) take(inputs[0] + i * item);
      }
    } else {
      const std::vector<char*> from = Addresses(in, inputs[0]);
      size_t i = 0;
      ForEachElement(At(mask, inputs[1]), [&](const char* m) {
        const char* p = from[i++];
        if (*m != 0) take(p);
      });
    }
    return n == out.sizes[0] ? absl::OkStatus() : absl::InternalError("masked_select: the count was wrong");
  });
}

MakeResult MakeMaskedScatter(const LibraryRequest& r, PackedWeights*) {
  SMELT_RETURN_IF_ERROR(CheckArity(r, 3, 3, 1, 1, 0));
  const OperandShape &in = r.inputs[0], &mask = r.inputs[1], &source = r.inputs[2], &out = r.outputs[0];
  if (mask.sizes != in.sizes || out.sizes != in.sizes || mask.dtype != DType::kBool || source.dtype != in.dtype ||
      out.dtype != in.dtype) {
    return absl::InvalidArgumentError("masked_scatter: the operands do not fit each other");
  }
  return Make([in, mask, source, out](auto inputs, auto outputs) -> absl::Status {
    const size_t item = static_cast<size_t>(ItemSize(in.dtype));
    const std::vector<char*> from = Addresses(in, inputs[0]), to = Addresses(out, outputs[0]),
                             values = Addresses(source, inputs[2]);
    int64_t wanted = 0;
    ForEachElement(At(mask, inputs[1]), [&](const char* m) { wanted += *m != 0; });
    if (wanted > static_cast<int64_t>(values.size())) {
      return absl::FailedPreconditionError(absl::StrCat(
          "masked_scatter: expected self and source to have same dtypes and the number of elements in source "
          "to be at least the number of ones in mask (",
          wanted, "), but it has ", values.size()));
    }
    size_t i = 0, n = 0;
    ForEachElement(At(mask, inputs[1]), [&](const char* m) {
      std::memmove(to[i], *m != 0 ? values[n++] : from[i], item);
      ++i;
    });
    return absl::OkStatus();
  });
}

namespace {

// An operand's elements in row-major order.
const char* DenseElements(const OperandShape& in, char* data, std::vector<char>* copy) {
  if (in.IsDense()) return data;
  const int item = ItemSize(in.dtype);
  copy->resize(static_cast<size_t>(in.NumElements() * item));
  char* to = copy->data();
  ForEachElement(At(in, data), [&](const char* p) {
    std::memcpy(to, p, static_cast<size_t>(item));
    to += item;
  });
  return copy->data();
}

// Returns the number of elements that differ from the one before, and stores their places if `begins` has room for n +
// 1. A NaN differs from everything. There are no branches that depend on data.
int64_t FindRuns(const char* elements, DType t, int64_t n, int64_t* begins) {
  const uint64_t nan = NanKey(t);
  const int item = ItemSize(t);
  int64_t count = 0;
  WithKeys(t, [&](auto key_of) {
    uint64_t before = n > 0 ? ~key_of(elements) : 0;
    for (int64_t i = 0; i < n; ++i) {
      const uint64_t key = key_of(elements + i * item);
      if (begins != nullptr) begins[count] = i;
      count += (key != before) | ((nan != 0) & (key == nan));
      before = key;
    }
  });
  return count;
}

// The elements in the order of their values, with unchanged bytes.
struct Distinct {
  std::vector<char> copy;
  const char* elements;        // in row-major order: the operand's own, or the copy's
  std::vector<Keyed> order;    // sorted
  std::vector<int64_t> group;  // of order[i]
  int64_t count = 0;
};

Distinct FindDistinct(const OperandShape& in, char* data) {
  Distinct d;
  const int item = ItemSize(in.dtype);
  const int64_t n = in.NumElements();
  d.elements = DenseElements(in, data, &d.copy);
  LoadKeys(d.elements, item, n, in.dtype, /*descending=*/false, &d.order);
  SortByKey(&d.order);
  d.group.resize(d.order.size());
  const uint64_t nan = NanKey(in.dtype);
  for (size_t i = 0; i < d.order.size(); ++i) {
    const uint64_t key = d.order[i].key;
    const bool is_nan = nan != 0 && key == nan;  // which equals nothing here
    if (i == 0 || key != d.order[i - 1].key || is_nan) ++d.count;
    d.group[i] = d.count - 1;
  }
  return d;
}

// For runs of equal elements: one element of each run, the number of each element's run, and the length of each run.
absl::Status FillRuns(const OperandShape& in, char* data, const OperandShape& values, const OperandShape& inverse,
                      const OperandShape& counts, absl::Span<char* const> outputs) {
  const int item = ItemSize(in.dtype);
  const int64_t n = in.NumElements();
  std::vector<char> copy;
  const char* elements = DenseElements(in, data, &copy);
  std::vector<int64_t> begins(static_cast<size_t>(n + 1));
  const int64_t runs = FindRuns(elements, in.dtype, n, begins.data());
  if (runs != values.sizes[0]) return absl::InternalError("unique: the count was wrong");
  begins[static_cast<size_t>(runs)] = n;
  const bool scattered = inverse.present && !inverse.IsDense();
  const std::vector<char*> to = scattered ? Addresses(inverse, outputs[1]) : std::vector<char*>();
  for (int64_t run = 0; run < runs; ++run) {
    const int64_t begin = begins[static_cast<size_t>(run)], end = begins[static_cast<size_t>(run) + 1];
    std::memcpy(outputs[0] + run * values.strides[0] * item, elements + begin * item, static_cast<size_t>(item));
    const int64_t count = end - begin;
    if (counts.present) std::memcpy(outputs[2] + run * counts.strides[0] * 8, &count, 8);
    for (int64_t i = begin; inverse.present && i < end; ++i)
      std::memcpy(scattered ? to[static_cast<size_t>(i)] : outputs[1] + i * 8, &run, 8);
  }
  return absl::OkStatus();
}

}  // namespace

MakeResult MakeUniqueCount(const LibraryRequest& r, PackedWeights*) {
  SMELT_RETURN_IF_ERROR(CheckArity(r, 1, 1, 1, 1, 1));
  SMELT_RETURN_IF_ERROR(IsCount(r, r.outputs[0]));
  if (IsComplex(r.inputs[0].dtype)) return absl::UnimplementedError("unique of complex numbers");
  return Make([in = r.inputs[0], consecutive = r.ints[0] != 0](auto inputs, auto outputs) {
    std::vector<char> copy;
    const int64_t n = consecutive ? FindRuns(DenseElements(in, inputs[0], &copy), in.dtype, in.NumElements(), nullptr)
                                  : FindDistinct(in, inputs[0]).count;
    std::memcpy(outputs[0], &n, 8);
    return absl::OkStatus();
  });
}

MakeResult MakeUnique(const LibraryRequest& r, PackedWeights*) {
  SMELT_RETURN_IF_ERROR(CheckArity(r, 1, 1, 1, 3, 1));
  LibraryRequest full = r;
  full.outputs.resize(3);
  const OperandShape &in = full.inputs[0], &values = full.outputs[0], &inverse = full.outputs[1],
                     &counts = full.outputs[2];
  if (IsComplex(in.dtype)) return absl::UnimplementedError("unique of complex numbers");
  if (values.rank() != 1 || values.dtype != in.dtype ||
      (inverse.present && (inverse.sizes != in.sizes || inverse.dtype != DType::kInt64)) ||
      (counts.present && (counts.sizes != values.sizes || counts.dtype != DType::kInt64))) {
    return absl::InvalidArgumentError("unique: the operands do not fit each other");
  }
  if (r.ints[0] != 0) {
    return Make([in, values, inverse, counts](auto inputs, auto outputs) -> absl::Status {
      return FillRuns(in, inputs[0], values, inverse, counts, outputs);
    });
  }
  return Make([in, values, inverse, counts](auto inputs, auto outputs) -> absl::Status {
    const Distinct d = FindDistinct(in, inputs[0]);
    if (d.count != values.sizes[0]) return absl::InternalError("unique: the count was wrong");
    const int item = ItemSize(in.dtype);
    std::vector<int64_t> sizes(static_cast<size_t>(d.count), 0);
    const std::vector<char*> to = inverse.present ? Addresses(inverse, outputs[1]) : std::vector<char*>();
    for (size_t i = 0; i < d.order.size(); ++i) {
      const int64_t g = d.group[i];
      if (sizes[static_cast<size_t>(g)]++ == 0) {
        std::memcpy(outputs[0] + g * values.strides[0] * item, d.elements + d.order[i].index * item,
                    static_cast<size_t>(item));
      }
      if (inverse.present) std::memcpy(to[static_cast<size_t>(d.order[i].index)], &g, 8);
    }
    for (int64_t g = 0; counts.present && g < d.count; ++g) {
      std::memcpy(outputs[2] + g * counts.strides[0] * 8, &sizes[static_cast<size_t>(g)], 8);
    }
    return absl::OkStatus();
  });
}

MakeResult MakeBincount(const LibraryRequest& r, PackedWeights*) {
  SMELT_RETURN_IF_ERROR(CheckArity(r, 1, 2, 1, 1, 0));
  LibraryRequest full = r;
  full.inputs.resize(2);
  const OperandShape &in = full.inputs[0], &weights = full.inputs[1], &out = full.outputs[0];
  if (in.rank() != 1 || out.rank() != 1 || !(IsIntegral(in.dtype)) || (weights.present && weights.sizes != in.sizes)) {
    return absl::InvalidArgumentError("bincount: the operands do not fit each other");
  }
  return Make([in, weights, out](auto inputs, auto outputs) -> absl::Status {
    std::vector<double> sums(weights.present ? static_cast<size_t>(out.sizes[0]) : 0, 0);
    std::vector<int64_t> counts(static_cast<size_t>(out.sizes[0]), 0);
    const int64_t bins = out.sizes[0], step = in.strides[0] * ItemSize(in.dtype);
    const auto wrong_bins = [&](const char* elements) -> absl::Status {
      // One more than the largest int64 is not a number of bins.
      for (int64_t i = 0; i < in.sizes[0]; ++i) {
        if (LoadInt(elements + i * step, in.dtype) == std::numeric_limits<int64_t>::max())
          return absl::FailedPreconditionError("bincount: maximum value of input overflowed");
      }
      return absl::InternalError("bincount: the number of bins was wrong");
    };
    const auto each = [&](auto bin_at, auto count) -> absl::Status {
      for (int64_t i = 0; i < in.sizes[0]; ++i) {
        const int64_t bin = bin_at(inputs[0] + i * step);
        if (bin < 0) return absl::FailedPreconditionError("bincount only supports 1-d non-negative integral inputs.");
        if (bin >= bins) return wrong_bins(inputs[0]);
        count(static_cast<size_t>(bin), i);
      }
      return absl::OkStatus();
    };
    const auto any = [&](const char* at) { return LoadInt(at, in.dtype); };
    if (weights.present) {
      SMELT_RETURN_IF_ERROR(each(any, [&](size_t bin, int64_t i) {
        sums[bin] += LoadDouble(inputs[1] + i * weights.strides[0] * ItemSize(weights.dtype), weights.dtype);
      }));
    } else if (in.dtype == DType::kInt64) {
      const auto word = [](const char* at) {
        int64_t v;
        std::memcpy(&v, at, 8);
        return v;
      };
      SMELT_RETURN_IF_ERROR(each(word, [&](size_t bin, int64_t) { ++counts[bin]; }));
    } else {
      SMELT_RETURN_IF_ERROR(each(any, [&](size_t bin, int64_t) { ++counts[bin]; }));
    }
    for (int64_t i = 0; i < out.sizes[0]; ++i) {
      char* p = outputs[0] + i * out.strides[0] * ItemSize(out.dtype);
      if (weights.present)
        StoreDouble(p, out.dtype, sums[static_cast<size_t>(i)]);
      else
        StoreInt(p, out.dtype, counts[static_cast<size_t>(i)]);
    }
    return absl::OkStatus();
  });
}

absl::Span<const LibraryEntry> SelectionOps() {
  static constexpr LibraryEntry kOps[] = {
      {"count_nonzero", MakeCountNonzero}, {"nonzero", MakeNonzero},
      {"masked_select", MakeMaskedSelect}, {"masked_scatter", MakeMaskedScatter},
      {"unique_count", MakeUniqueCount},   {"unique", MakeUnique},
      {"bincount", MakeBincount},
  };
  return kOps;
}

}  // namespace smelt::library_internal

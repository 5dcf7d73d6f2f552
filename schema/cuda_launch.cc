#include "smelt/schema/cuda_launch.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "smelt/core/base/status_macros.h"

namespace smelt {
namespace {

constexpr size_t kMaxStages = 8, kMaxFactors = 16;
constexpr int kMaxThreads = 1024;           // of a block, on every device
constexpr int kMaxSharedBytes = 256 << 10;  // of a block, on every device
constexpr int64_t kMaxWorkspaceBytes = 1 << 20;
constexpr int64_t kMaxBlocks = std::numeric_limits<int32_t>::max();

absl::Status Bad(absl::string_view what, int64_t value, absl::string_view expected) {
  return absl::DataLossError(absl::StrCat(what, " is ", value, ", expected ", expected));
}

absl::Status VerifyStage(const fb::CudaStageT& s, int num_words) {
  const bool is_name =
      !s.entry.empty() && s.entry.size() <= 200 &&
      std::all_of(s.entry.begin(), s.entry.end(), [](char c) { return absl::ascii_isalnum(c) || c == '_'; });
  if (!is_name) return absl::DataLossError("its entry is no identifier");
  if (s.threads < 1 || s.threads > kMaxThreads) return Bad("threads", s.threads, absl::StrCat("1 to ", kMaxThreads));
  if (s.shared_bytes < 0 || s.shared_bytes > kMaxSharedBytes) {
    return Bad("shared_bytes", s.shared_bytes, absl::StrCat("0 to ", kMaxSharedBytes));
  }
  if (s.items_per_block < 1) return Bad("items_per_block", s.items_per_block, "at least 1");
  if (s.factors.size() > kMaxFactors) {
    return Bad("the number of factors", static_cast<int64_t>(s.factors.size()), absl::StrCat("0 to ", kMaxFactors));
  }
  for (const fb::CudaFactor& f : s.factors) {
    if (f.divisor() < 1) return Bad("a factor's divisor", f.divisor(), "at least 1");
    if (f.first() == -1 && f.count() == 0) continue;
    if (f.first() < 0 || f.first() >= num_words) {
      return Bad("a factor's first word", f.first(), absl::StrCat("less than ", num_words, ", or -1 with count 0"));
    }
    if (f.count() < 1 || f.count() > num_words - f.first()) {
      return Bad("a factor's count", f.count(), absl::StrCat("1 to ", num_words - f.first()));
    }
  }
  return absl::OkStatus();
}

int64_t CeilDiv(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

// Returns the product of the factors.
absl::StatusOr<int64_t> Items(absl::string_view entry, absl::Span<const fb::CudaFactor> factors,
                              absl::Span<const int64_t> words, int64_t tiles) {
  // A product with a factor of 0 is 0 though other factors may overflow.
  int64_t items = 1;
  bool is_zero = false, overflows = false;
  const auto multiply = [&](int64_t& into, int64_t by) { overflows |= __builtin_mul_overflow(into, by, &into); };
  for (const fb::CudaFactor& f : factors) {
    int64_t product = 1;
    for (int k = 0; k < std::max(f.count(), 1); ++k) {
      const int64_t size = f.first() < 0 ? tiles : words[f.first() + k];
      if (size < 0) {
        return absl::OutOfRangeError(absl::StrCat(entry, ": a size of the launch is ", size));
      }
      is_zero |= size == 0;
      multiply(product, size);
    }
    multiply(items, CeilDiv(product, f.divisor()));
  }
  if (is_zero) return 0;
  if (overflows) return absl::OutOfRangeError(absl::StrCat(entry, ": the launch has 2^63 items or more"));
  return items;
}

}  // namespace

absl::Status VerifyCudaKernel(const fb::CudaKernelT& kernel, int num_words) {
  if (kernel.stages.empty() || kernel.stages.size() > kMaxStages) {
    return Bad("the number of stages", static_cast<int64_t>(kernel.stages.size()), absl::StrCat("1 to ", kMaxStages));
  }
  if (kernel.words_by_value && (num_words < 1 || num_words > kMaxCudaWordsByValue)) {
    return Bad("the number of words passed by value", num_words, absl::StrCat("1 to ", kMaxCudaWordsByValue));
  }
  if (kernel.workspace_bytes < 0 || kernel.workspace_bytes > kMaxWorkspaceBytes) {
    return Bad("workspace_bytes", kernel.workspace_bytes, absl::StrCat("0 to ", kMaxWorkspaceBytes));
  }
  for (size_t i = 0; i < kernel.stages.size(); ++i) {
    if (kernel.stages[i]->if_split && kernel.stages[0]->factors.empty()) {
      return absl::DataLossError(absl::StrCat("stage ", i, ": if_split is set, but the first stage has no factors"));
    }
    SMELT_RETURN_IF_ERROR(Annotate(VerifyStage(*kernel.stages[i], num_words), absl::StrCat("stage ", i)));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ComputeBlocks(const fb::CudaKernelT& kernel, int stage, absl::Span<const int64_t> words,
                                      int64_t tiles) {
  const fb::CudaStageT& s = *kernel.stages[stage];
  const std::vector<fb::CudaFactor>& first = kernel.stages[0]->factors;
  if (s.if_split) {
    SMELT_ASSIGN_OR_RETURN(const int64_t splits, Items(s.entry, absl::MakeConstSpan(first).last(1), words, tiles));
    if (splits <= 1) return 0;
  }
  SMELT_ASSIGN_OR_RETURN(const int64_t items, Items(s.entry, s.factors, words, tiles));
  return std::clamp(CeilDiv(items, s.items_per_block), int64_t{1}, kMaxBlocks);
}

absl::StatusOr<int64_t> ComputeWorkspaceBytes(const fb::CudaKernelT& kernel, absl::Span<const int64_t> words,
                                              int64_t tiles) {
  if (kernel.workspace_bytes == 0) return 0;
  SMELT_ASSIGN_OR_RETURN(const int64_t items, Items(kernel.stages[0]->entry, kernel.stages[0]->factors, words, tiles));
  int64_t bytes;
  if (__builtin_mul_overflow(std::max<int64_t>(items, 1), kernel.workspace_bytes, &bytes)) {
    return absl::OutOfRangeError(absl::StrCat(kernel.stages[0]->entry, ": a workspace of 2^63 bytes or more"));
  }
  return bytes;
}

}  // namespace smelt

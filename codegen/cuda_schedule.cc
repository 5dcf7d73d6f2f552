#include "smelt/codegen/cuda_schedule.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "smelt/schema/cuda_launch.h"

namespace smelt {
namespace {

constexpr int kVectorBytes = 16;

bool VectorIsParallel(const KernelSpec& spec) {
  return spec.parallel_rank > 0 && spec.vector_dim == spec.parallel_rank - 1;
}

}  // namespace

CudaSchedule CudaScheduleFor(const KernelSpec& spec) {
  CudaSchedule out;
  const bool columns = VectorIsParallel(spec);
  bool scans = false;
  for (const KernelInstr& in : spec.instrs) scans = scans || in.op == KernelOp::kScan;
  if (spec.sequential) {
    out.kind = CudaSchedule::kSerial;
  } else if (spec.reduction_rank > 0 && !columns && !scans) {
    out.kind = CudaSchedule::kRows;
  } else if (columns && spec.reduction_rank == 0) {
    int widest = 1;
    for (const KernelParam& p : spec.params) {
      if (p.strides[spec.parallel_rank - 1] == StrideClass::kUnit) widest = std::max<int>(widest, ItemSize(p.dtype));
    }
    out.vector = std::max(1, std::min(8, kVectorBytes / widest));
  }
  return out;
}

bool TakesWordsByValue(const KernelSpec& spec) {
  return spec.num_words() >= 1 && spec.num_words() <= kMaxCudaWordsByValue;
}

fb::CudaKernelT CudaLaunchFor(const KernelSpec& spec, const std::string& symbol) {
  const CudaSchedule schedule = CudaScheduleFor(spec);
  auto stage = std::make_unique<fb::CudaStageT>();
  stage->entry = symbol;
  stage->threads = kCudaBlock;
  const int p = spec.parallel_rank;
  constexpr int kTiles = -1;
  switch (schedule.kind) {
    case CudaSchedule::kPoints:
      // If the vector dim is parallel and not the only one, tiles are rows.
      if (VectorIsParallel(spec) && p > 1) {
        stage->factors = {{kTiles, 0, 1}, {p - 1, 1, schedule.vector}};
      } else {
        stage->factors = {{kTiles, 0, schedule.vector}};
      }
      stage->items_per_block = kCudaBlock;
      break;
    case CudaSchedule::kRows:
      stage->factors = {{kTiles, 0, 1}};
      stage->items_per_block = 1;
      break;
    case CudaSchedule::kSerial:
      stage->factors = {{kTiles, 0, 1}};
      stage->items_per_block = std::numeric_limits<int64_t>::max();
      break;
  }
  fb::CudaKernelT out;
  out.stages.push_back(std::move(stage));
  out.words_by_value = TakesWordsByValue(spec);
  return out;
}

}  // namespace smelt

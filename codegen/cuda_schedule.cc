#include "smelt/codegen/cuda_schedule.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "smelt/schema/cuda_launch.h"

namespace smelt {
namespace {

constexpr int kVectorBytes = 16;

// Returns the number of elements of kVectorBytes in the widest param that is contiguous along `dim`; 1 if there is
// none.
int VectorAlong(const KernelSpec& spec, int dim) {
  int widest = 0;
  for (const KernelParam& p : spec.params) {
    if (p.strides[dim] == StrideClass::kUnit) widest = std::max<int>(widest, ItemSize(p.dtype));
  }
  return widest == 0 ? 1 : std::max(1, std::min(8, kVectorBytes / widest));
}

// Returns whether the partial results of chunks can be combined by a second launch: there is one inner phase, which
// only reduces, and nothing is stored before it ends.
bool MaySplit(const KernelSpec& spec) {
  int inner = 0;
  bool reduces = false;
  for (const KernelPhase& phase : spec.phases) {
    inner += phase.inner;
    if (inner == 1 && !phase.inner) continue;
    for (int i : phase.instrs) {
      const KernelOp op = spec.instrs[i].op;
      if (op == KernelOp::kStore || op == KernelOp::kScan) return false;
      reduces = reduces || op == KernelOp::kReduce;
    }
  }
  return inner == 1 && reduces;
}

// Returns a dim along which transposed params are contiguous, or -1. Tiles of more than a few params would not fit
// shared memory.
int TileDim(const KernelSpec& spec) {
  constexpr int kMaxParams = 4;
  if (!VectorIsParallel(spec) || spec.reduction_rank > 0 || spec.phases.size() != 1) return -1;
  for (int d = spec.parallel_rank - 2; d >= 0; --d) {
    std::set<int> params;
    for (int i : spec.phases[0].instrs) {
      if (IsTransposedLoad(spec, i, d)) params.insert(spec.instrs[i].param);
    }
    if (!params.empty() && params.size() <= kMaxParams) return d;
  }
  return -1;
}

}  // namespace

bool IsTransposedLoad(const KernelSpec& spec, int instr, int tile_dim) {
  const KernelInstr& in = spec.instrs[instr];
  if (in.op != KernelOp::kLoad || in.has_offset || in.has_guard) return false;
  const KernelParam& p = spec.params[in.param];
  return !p.is_written && p.strides[tile_dim] == StrideClass::kUnit &&
         p.strides[spec.parallel_rank - 1] == StrideClass::kAny;
}

bool VectorIsParallel(const KernelSpec& spec) {
  return spec.parallel_rank > 0 && spec.vector_dim == spec.parallel_rank - 1;
}

int PartialWords(const KernelSpec& spec, const KernelPhase& phase) {
  int words = 0;
  for (int i : phase.instrs) {
    const KernelInstr& in = spec.instrs[i];
    if (in.op == KernelOp::kReduce) words += IsArg(in.reduce) ? 2 : 1;
  }
  return words;
}

CudaSchedule CudaScheduleFor(const KernelSpec& spec, const CudaLimits& limits) {
  CudaSchedule out;
  bool scans = false;
  for (const KernelInstr& in : spec.instrs) scans = scans || in.op == KernelOp::kScan;
  if (spec.sequential) {
    out.kind = CudaSchedule::kSerial;
  } else if (spec.reduction_rank == 0) {
    if (VectorIsParallel(spec)) out.vector = VectorAlong(spec, spec.parallel_rank - 1);
    out.tile_dim = TileDim(spec);
  } else if (VectorIsParallel(spec)) {
    if (MaySplit(spec)) {
      out.kind = CudaSchedule::kColumns;
      out.split = limits.column_chunk;
    }
  } else if (!scans) {
    out.kind = CudaSchedule::kRows;
    out.vector = VectorAlong(spec, spec.rank() - 1);
    if (MaySplit(spec)) out.split = limits.row_chunk;
  }
  return out;
}

bool TakesWordsByValue(const KernelSpec& spec) {
  return spec.num_words() >= 1 && spec.num_words() <= kMaxCudaWordsByValue;
}

bool CanBeEpilogue(const KernelSpec& spec) {
  constexpr int64_t kMostWords = 128;
  if (spec.sequential || spec.parallel_rank < 1 || spec.reduction_rank != 0 || spec.num_words() > kMostWords)
    return false;
  return std::all_of(spec.instrs.begin(), spec.instrs.end(), [](const KernelInstr& in) {
    switch (in.op) {
      case KernelOp::kScalar:
        // Integers may be divided by zero.
        return IsFloating(in.type) || (in.scalar != ScalarOp::kDivTrunc && in.scalar != ScalarOp::kDivFloor &&
                                       in.scalar != ScalarOp::kRemTrunc && in.scalar != ScalarOp::kRemFloor);
      case KernelOp::kLoad:
      case KernelOp::kStore:
        return !in.has_offset;
      case KernelOp::kIndex:
      case KernelOp::kScalarParam:
      case KernelOp::kDimSize:
        return true;
      default:
        return false;
    }
  });
}

fb::CudaKernelT CudaLaunchFor(const KernelSpec& spec, const std::string& symbol, const CudaLimits& limits) {
  const CudaSchedule schedule = CudaScheduleFor(spec, limits);
  const int p = spec.parallel_rank, q = spec.reduction_rank;
  // The points of the launch along the vectorized dim, of which an item has `n`.
  const auto points = [&](int n) -> std::vector<fb::CudaFactor> {
    const fb::CudaFactor tiles(-1, 0, 1);
    if (VectorIsParallel(spec) && p > 1) return {tiles, fb::CudaFactor(p - 1, 1, n)};
    return {fb::CudaFactor(-1, 0, n)};
  };
  fb::CudaKernelT out;
  out.words_by_value = TakesWordsByValue(spec);
  const auto add = [&](std::vector<fb::CudaFactor> factors, int64_t items_per_block) {
    auto stage = std::make_unique<fb::CudaStageT>();
    stage->entry = out.stages.empty() ? symbol : absl::StrCat(symbol, "_", out.stages.size());
    stage->threads = kCudaBlock;
    stage->factors = std::move(factors);
    stage->items_per_block = items_per_block;
    out.stages.push_back(std::move(stage));
  };
  std::vector<fb::CudaFactor> first = points(schedule.kind == CudaSchedule::kColumns ? kCudaWarp : schedule.vector);
  switch (schedule.kind) {
    case CudaSchedule::kPoints:
      if (schedule.tile_dim >= 0) {
        const int d = schedule.tile_dim;
        std::vector<fb::CudaFactor> tiles = {fb::CudaFactor(d, 1, kCudaWarp), fb::CudaFactor(p - 1, 1, kCudaWarp)};
        if (d > 0) tiles.push_back(fb::CudaFactor(0, d, 1));
        if (d < p - 2) tiles.push_back(fb::CudaFactor(d + 1, p - 2 - d, 1));
        add(std::move(tiles), 1);
        return out;
      }
      add(std::move(first), kCudaBlock);
      return out;
    case CudaSchedule::kSerial:
      add(points(1), std::numeric_limits<int64_t>::max());
      return out;
    case CudaSchedule::kRows:
      first = {fb::CudaFactor(-1, 0, 1)};
      break;
    case CudaSchedule::kColumns:
      break;
  }
  if (schedule.split == 0) {
    add(std::move(first), 1);
    return out;
  }
  first.push_back(fb::CudaFactor(p, q, schedule.split));
  add(std::move(first), 1);
  const auto inner = std::find_if(spec.phases.begin(), spec.phases.end(), [](const KernelPhase& f) { return f.inner; });
  out.workspace_bytes = int64_t{8} * PartialWords(spec, *inner);
  if (schedule.kind == CudaSchedule::kColumns) {
    out.workspace_bytes *= kCudaWarp;
    add(points(1), kCudaBlock);
  } else {
    add({fb::CudaFactor(-1, 0, 1)}, 1);
  }
  out.stages.back()->if_split = true;
  return out;
}

}  // namespace smelt

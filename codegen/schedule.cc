#include "smelt/codegen/schedule.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "smelt/codegen/deviations.h"
#include "smelt/codegen/math.h"
#include "smelt/codegen/short_nans.h"

namespace smelt {

namespace {

// With at least this many dependent instructions, a loop processes more vectors at a time.
constexpr int kLongPath = 100;
// With at least this many instructions per vector, if columns are vectorized, whole vectors and the rest of a row share
// a loop body, one vector at a time. More copies would cost LLVM more time than they save in the kernel, since the
// processor overlaps adjacent vectors anyway. (With fewer instructions, and in the last loop of a row's reductions,
// sharing made kernels a few percent slower.)
constexpr int kOneBody = 60;
// On a machine with few registers, with at most this many instructions per vector, four vectors are computed at a time
// if float32 functions are among the instructions.
constexpr int kFourTogether = 60;

// The shape of a tile of a transposed operand: the length of its contiguous pieces, and their number. For machines
// without AVX-512 it was chosen by measurements on a Zen 3, which is slow at changing pages: half a tile, twice as
// wide, passes half as often over the pages of the operands that are in the loop's order.
struct TileShape {
  int64_t bytes, columns;
};
constexpr TileShape kTile = {1 << 10, 64}, kTileOfAvx2 = {256, 128};

// The bytes of a column of a block's transposed operands; a block has as many columns as a tile. On a Zen 5, adding
// 4096 x 4096 elements of float32 in blocks of 32, 64, 128 and 256 rows of 64 takes 4.2, 4.3, 4.5 and 4.6 ms, and in
// blocks of 64 rows of 128 it takes 5.0 ms. Taking the blocks of a row one after the other costs .3 ms more, and tiles
// take 6.9 ms.
constexpr int64_t kBlockBytes = 128;

// The bytes of the buffers of a tile of columns that one phase uses, those of all its buffers, and its most columns. The
// variances of 16384 columns of 1024 rows, which lie 64 KiB apart, took 4.2 ms on a Zen 4 in tiles of 1280 columns, whose
// accumulators stay in the nearest cache, and 3.8 ms in tiles of 2048.
constexpr int64_t kBufferBytes = 64 << 10;
constexpr int64_t kAllBufferBytes = 256 << 10;
constexpr int64_t kMostColumns = 2048;

// A Zen 3 (machines without AVX-512) gains nothing from rows in turns where memory is the limit: there a vector's
// instructions, twice their number, are at least this many times the bytes of an element.
constexpr int kTurnCost = 5;

}  // namespace

Schedule Schedule::Of(const KernelSpec& spec, const CpuFeatures& features) {
  // (With few rows of columns, a chunk of them stays in the nearest cache for a second pass.)
  const bool columns = spec.parallel_rank > 0 && spec.vector_dim == spec.parallel_rank - 1;
  return Make(spec, features, /*finds_deviations=*/!columns);
}

Schedule Schedule::OfStreams() const {
  if (!streams.possible) return *this;
  Schedule one_pass = Make(spec, features, /*finds_deviations=*/true);
  return one_pass.streams.possible ? one_pass : *this;
}

Schedule Schedule::Make(const KernelSpec& spec, const CpuFeatures& features, bool finds_deviations) {
  Schedule plan;
  plan.spec = spec;
  plan.features = features;
  const int p = spec.parallel_rank;
  plan.columns = p > 0 && spec.vector_dim == p - 1;
  plan.loop_dim = plan.columns ? p - 1 : spec.reduction_rank > 0 ? spec.rank() - 1 : -1;
  plan.unless.assign(spec.phases.size(), -1);
  plan.is_plain.assign(spec.instrs.size(), false);
  if (finds_deviations) {
    if (std::optional<Deviations> one_pass = FindDeviations(spec)) {
      plan.spec = std::move(one_pass->spec);
      plan.unless = std::move(one_pass->unless);
      plan.is_plain = std::move(one_pass->is_plain);
    }
  }
  plan.FindVarying();
  plan.ChooseLanes();
  plan.maxima = FindMaxima(plan.spec);
  plan.short_nans = HaveShortNans(plan.spec);
  plan.PlanTiles();
  plan.PlanStreams();
  plan.PlanScratch();
  plan.PlanFolds();
  plan.PairStores();
  for (size_t k = 0; k < plan.spec.params.size(); ++k) {
    plan.may_pass_cache.push_back(plan.written[k] && plan.MayPassCache(static_cast<int>(k)));
  }
  plan.fills_next.assign(plan.spec.params.size(), false);
  if (plan.columns && plan.lanes > 1 && !plan.tiles.some) plan.interior = FindInterior(plan.spec, plan.varying);
  return plan;
}

Schedule Schedule::OfPart(const KernelSpec& part) const {
  Schedule schedule = *this;
  schedule.spec = part;
  schedule.interior.reset();
  return schedule;
}

void Schedule::FindVarying() {
  varying.assign(spec.instrs.size(), false);
  uses.assign(spec.instrs.size(), 0);
  written.assign(spec.params.size(), false);
  for (const KernelInstr& in : spec.instrs) {
    for (int o : in.operands) ++uses[o];
    if (in.op == KernelOp::kStore) written[in.param] = true;
  }
  phase_of.assign(spec.instrs.size(), 0);
  for (size_t k = 0; k < spec.phases.size(); ++k) {
    for (int i : spec.phases[k].instrs) phase_of[i] = static_cast<int>(k);
  }
  for (size_t i = 0; i < spec.instrs.size(); ++i) {
    const KernelInstr& in = spec.instrs[i];
    const bool phase_has_loop = columns || spec.phases[phase_of[i]].inner;
    bool v = false;
    for (int o : in.operands) v = v || varying[o];
    switch (in.op) {
      case KernelOp::kIndex:
        v = in.dim == loop_dim;
        break;
      case KernelOp::kLoad:
        v = v || (phase_has_loop && loop_dim >= 0 && Moves(in.param, loop_dim));
        break;
      case KernelOp::kReduce:
        v = columns;
        break;
      case KernelOp::kScan:
        v = true;
        break;
      default:
        break;
    }
    varying[i] = v;
  }
}

void Schedule::ChooseLanes() {
  const bool vectorize = spec.vector_dim >= 0 && !spec.sequential;
  lanes = vectorize ? features.vector_bits / LaneBits() : 1;
  // Elements far apart are read and written one by one; very many of them in short vectors. The compile time of code of
  // ten thousand instructions is quadratic in them.
  constexpr int kMostApart = 256;
  for (const int apart = CountApart(); lanes > 4 && lanes * apart > kMostApart;) lanes /= 2;
}

int Schedule::CountApart() const {
  if (loop_dim < 0) return 0;
  return static_cast<int>(std::count_if(spec.instrs.begin(), spec.instrs.end(), [&](const KernelInstr& in) {
    return (in.op == KernelOp::kLoad || in.op == KernelOp::kStore) &&
           spec.params[in.param].strides[loop_dim] == StrideClass::kAny;
  }));
}

int Schedule::LaneBits() const {
  bool f32 = false, f64 = false;
  int bits = 8;
  for (size_t i = 0; i < spec.instrs.size(); ++i) {
    const KernelInstr& in = spec.instrs[i];
    if (in.op == KernelOp::kIndex || in.op == KernelOp::kDimSize || in.op == KernelOp::kCheckIndex) continue;
    // A value that is equal in all lanes takes no lane: a Python number is 64 bits wide.
    if (!varying[i] && in.op != KernelOp::kReduce && in.op != KernelOp::kStore) continue;
    f32 = f32 || in.type == DType::kFloat32 || IsHalf(in.type);
    f64 = f64 || in.type == DType::kFloat64;
    bits = std::max(bits, 8 * ItemSize(in.type));
  }
  return f32 ? 32 : f64 ? 64 : bits;
}

InstrCost Schedule::CostOf(const std::vector<int>& instrs) const {
  InstrCost cost;
  std::vector<int> path(spec.instrs.size(), 0);
  for (int i : instrs) {
    const KernelInstr& in = spec.instrs[i];
    if (!varying[i] && in.op != KernelOp::kStore && in.op != KernelOp::kReduce) continue;
    const int parts = std::max(1, lanes * 8 * ItemSize(in.type) / features.vector_bits);
    int c = 1;
    if (in.op == KernelOp::kScalar) c = MathCost(in.scalar);
    if ((in.op == KernelOp::kLoad || in.op == KernelOp::kStore)) {
      const StrideClass along = loop_dim >= 0 ? LoopClass(in.param) : StrideClass::kZero;
      const bool by_lanes = in.has_offset || along == StrideClass::kAny;
      const bool in_one_permutation = features.avx512 && in.op == KernelOp::kLoad && along == StrideClass::kTwo;
      c = by_lanes             ? 4 * lanes
          : in_one_permutation ? 3
          : IsApart(along)     ? 4 * static_cast<int>(ElementsApart(along))
          : in.has_guard       ? 4
                               : 1;
    }
    cost.all += c * parts;
    for (int o : in.operands) path[i] = std::max(path[i], path[o]);
    path[i] += c;
    cost.path = std::max(cost.path, path[i]);
  }
  return cost;
}

int Schedule::Copies(const std::vector<int>& instrs, bool reduces) const {
  const auto [cost, path] = CostOf(instrs);
  // A vector that is made lane by lane is many independent instructions already. (The order of a row's sum depends on
  // the number of copies.)
  if ((!reduces || columns) && TakesLanes(instrs)) return 1;
  const bool together = features.IsAvx2Only() && std::any_of(instrs.begin(), instrs.end(), [&](int i) {
                          return varying[i] && IsEmittedTogether(spec.instrs[i]);
                        });
  // (AVX-512 has registers for four.)
  const int four = features.avx512 ? 40 : 12;
  if (reduces) return cost <= 4 ? 8 : cost <= four ? 4 : cost <= 120 ? 2 : 1;
  // A long chain, in which each instruction waits for the one before, leaves little to do for a machine that looks some
  // hundred instructions ahead.
  if (path > kLongPath && cost <= 400) return 4;
  if (together) return cost <= kFourTogether ? 4 : cost <= 400 ? 2 : 1;
  const bool one_body = columns && cost > kOneBody && !CanPair(instrs, 2);
  return cost <= 12 ? 4 : cost <= 400 && !one_body ? 2 : 1;
}

bool Schedule::HasSums(const std::vector<int>& instrs) const {
  return std::any_of(instrs.begin(), instrs.end(), [&](int i) { return IsSumLike(spec.instrs[i]); });
}

bool Schedule::HasStores(const std::vector<int>& instrs) const {
  return std::any_of(instrs.begin(), instrs.end(), [&](int i) { return spec.instrs[i].op == KernelOp::kStore; });
}

bool Schedule::HasStrides(const std::vector<int>& instrs) const {
  for (int i : instrs) {
    const KernelInstr& in = spec.instrs[i];
    if (in.op != KernelOp::kLoad && in.op != KernelOp::kStore) continue;
    if (IsApart(LoopClass(in.param))) return true;
  }
  return false;
}

bool Schedule::TakesLanes(const std::vector<int>& instrs) const {
  for (int i : instrs) {
    const KernelInstr& in = spec.instrs[i];
    const bool is_load = in.op == KernelOp::kLoad;
    if (!is_load && in.op != KernelOp::kStore) continue;
    if (is_load && !varying[i]) continue;
    if (LoopClass(in.param) == StrideClass::kAny) return true;
    if (in.has_offset && varying[in.operands[is_load ? 0 : 1]]) return true;
  }
  return false;
}

bool Schedule::CanPair(const std::vector<int>& instrs, int copies) const {
  if (copies % 2 != 0) return false;
  bool some = false;
  for (int i : instrs) {
    const KernelInstr& in = spec.instrs[i];
    // Instructions that number elements or need their order.
    if (in.op == KernelOp::kScan || (in.op == KernelOp::kIndex && in.dim == loop_dim)) return false;
    if (in.op != KernelOp::kLoad && in.op != KernelOp::kStore) continue;
    if (in.op == KernelOp::kLoad && !varying[i]) continue;
    if (in.has_offset || in.has_guard || LoopClass(in.param) != StrideClass::kUnit) return false;
    if (spec.params[in.param].dtype != DType::kBFloat16) return false;
    some = true;
  }
  return some;
}

bool Schedule::HasOneBody(const std::vector<int>& instrs, int copies, int active_lanes) const {
  // Instructions that are emitted lane by lane leave no room for code that distinguishes whole vectors from others.
  if (!columns || copies != 1 || TakesLanes(instrs) || CostOf(instrs).all <= kOneBody) return false;
  for (int i : instrs) {
    const KernelInstr& in = spec.instrs[i];
    // A scan needs the mask of each lane. Narrow vectors go past the cache in pairs.
    if (in.op == KernelOp::kScan) return false;
    if (in.op == KernelOp::kStore && may_pass_cache[in.param] &&
        active_lanes * ItemSize(in.type) < features.vector_bits / 8) {
      return false;
    }
  }
  return true;
}

// Functions with branches are emitted together: otherwise the copies' code, block after block, would no longer run side
// by side. On a machine with few registers, functions of float32 are too: each constant is then loaded once for all
// copies, and each instruction waits less for the one before, as those of the other copies come between them.
bool Schedule::IsEmittedTogether(const KernelInstr& in) const {
  if (in.op != KernelOp::kScalar) return false;
  switch (in.scalar) {
    case ScalarOp::kSin:
    case ScalarOp::kCos:
    case ScalarOp::kTan:
      return true;
    case ScalarOp::kExp:
    case ScalarOp::kExp2:
    case ScalarOp::kExpm1:
    case ScalarOp::kLog:
    case ScalarOp::kLog1p:
    case ScalarOp::kTanh:
    case ScalarOp::kSigmoid:
    case ScalarOp::kErf:
    case ScalarOp::kAsin:
    case ScalarOp::kAcos:
    case ScalarOp::kAtan:
      return features.IsAvx2Only() && in.type == DType::kFloat32;
    default:
      return false;
  }
}

bool Schedule::CanHoist(int i, const std::vector<bool>& done) const {
  const KernelInstr& in = spec.instrs[i];
  if (varying[i] || in.op == KernelOp::kStore || in.op == KernelOp::kReduce || in.op == KernelOp::kScan) return false;
  for (int o : in.operands) {
    if (!done[o]) return false;
  }
  return in.op != KernelOp::kLoad || !MayBeWritten(in.param);
}

std::vector<int> Schedule::StillOverTiles(const std::vector<int>& instrs) const {
  const int last = spec.parallel_rank - 2;
  std::vector<bool> varies(spec.instrs.size());
  std::vector<int> still;
  for (int i : instrs) {
    const KernelInstr& in = spec.instrs[i];
    varies[i] = in.op == KernelOp::kIndex && in.dim == last;
    if (in.op == KernelOp::kLoad) varies[i] = spec.params[in.param].strides[last] != StrideClass::kZero;
    for (int o : in.operands) varies[i] = varies[i] || varies[o];
    if (!varies[i]) still.push_back(i);
  }
  return still;
}

bool Schedule::TakesKept(const std::vector<int>& instrs) const {
  return std::any_of(instrs.begin(), instrs.end(), [&](int i) {
    const std::vector<int>& from = spec.instrs[i].operands;
    return std::any_of(from.begin(), from.end(),
                       [&](int o) { return streams.is_kept[o] && phase_of[o] != phase_of[i]; });
  });
}

bool Schedule::IsPairedIn(int i, const std::vector<int>& instrs) const {
  return partner[i] >= 0 && std::find(instrs.begin(), instrs.end(), partner[i]) != instrs.end();
}

bool Schedule::IsLastStore(const KernelInstr& in) const {
  if (!has_scratch[in.param]) return true;
  for (const KernelInstr* k = &in + 1; k < spec.instrs.data() + spec.instrs.size(); ++k) {
    if (k->op == KernelOp::kStore && k->param == in.param) return false;
  }
  return true;
}

bool Schedule::SumsProducts(int i) const {
  const int from = spec.instrs[i].operands[0];
  const KernelInstr& made = spec.instrs[from];
  return IsSumLike(spec.instrs[i]) && features.fma && made.op == KernelOp::kScalar && made.scalar == ScalarOp::kMul &&
         phase_of[from] == phase_of[i];  // of others only the product is known here
}

bool Schedule::MayShareMemory(int a, int b) const {
  const int first = spec.params[a].alias_class, second = spec.params[b].alias_class;
  return first < 0 || second < 0 || first == second;
}

bool Schedule::MayBeWritten(int param) const {
  for (int q = 0; q < static_cast<int>(spec.params.size()); ++q) {
    if (written[q] && MayShareMemory(param, q)) return true;
  }
  return false;
}

bool Schedule::IsReadInLines(int param) const {
  return !written[param] && (LoopClass(param) == StrideClass::kUnit || LinesApart(param) > 1);
}

int64_t Schedule::LinesApart(int param) const {
  const int64_t apart = ElementsApart(LoopClass(param));
  return !features.IsAvx2Only() && apart >= 2 ? apart : 1;
}

bool Schedule::IsReadAsLoopRuns(int param) const { return !tiles.is_tiled[param] && IsReadInLines(param); }

void Schedule::PlanTiles() {
  tiles.is_tiled.assign(spec.params.size(), false);
  const int p = spec.parallel_rank;
  if (!columns || lanes == 1 || p < 2 || spec.reduction_rank > 0 || spec.sequential) return;
  for (size_t k = 0; k < spec.params.size(); ++k) {
    const KernelParam& param = spec.params[k];
    // Elements three or four apart are read in order, three or four times.
    const StrideClass along = param.strides[p - 1];
    const bool apart = IsApart(along) && ElementsApart(along) <= (written[k] ? 1 : 2);
    const StrideClass across = param.strides[p - 2];
    tiles.is_tiled[k] = apart && (across == StrideClass::kUnit || (across == StrideClass::kTwo && !written[k]));
  }
  for (const KernelInstr& in : spec.instrs) {
    const bool accesses = in.op == KernelOp::kLoad || in.op == KernelOp::kStore;
    if (accesses && (in.has_offset || in.has_guard)) tiles.is_tiled[in.param] = false;
  }
  // Their tiles stay in the second cache together.
  int room = 3;
  for (size_t k = 0; k < tiles.is_tiled.size(); ++k) {
    if (tiles.is_tiled[k] && room-- <= 0) tiles.is_tiled[k] = false;
  }
  int item = 1;
  for (size_t k = 0; k < tiles.is_tiled.size(); ++k) {
    if (!tiles.is_tiled[k]) continue;
    tiles.some = true;
    item = std::max(item, ItemSize(spec.params[k].dtype));
  }
  const TileShape shape = features.IsAvx2Only() ? kTileOfAvx2 : kTile;
  tiles.rows = shape.bytes / item;
  tiles.columns = shape.columns;
}

void Schedule::PlanStreams() {
  streams.possible = columns && lanes > 1 && spec.reduction_rank > 0;
  streams.is_kept.assign(spec.instrs.size(), false);
  if (!streams.possible) return;
  std::vector<bool> later(spec.instrs.size(), false);
  for (const KernelPhase& phase : spec.phases) {
    for (int i : phase.instrs) {
      for (int o : spec.instrs[i].operands) later[o] = later[o] || phase_of[o] != phase_of[i];
    }
  }
  // Values that are the same for all columns are computed before the loop over the columns, where that is possible.
  std::vector<bool> hoisted(spec.instrs.size(), false);
  for (const KernelPhase& phase : spec.phases) {
    if (phase.inner) continue;
    for (int i : phase.instrs) hoisted[i] = CanHoist(i, hoisted);
  }
  // The bytes that one column takes in the buffers: of all phases, and of each.
  int64_t all = 0;
  std::vector<int64_t> of_phase(spec.phases.size(), 0);
  std::vector<int> keep;
  for (size_t i = 0; i < spec.instrs.size(); ++i) {
    const KernelInstr& in = spec.instrs[i];
    if (in.op == KernelOp::kScan) streams.possible = false;
    if (in.op == KernelOp::kReduce) {
      const int64_t item = ItemSize(spec.instrs[in.operands[0]].type);
      const int64_t second = !IsSumLike(in) ? 0 : IsCompensated(in) ? 16 : 8;
      const int64_t bytes = item + second + (IsArg(in.reduce) ? 8 : 0);
      of_phase[phase_of[i]] += bytes;
      all += bytes;
    }
    if (!later[i] || hoisted[i]) continue;
    keep.push_back(static_cast<int>(i));
    all += ItemSize(in.type);
    std::vector<bool> counted(spec.phases.size(), false);
    for (size_t user = i + 1; user < spec.instrs.size(); ++user) {
      const int phase = phase_of[user];
      if (!spec.phases[phase].inner || phase == phase_of[i] || counted[phase]) continue;
      counted[phase] = absl::c_linear_search(spec.instrs[user].operands, static_cast<int>(i));
      if (counted[phase]) of_phase[phase] += ItemSize(in.type);
    }
  }
  const int64_t most = std::max<int64_t>(*std::max_element(of_phase.begin(), of_phase.end()), 1);
  streams.columns = std::min(kBufferBytes / most, kAllBufferBytes / std::max<int64_t>(all, 1));
  streams.columns = std::min(kMostColumns, streams.columns / 64 * 64);
  streams.possible = streams.possible && streams.columns >= 64;
  if (!streams.possible) return;
  for (int i : keep) streams.is_kept[i] = true;
}

// Values of a row that are kept in a result's memory until the result itself is stored (the exponentials of a softmax)
// are kept in a buffer instead, if the row fits into it. Then the result's memory is written once, past the cache.
void Schedule::PlanScratch() {
  has_scratch.assign(spec.params.size(), false);
  if (columns || spec.reduction_rank != 1 || lanes == 1) return;
  for (size_t p = 0; p < spec.params.size(); ++p) {
    if (!written[p] || !spec.params[p].is_read || spec.params[p].strides[loop_dim] != StrideClass::kUnit) continue;
    int first = -1, last = -1, stores = 0;
    bool ok = true;
    for (size_t i = 0; i < spec.instrs.size(); ++i) {
      const KernelInstr& in = spec.instrs[i];
      if ((in.op != KernelOp::kStore && in.op != KernelOp::kLoad) || in.param != static_cast<int>(p)) continue;
      ok = ok && !in.has_offset && !in.has_guard;
      if (in.op == KernelOp::kLoad) {
        ok = ok && stores == 1 && phase_of[i] > phase_of[first];
        continue;
      }
      if (stores++ == 0) first = static_cast<int>(i);
      last = static_cast<int>(i);
    }
    has_scratch[p] = ok && stores == 2 && phase_of[last] > phase_of[first] && spec.phases[phase_of[first]].inner &&
                     spec.phases[phase_of[last]].inner;
  }
}

void Schedule::PlanFolds() {
  folds.possible = columns && lanes > 1 && spec.reduction_rank > 0;
  folds.in_rows.assign(spec.instrs.size(), false);
  const int rows = spec.rank() - 1;
  bool loads = false;
  for (const KernelPhase& phase : spec.phases) {
    if (!phase.inner) continue;
    for (int i : phase.instrs) {
      const KernelInstr& in = spec.instrs[i];
      bool moves = in.op == KernelOp::kReduce || in.op == KernelOp::kStore;
      for (int o : in.operands) moves = moves || (folds.in_rows[o] && spec.instrs[o].op != KernelOp::kReduce);
      if (in.op == KernelOp::kLoad) moves = moves || spec.params[in.param].strides[rows] != StrideClass::kZero;
      folds.in_rows[i] = moves;
      folds.possible = folds.possible && in.op != KernelOp::kScan && !IsArg(in.reduce) &&
                       (in.op != KernelOp::kIndex || in.dim != rows);
      if (in.op != KernelOp::kLoad && in.op != KernelOp::kStore) continue;
      if (moves) {
        folds.possible = folds.possible && IsFoldable(in);
      } else {
        folds.possible = folds.possible && !MayBeWritten(in.param);
      }
      loads = loads || (moves && in.op == KernelOp::kLoad);
    }
  }
  folds.possible = folds.possible && loads;
}

bool Schedule::IsFoldable(const KernelInstr& in) const {
  const std::vector<StrideClass>& strides = spec.params[in.param].strides;
  return !in.has_offset && !in.has_guard && strides[loop_dim] == StrideClass::kUnit &&
         strides[spec.rank() - 1] == StrideClass::kAny;
}

void Schedule::PairStores() {
  partner.assign(spec.instrs.size(), -1);
  if (lanes == 1 || loop_dim < 0) return;
  for (const KernelPhase& phase : spec.phases) {
    int open = -1;
    for (int i : phase.instrs) {
      const KernelInstr& in = spec.instrs[i];
      if (in.op != KernelOp::kStore || in.has_offset || in.has_guard || has_scratch[in.param]) continue;
      if (LoopClass(in.param) != StrideClass::kTwo) continue;
      if (open < 0 || spec.instrs[open].type != in.type) {
        open = i;
        continue;
      }
      partner[i] = open;
      partner[open] = i;
      open = -1;
    }
  }
}

bool Schedule::MayPassCache(int param) const {
  const KernelParam& p = spec.params[param];
  if (!features.non_temporal || lanes == 1 || loop_dim < 0) return false;
  if (p.strides[loop_dim] != StrideClass::kUnit) return false;
  if (p.is_read && !has_scratch[param]) return false;
  if (8 * ItemSize(p.dtype) * lanes < 128) return false;
  // The param shares a class with one that is read: the cache holds the lines already.
  for (const KernelParam& q : spec.params) {
    if (&q != &p && q.is_read && (p.alias_class < 0 ? false : q.alias_class == p.alias_class)) return false;
  }
  for (const KernelInstr& in : spec.instrs) {
    if (in.op == KernelOp::kStore && in.param == param && (in.has_offset || in.has_guard)) return false;
  }
  return true;
}

RowPlan Schedule::PlanRows() const {
  RowPlan rows;
  int loops = 0, cost = 0;
  bool scans = false;
  for (size_t k = 0; k < spec.phases.size(); ++k) {
    if (!spec.phases[k].inner || unless[k] >= 0) continue;
    rows.last = static_cast<int>(k);
    ++loops;
    for (int i : spec.phases[k].instrs) scans = scans || spec.instrs[i].op == KernelOp::kScan;
    cost += CostOf(spec.phases[k].instrs).all;
  }
  const int row = spec.parallel_rank - 1;  // the dim that counts rows
  int64_t moved = 0;                       // bytes of an element
  for (int p = 0; row >= 0 && loop_dim >= 0 && p < static_cast<int>(spec.params.size()); ++p) {
    if (!Moves(p, loop_dim) || !Moves(p, row)) continue;
    moved += ItemSize(spec.params[p].dtype);
    if (!written[p]) rows.bytes_read += ItemSize(spec.params[p].dtype);
  }
  rows.in_turns = loops > 1 && lanes > 1 && spec.reduction_rank == 1 && !scans &&
                  (!features.IsAvx2Only() || 2 * cost >= kTurnCost * moved);
  // Where memory is the limit, a Zen 3 (machines without AVX-512) should prefetch the next row as this one is written,
  // rather than a row further on as its reductions run: its own prefetchers are at work then.
  rows.prefetches_late = features.IsAvx2Only() && !rows.in_turns && loops > 2;
  rows.prefetch_loop = rows.prefetches_late ? loops - 1 : std::min(loops - 1, 1);
  return rows;
}

std::optional<BlockShape> Schedule::PlanBlocks() const {
  if (features.vector_bits < 256) return std::nullopt;
  std::vector<int> all;
  for (const KernelPhase& phase : spec.phases) all.insert(all.end(), phase.instrs.begin(), phase.instrs.end());
  // With so much arithmetic, the loop is not bound by memory.
  if (CostOf(all).all > kOneBody) return std::nullopt;
  const int d = spec.parallel_rank - 2;
  int64_t widest = 1, narrowest_read = kLine, narrowest_written = kLine;
  for (size_t k = 0; k < spec.params.size(); ++k) {
    const int64_t item = ItemSize(spec.params[k].dtype);
    if (written[k]) {
      if (!may_pass_cache[k] || !Moves(static_cast<int>(k), d)) return std::nullopt;
      narrowest_written = std::min(narrowest_written, item);
    }
    if (tiles.is_tiled[k]) {
      if (spec.params[k].strides[d] != StrideClass::kUnit) return std::nullopt;
      widest = std::max(widest, item);
      narrowest_read = std::min(narrowest_read, item);
    }
  }
  BlockShape block;
  block.square_rows = kLine / narrowest_read;
  block.rows = std::max(kBlockBytes / widest, block.square_rows);
  block.columns = tiles.columns;
  block.square_columns = std::max<int64_t>({lanes, block.square_rows, kLine / narrowest_written});
  return block;
}

}  // namespace smelt

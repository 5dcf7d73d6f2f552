#include "smelt/fuser/emit_kernel.h"

#include <algorithm>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "smelt/fuser/short_dims.h"

namespace smelt::kernel {
namespace {

using Ins = KernelDraft::Ins;
using Access = KernelDraft::Access;

// If windows are at least this many elements apart, a vector is better filled from one window.
constexpr int64_t kFarStride = 8;

// If rows are more than so many elements apart, the rows of a vector may evict each other from the cache.
constexpr int64_t kFarRow = 512;

// Returns whether a row to reduce fills no vector, while many adjacent rows do.
bool AreShortRowsSideBySide(const KernelDraft& draft) {
  const int p = draft.parallel;
  if (p == 0 || draft.rank() != p + 1) return false;
  // Costly work per row is so much smaller beside it that rows of a few vectors are short, too.
  const bool costly = std::any_of(draft.ins.begin(), draft.ins.end(),
                                  [](const Ins& in) { return !in.inner && in.depth > 0 && KernelDraft::IsCostly(in); });
  if (draft.sizes[p].Constant().value_or(INT64_MAX) > (costly ? 3 * kFewLanes : kFewLanes)) return false;
  // The rows that are left over after the last full vector cost five times as much each as a row by itself.
  const int64_t rows = draft.sizes[p - 1].Constant().value_or(kManyElements);
  if (rows == 0 || (rows % kFullVector != 0 && rows < 8 * kFullVector)) return false;
  return std::all_of(draft.ins.begin(), draft.ins.end(), [&](const Ins& in) {
    return in.access < 0 || !in.inner ||
           std::abs(draft.accesses[in.access].coef[p - 1].Constant().value_or(kFarRow + 1)) <= kFarRow;
  });
}

int ChooseVectorDim(const KernelDraft& draft, bool ordered) {
  const int p = draft.parallel, r = draft.rank();
  if (r == p) return p > 0 ? p - 1 : -1;
  if (!ordered && AreShortRowsSideBySide(draft)) return p - 1;
  // Operands that vary with both are most of the memory that is read.
  int along_q = 0, along_p = 0, near_q = 0, near_p = 0;
  // (Places that are computed for each element may be any distance apart.)
  bool near = draft.sliding_window && !ordered && p > 0 && !draft.IsChosenAlong(p - 1);
  // If a row has fewer windows than a window has elements, and they fill no vector, a window fills it better.
  near = near && !(draft.ranges.Less(draft.sizes[p - 1], kFewLanes) == true &&
                   draft.ranges.Less(draft.sizes[p - 1], draft.sizes[r - 1]) == true);
  for (const Ins& in : draft.ins) {
    if (in.access < 0 || !in.inner) continue;
    const Access& a = draft.accesses[in.access];
    const bool unit_q = draft.ClassOf(a, r - 1) == StrideClass::kUnit;
    const bool unit_p = p > 0 && draft.ClassOf(a, p - 1) == StrideClass::kUnit;
    if (p > 0 && !ordered) {
      // Places from data: along the reduction each lane would have a place of its own, along the other dim they are
      // rows. With a window that slides by one, every window along the other dim is full.
      const bool chosen = in.has_offset && draft.ins[in.operands[in.op == KernelOp::kStore ? 1 : 0]].inner;
      if (unit_p && (chosen || unit_q)) return p - 1;
    }
    if (near) near = a.coef[p - 1].Constant().value_or(kFarStride) < kFarStride;
    const int weight = p > 0 && a.coef[p - 1] != Expr(0) && a.coef[r - 1] != Expr(0) ? 4 : 1;
    along_q += unit_q ? weight : 0;
    along_p += unit_p ? weight : 0;
    near_q += ElementsApart(draft.ClassOf(a, r - 1)) > 1 ? weight : 0;
    near_p += p > 0 && ElementsApart(draft.ClassOf(a, p - 1)) > 1 ? weight : 0;
  }
  if (near) return p - 1;
  if (ordered) {
    if (p > 0 && along_p > 0 && along_p >= along_q) return p - 1;
    // A scan along a row takes one element after the other, unless it compares; costly instructions beside it run in
    // vectors. A scan that keeps an index takes many rows at a time if they are short.
    const bool many_short_rows = p > 0 && draft.sizes[p - 1].Constant().value_or(kManyElements) >= kFullVector &&
                                 draft.sizes[r - 1].Constant().value_or(kFullVector) < kFullVector;
    bool scans = false, compares = true, costly = false;
    for (const Ins& in : draft.ins) {
      if (in.op == KernelOp::kScan) {
        if (IsArg(in.reduce) && many_short_rows) return p - 1;
        scans = true;
        compares = compares && (IsArg(in.reduce) || in.reduce == ReduceKind::kMin || in.reduce == ReduceKind::kMax);
      }
      // (Converting one float16 element is as slow as converting many.)
      costly = costly || (in.inner && (KernelDraft::IsCostly(in) || in.type == DType::kFloat16));
    }
    if (scans && costly && many_short_rows) return p - 1;
    return scans && (compares || costly) ? r - 1 : -1;
  }
  if (along_q >= along_p && (along_q > 0 || p == 0)) return r - 1;
  // Elements a few apart are read as adjacent ones are, but for those between them.
  if (along_p == 0 && near_q > near_p) return r - 1;
  return p > 0 ? p - 1 : r - 1;
}

// Places are 2 * depth for the outer phase before the reductions of that depth, and 2 * depth + 1 for the inner one. An
// instruction may stand in several.
class Emission {
 public:
  explicit Emission(Builder& b) : b_(b), draft_(b.draft()) {
    for (int i : draft_.stores) roots_.push_back({i, PlaceOfRoot(i)});
    std::stable_sort(roots_.begin(), roots_.end(), [&](const auto& x, const auto& y) {
      return x.second != y.second ? x.second < y.second : draft_.color[x.first] < draft_.color[y.first];
    });
    Walk();
  }

  // Keeps a costly value that several passes over the row need in the place of a result that is stored later: the
  // exponentials of a softmax. Nothing else is in that memory: a kernel that reduces never writes over its operands.
  // Then it keeps values that take many cheap steps: sums that are rounded to bfloat16 repeatedly, or a choice among a
  // list's parts.
  void KeepForLaterPasses() {
    for (bool only_costly : {true, false}) {
      for (Repeated r = FindRepeated(only_costly); r.instr >= 0; r = FindRepeated(only_costly)) {
        const int access = FindRoom(r);
        if (access >= 0) {
          Keep(r, access);
        } else {
          kept_[r.instr] = {INT_MAX, -1};  // not asked again
        }
      }
    }
  }

  LoweredKernel Describe(int vector_dim);

 private:
  using Ins = KernelDraft::Ins;
  static constexpr int kLong = 16;  // of work, that is kept for the next pass over a row

  // An instruction of place `first` that later places need again; `last` is the last of them.
  struct Repeated {
    int instr = -1, first = 0, last = 0;
  };

  int PlaceOfRoot(int i) const {
    return 2 * draft_.ins[i].depth + (draft_.ins[i].inner || draft_.ins[i].op == KernelOp::kReduce ? 1 : 0);
  }
  int PlaceFor(int i, int requested) const {
    const Ins& in = draft_.ins[i];
    if (in.op == KernelOp::kReduce) return 2 * in.depth + 1;
    return in.inner ? requested : 2 * in.depth;
  }
  std::vector<int> OrderedOperands(int i) const {
    std::vector<int> o = draft_.ins[i].operands;
    const Ins& in = draft_.ins[i];
    if (draft_.Commutes(in) && draft_.IsToBeSwapped(in, draft_.color[o[1]] < draft_.color[o[0]])) std::swap(o[0], o[1]);
    return o;
  }
  // Returns the instruction that stands for `i` in a place: a load, if the value was kept before.
  int Resolve(int i, int place) const {
    auto it = kept_.find(i);
    return it != kept_.end() && place > it->second.first ? it->second.second : i;
  }

  void Walk();
  static int WorkOf(const Ins& in);
  bool IsLong(int i, int place) const;
  Repeated FindRepeated(bool only_costly) const;
  int FindRoom(const Repeated& r) const;
  void Keep(const Repeated& r, int access);
  KernelInstr Translate(int i, int place) const;
  int ParamOf(int access, int vector_dim, LoweredKernel& out);

  Builder& b_;
  KernelDraft& draft_;
  std::vector<std::pair<int, int>> roots_;              // instruction, place
  absl::flat_hash_map<int, std::pair<int, int>> kept_;  // by instruction: its first place, a load of what was stored
  std::map<int, std::vector<int>> places_;              // instructions by place, in order
  absl::flat_hash_map<std::pair<int, int>, int> seen_;  // (instruction, place): its number in the end
  std::vector<int> param_of_, scalar_of_;               // by access, by scalar; -1: none yet
};

void Emission::Walk() {
  struct Frame {
    int instr, place;
    std::vector<int> operands;
    size_t next = 0;
  };
  places_.clear();
  seen_.clear();
  for (const auto& [root, root_place] : roots_) {
    std::vector<Frame> stack;
    auto push = [&](int i, int place) {
      if (seen_.contains({i, place})) return;
      seen_[{i, place}] = -1;
      stack.push_back({i, place, OrderedOperands(i)});
    };
    push(root, root_place);
    while (!stack.empty()) {
      if (stack.back().next < stack.back().operands.size()) {
        const int here = stack.back().place;
        const int o = Resolve(stack.back().operands[stack.back().next++], here);
        push(o, PlaceFor(o, here));
      } else {
        places_[stack.back().place].push_back(stack.back().instr);
        stack.pop_back();
      }
    }
  }
  // A point reads all its operands before it writes: a result may lie in an operand's place, and another result may
  // read that operand through a view of its own. This does not hold where results are read again (scatters): the order
  // is theirs.
  for (const Ins& in : draft_.ins) {
    if (in.op == KernelOp::kLoad && in.access >= 0 && draft_.accesses[in.access].is_output) return;
  }
  for (auto& [place, list] : places_) {
    std::stable_partition(list.begin(), list.end(), [&](int i) { return draft_.ins[i].op != KernelOp::kStore; });
  }
}

// The work of an instruction, in additions of a vector.
int Emission::WorkOf(const Ins& in) {
  if (in.op == KernelOp::kLoad) return in.has_guard ? 6 : in.has_offset ? 10 : 1;
  if (in.op != KernelOp::kScalar) return 0;
  if (in.scalar == ScalarOp::kCast) return OpMathType(in.type) != in.type ? 5 : 1;
  return in.scalar == ScalarOp::kDiv || in.scalar == ScalarOp::kSqrt ? 6 : 1;
}

bool Emission::IsLong(int i, int place) const {
  int work = 0;
  std::vector<int> todo = {i};
  absl::flat_hash_set<int> met = {i};
  while (!todo.empty() && work <= kLong) {
    const Ins& in = draft_.ins[todo.back()];
    todo.pop_back();
    if (!in.inner) continue;
    work += WorkOf(in);
    for (int o : in.operands) {
      o = Resolve(o, place);
      if (met.insert(o).second) todo.push_back(o);
    }
  }
  return work > kLong;
}

Emission::Repeated Emission::FindRepeated(bool only_costly) const {
  for (const auto& [place, list] : places_) {
    if (place % 2 == 0) continue;
    // Takes the end of a long computation.
    for (size_t k = 0; k < list.size(); ++k) {
      const int i = only_costly ? list[k] : list[list.size() - 1 - k];
      if (!draft_.ins[i].inner || kept_.contains(i) || draft_.ins[i].op != KernelOp::kScalar) continue;
      if (only_costly ? !KernelDraft::IsCostly(draft_.ins[i]) : !IsLong(i, place)) continue;
      int later = 0;
      for (const auto& [other, unused] : places_) {
        if (other > place && seen_.contains({i, other})) later = other;
      }
      if (later > 0) return {i, place, later};
    }
  }
  return {};
}

// Finds a result of the instruction's type that has an element of its own at each point of the loops, is stored after
// place `first` and not before `last`, and keeps nothing else; -1 if there is none.
int Emission::FindRoom(const Repeated& r) const {
  for (const auto& [root, place] : roots_) {
    const Ins& store = draft_.ins[root];
    const KernelDraft::Access& a = draft_.accesses[store.access];
    if (a.dtype != draft_.ins[r.instr].type || store.has_offset || store.has_guard || !store.inner ||
        place <= r.first || place < r.last)
      continue;
    bool whole = true;
    for (const Expr& c : a.coef) whole = whole && c != Expr(0);
    if (!whole) continue;
    int users = 0;  // other instructions at that memory
    for (const Ins& in : draft_.ins) {
      if (in.access < 0) continue;
      const KernelDraft::Access& other = draft_.accesses[in.access];
      users += other.is_output && other.output == a.output;
    }
    if (users == 1) return store.access;
  }
  return -1;
}

void Emission::Keep(const Repeated& r, int access) {
  Ins store;
  store.op = KernelOp::kStore;
  store.type = draft_.ins[r.instr].type;
  store.access = access;
  store.operands = {r.instr};
  const int s = b_.Append(std::move(store));
  Ins load;
  load.op = KernelOp::kLoad;
  load.type = draft_.ins[r.instr].type;
  load.access = access;
  const int l = b_.Append(std::move(load));
  draft_.color.resize(draft_.ins.size(), draft_.color[r.instr] ^ 0x5bd1e995);
  kept_[r.instr] = {r.first, l};
  roots_.push_back({s, r.first});
  std::stable_sort(roots_.begin(), roots_.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  Walk();
}

// Returns the parameter of an access, which is made at its first use.
int Emission::ParamOf(int access, int vector_dim, LoweredKernel& out) {
  int& p = param_of_[access];
  if (p >= 0) return p;
  const KernelDraft::Access& a = draft_.accesses[access];
  p = static_cast<int>(out.spec.params.size());
  KernelParam param;
  param.dtype = a.dtype;
  LoweredKernel::Param lowered;
  lowered.value = a.value;
  lowered.is_output = a.is_output;
  lowered.output = a.output;
  lowered.offset = a.offset;
  Expr elements = 1;
  for (int d = 0; d < draft_.rank(); ++d) {
    const StrideClass c = draft_.ClassOf(a, d);
    const bool is_kept = c == StrideClass::kZero || c == StrideClass::kUnit ||
                         (c == StrideClass::kTwo && draft_.IsAcrossLoop(a, d)) ||
                         (d == vector_dim && (c != StrideClass::kBackward || !a.is_output));
    param.strides.push_back(is_kept ? c : StrideClass::kAny);
    lowered.strides.push_back(a.coef[d]);
    if (a.coef[d] != Expr(0)) elements = elements * draft_.sizes[d];
  }
  out.bytes = out.bytes + elements * ItemSize(a.dtype);
  out.spec.params.push_back(std::move(param));
  out.params.push_back(std::move(lowered));
  return p;
}

// Translates everything except its parameter or scalar.
KernelInstr Emission::Translate(int i, int place) const {
  const Ins& in = draft_.ins[i];
  KernelInstr k;
  k.op = in.op;
  k.type = in.type;
  k.scalar = in.scalar;
  k.imm = in.imm;
  k.has_offset = in.has_offset;
  k.has_guard = in.has_guard;
  k.dim = in.dim;
  k.reduce = in.reduce;
  for (int o : OrderedOperands(i)) {
    const int r = Resolve(o, place);
    k.operands.push_back(seen_.at({r, PlaceFor(r, place)}));
  }
  return k;
}

LoweredKernel Emission::Describe(int vector_dim) {
  LoweredKernel out;
  KernelSpec& spec = out.spec;
  spec.parallel_rank = draft_.parallel;
  spec.reduction_rank = draft_.rank() - draft_.parallel;
  spec.vector_dim = vector_dim;
  out.sizes = draft_.sizes;
  param_of_.assign(draft_.accesses.size(), -1);
  scalar_of_.assign(draft_.scalars.size(), -1);
  for (auto& [place, list] : places_) {
    // A result may lie in the place of another one's operand: a point is read completely before it is written.
    std::stable_partition(list.begin(), list.end(), [&](int i) { return draft_.ins[i].op != KernelOp::kStore; });
    KernelPhase phase;
    phase.inner = place % 2 == 1;
    for (int i : list) {
      const Ins& in = draft_.ins[i];
      KernelInstr k = Translate(i, place);
      if (in.access >= 0) {
        k.param = ParamOf(in.access, vector_dim, out);
        (in.op == KernelOp::kLoad ? spec.params[k.param].is_read : spec.params[k.param].is_written) = true;
      }
      if (in.op == KernelOp::kScalarParam) {
        int& s = scalar_of_[in.scalar_param];
        if (s < 0) {
          s = static_cast<int>(spec.scalars.size());
          spec.scalars.push_back(draft_.scalar_types[in.scalar_param]);
          out.scalars.push_back(draft_.scalars[in.scalar_param]);
        }
        k.dim = s;
      }
      seen_[{i, place}] = static_cast<int>(spec.instrs.size());
      phase.instrs.push_back(static_cast<int>(spec.instrs.size()));
      spec.instrs.push_back(std::move(k));
    }
    spec.phases.push_back(std::move(phase));
  }
  return out;
}

}  // namespace

LoweredKernel EmitKernel(Builder& builder, bool ordered) {
  const int vector_dim = ChooseVectorDim(builder.draft(), ordered);
  Emission emission(builder);
  emission.KeepForLaterPasses();
  return emission.Describe(vector_dim);
}

}  // namespace smelt::kernel

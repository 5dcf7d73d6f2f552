// The last step of a kernel's canonical form: the phase and the order of each instruction, and the values that a row
// keeps for its next pass.
#include <algorithm>
#include <climits>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "smelt/fuser/kernel_builder.h"

namespace smelt::kernel {

// Places are 2 * depth for the outer phase before the reductions of that depth, and 2 * depth + 1 for the inner one. An
// instruction may stand in several.
class Emission {
 public:
  explicit Emission(Builder& b) : b_(b) {
    for (int i : b_.stores_) roots_.push_back({i, PlaceOfRoot(i)});
    std::stable_sort(roots_.begin(), roots_.end(), [&](const auto& x, const auto& y) {
      return x.second != y.second ? x.second < y.second : b_.color_[x.first] < b_.color_[y.first];
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
  using Ins = Builder::Ins;
  static constexpr int kLong = 16;  // of work, that is kept for the next pass over a row

  // An instruction of place `first` that later places need again; `last` is the last of them.
  struct Repeated {
    int instr = -1, first = 0, last = 0;
  };

  int PlaceOfRoot(int i) const {
    return 2 * b_.ins_[i].depth + (b_.ins_[i].inner || b_.ins_[i].op == KernelOp::kReduce ? 1 : 0);
  }
  int PlaceFor(int i, int requested) const {
    const Ins& in = b_.ins_[i];
    if (in.op == KernelOp::kReduce) return 2 * in.depth + 1;
    return in.inner ? requested : 2 * in.depth;
  }
  std::vector<int> OrderedOperands(int i) const {
    std::vector<int> o = b_.ins_[i].operands;
    const Ins& in = b_.ins_[i];
    if (b_.Commutes(in) && b_.IsToBeSwapped(in, b_.color_[o[1]] < b_.color_[o[0]])) std::swap(o[0], o[1]);
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
  for (const Ins& in : b_.ins_) {
    if (in.op == KernelOp::kLoad && in.access >= 0 && b_.accesses_[in.access].is_output) return;
  }
  for (auto& [place, list] : places_) {
    std::stable_partition(list.begin(), list.end(), [&](int i) { return b_.ins_[i].op != KernelOp::kStore; });
  }
}

// The work of an instruction, in additions of a vector.
int Emission::WorkOf(const Ins& in) {
  if (in.op == KernelOp::kLoad) return in.has_guard ? 6 : in.has_offset ? 10 : 1;
  if (in.op != KernelOp::kScalar) return 0;
  if (in.scalar == ScalarOp::kCast) return IsHalf(in.type) ? 5 : 1;
  return in.scalar == ScalarOp::kDiv || in.scalar == ScalarOp::kSqrt ? 6 : 1;
}

bool Emission::IsLong(int i, int place) const {
  int work = 0;
  std::vector<int> todo = {i};
  absl::flat_hash_set<int> met = {i};
  while (!todo.empty() && work <= kLong) {
    const Ins& in = b_.ins_[todo.back()];
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
      if (!b_.ins_[i].inner || kept_.contains(i) || b_.ins_[i].op != KernelOp::kScalar) continue;
      if (only_costly ? !Builder::IsCostly(b_.ins_[i]) : !IsLong(i, place)) continue;
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
    const Ins& store = b_.ins_[root];
    const Builder::Access& a = b_.accesses_[store.access];
    if (a.dtype != b_.ins_[r.instr].type || store.has_offset || store.has_guard || !store.inner || place <= r.first ||
        place < r.last)
      continue;
    bool whole = true;
    for (const Expr& c : a.coef) whole = whole && c != Expr(0);
    if (!whole) continue;
    int users = 0;  // other instructions at that memory
    for (const Ins& in : b_.ins_) {
      if (in.access < 0) continue;
      const Builder::Access& other = b_.accesses_[in.access];
      users += other.is_output && other.output == a.output;
    }
    if (users == 1) return store.access;
  }
  return -1;
}

void Emission::Keep(const Repeated& r, int access) {
  Ins store;
  store.op = KernelOp::kStore;
  store.type = b_.ins_[r.instr].type;
  store.access = access;
  store.operands = {r.instr};
  const int s = b_.Add(std::move(store));
  Ins load;
  load.op = KernelOp::kLoad;
  load.type = b_.ins_[r.instr].type;
  load.access = access;
  const int l = b_.Add(std::move(load));
  b_.color_.resize(b_.ins_.size(), b_.color_[r.instr] ^ 0x5bd1e995);
  kept_[r.instr] = {r.first, l};
  roots_.push_back({s, r.first});
  std::stable_sort(roots_.begin(), roots_.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  Walk();
}

// Returns the parameter of an access, which is made at its first use.
int Emission::ParamOf(int access, int vector_dim, LoweredKernel& out) {
  int& p = param_of_[access];
  if (p >= 0) return p;
  const Builder::Access& a = b_.accesses_[access];
  p = static_cast<int>(out.spec.params.size());
  KernelParam param;
  param.dtype = a.dtype;
  LoweredKernel::Param lowered;
  lowered.value = a.value;
  lowered.is_output = a.is_output;
  lowered.output = a.output;
  lowered.offset = a.offset;
  Expr elements = 1;
  for (int d = 0; d < b_.rank(); ++d) {
    const StrideClass c = b_.ClassOf(a, d);
    const bool is_kept = c == StrideClass::kZero || c == StrideClass::kUnit ||
                         (c == StrideClass::kTwo && b_.IsAcrossLoop(a, d)) ||
                         (d == vector_dim && (c != StrideClass::kBackward || !a.is_output));
    param.strides.push_back(is_kept ? c : StrideClass::kAny);
    lowered.strides.push_back(a.coef[d]);
    if (a.coef[d] != Expr(0)) elements = elements * b_.sizes_[d];
  }
  out.bytes = out.bytes + elements * ItemSize(a.dtype);
  out.spec.params.push_back(std::move(param));
  out.params.push_back(std::move(lowered));
  return p;
}

// Translates everything except its parameter or scalar.
KernelInstr Emission::Translate(int i, int place) const {
  const Ins& in = b_.ins_[i];
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
  spec.parallel_rank = b_.parallel_;
  spec.reduction_rank = b_.rank() - b_.parallel_;
  spec.vector_dim = vector_dim;
  out.sizes = b_.sizes_;
  param_of_.assign(b_.accesses_.size(), -1);
  scalar_of_.assign(b_.scalars_.size(), -1);
  for (auto& [place, list] : places_) {
    // A result may lie in the place of another one's operand: a point is read completely before it is written.
    std::stable_partition(list.begin(), list.end(), [&](int i) { return b_.ins_[i].op != KernelOp::kStore; });
    KernelPhase phase;
    phase.inner = place % 2 == 1;
    for (int i : list) {
      const Ins& in = b_.ins_[i];
      KernelInstr k = Translate(i, place);
      if (in.access >= 0) {
        k.param = ParamOf(in.access, vector_dim, out);
        (in.op == KernelOp::kLoad ? spec.params[k.param].is_read : spec.params[k.param].is_written) = true;
      }
      if (in.op == KernelOp::kScalarParam) {
        int& s = scalar_of_[in.scalar_param];
        if (s < 0) {
          s = static_cast<int>(spec.scalars.size());
          spec.scalars.push_back(b_.scalar_types_[in.scalar_param]);
          out.scalars.push_back(b_.scalars_[in.scalar_param]);
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

LoweredKernel Builder::Emit(bool ordered) {
  const int vector_dim = ChooseVectorDim(ordered);
  Emission emission(*this);
  emission.KeepForLaterPasses();
  return emission.Describe(vector_dim);
}

}  // namespace smelt::kernel

#include "smelt/codegen/equal_values.h"

namespace smelt {
namespace {

bool AreEqual(const KernelInstr& a, const KernelInstr& z, const std::vector<int>& first,
              const std::vector<bool>& written) {
  if (a.op != z.op || a.type != z.type || a.operands.size() != z.operands.size()) return false;
  for (size_t k = 0; k < a.operands.size(); ++k) {
    if (first[a.operands[k]] != first[z.operands[k]]) return false;
  }
  switch (a.op) {
    case KernelOp::kScalar:
      return a.scalar == z.scalar && a.imm == z.imm;
    case KernelOp::kLoad:
      return a.param == z.param && a.has_offset == z.has_offset && a.has_guard == z.has_guard && !written[a.param];
    case KernelOp::kIndex:
    case KernelOp::kScalarParam:
    case KernelOp::kDimSize:
      return a.dim == z.dim;
    default:
      return false;
  }
}

}  // namespace

std::vector<bool> EqualValues(const KernelSpec& spec, int of) {
  const int n = static_cast<int>(spec.instrs.size());
  std::vector<bool> written(spec.params.size(), false);
  for (const KernelInstr& in : spec.instrs) {
    if (in.op == KernelOp::kStore) written[in.param] = true;
  }
  std::vector<bool> wanted(of + 1, false);  // what `of` is made from, and itself
  wanted[of] = true;
  std::vector<int> parts;
  for (int i = of; i >= 0; --i) {
    if (!wanted[i]) continue;
    parts.push_back(i);
    for (int o : spec.instrs[i].operands) wanted[o] = true;
  }
  std::vector<int> first(n);  // the first instruction that is the same, among those that are wanted
  for (int i = 0; i < n; ++i) {
    first[i] = i;
    for (int k : parts) {
      if (k >= i || first[k] != k || !AreEqual(spec.instrs[k], spec.instrs[i], first, written)) continue;
      first[i] = k;
      break;
    }
  }
  std::vector<bool> out(n);
  for (int i = 0; i < n; ++i) out[i] = first[i] == first[of];
  return out;
}

}  // namespace smelt

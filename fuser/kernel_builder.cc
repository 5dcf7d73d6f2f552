#include "smelt/fuser/kernel_builder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "smelt/core/base/check.h"
#include "smelt/fuser/canonical_form.h"
#include "smelt/fuser/emit_kernel.h"

namespace smelt::kernel {
namespace {

void AppendInt(std::string& s, int64_t v) { s.append(reinterpret_cast<const char*>(&v), sizeof v); }

bool IsZero(const Expr& e) { return e == Expr(0); }

}  // namespace

// --- domain ---

void Builder::SetDomain(std::vector<Expr> sizes, int parallel) {
  draft_.sizes = std::move(sizes);
  draft_.parallel = parallel;
}

void Builder::SplitDim(int d, const std::vector<Expr>& sizes) {
  SMELT_CHECK(draft_.ins.empty());
  draft_.sizes.erase(draft_.sizes.begin() + d);
  draft_.sizes.insert(draft_.sizes.begin() + d, sizes.begin(), sizes.end());
  if (d < draft_.parallel) draft_.parallel += static_cast<int>(sizes.size()) - 1;
}

void Builder::SplitIn(Affine& a, int d, const std::vector<Expr>& sizes) {
  const Expr c = a.coef[d];
  std::vector<Expr> parts(sizes.size());
  Expr stride = c;
  for (size_t k = sizes.size(); k-- > 0;) {
    parts[k] = stride;
    stride = stride * sizes[k];
  }
  a.coef.erase(a.coef.begin() + d);
  a.coef.insert(a.coef.begin() + d, parts.begin(), parts.end());
}

// --- indices ---

Affine Builder::Zero() const {
  Affine a;
  a.coef.assign(draft_.sizes.size(), Expr(0));
  return a;
}
Affine Builder::Dim(int d) const {
  Affine a = Zero();
  a.coef[d] = 1;
  return a;
}
Affine Builder::Dynamic(int instr) const {
  Affine a = Zero();
  a.dynamic.push_back({instr, Expr(1)});
  return a;
}

Affine Builder::Add(const Affine& a, const Affine& b) const {
  Affine out = a;
  out.base = out.base + b.base;
  for (size_t d = 0; d < out.coef.size(); ++d) out.coef[d] = out.coef[d] + b.coef[d];
  for (const auto& [i, f] : b.dynamic) {
    auto it =
        std::lower_bound(out.dynamic.begin(), out.dynamic.end(), i, [](const auto& x, int v) { return x.first < v; });
    if (it != out.dynamic.end() && it->first == i) {
      it->second = it->second + f;
      if (it->second == Expr(0)) out.dynamic.erase(it);
    } else {
      out.dynamic.insert(it, {i, f});
    }
  }
  return out;
}

Affine Builder::Scale(const Affine& a, const Expr& factor) const {
  if (factor == Expr(0)) return Zero();
  if (factor == Expr(1)) return a;
  Affine out = a;
  out.base = out.base * factor;
  for (Expr& c : out.coef) c = c * factor;
  for (auto& [i, f] : out.dynamic) f = f * factor;
  return out;
}

bool Builder::UsesReduction(const Affine& a) const {
  if (draft_.ReductionCoef(a.coef)) return true;
  for (const auto& [i, f] : a.dynamic) {
    if (draft_.ins[i].inner) return true;
  }
  return false;
}

int Builder::LoneDim(const Affine& a) const {
  if (a.base != Expr(0) || !a.dynamic.empty()) return -1;
  int found = -1;
  for (size_t d = 0; d < a.coef.size(); ++d) {
    if (a.coef[d] == Expr(0)) continue;
    if (found >= 0 || a.coef[d] != Expr(1)) return -1;
    found = static_cast<int>(d);
  }
  return found;
}

namespace {

// a / b, if that leaves no remainder.
std::optional<Expr> ExactQuotient(const Expr& a, const Expr& b) {
  if (a == b) return Expr(1);
  if (b == Expr(0)) return std::nullopt;
  const Expr q = FloorDiv(a, b);
  if (q * b != a) return std::nullopt;
  return q;
}

}  // namespace

std::optional<std::pair<Affine, Affine>> Builder::Divide(const Affine& a, const Expr& m) const {
  Affine quotient = Zero(), remainder = Zero();
  if (a.base.IsConstant() && m.IsConstant()) {
    quotient.base = FloorDiv(a.base, m);
    remainder.base = a.base - quotient.base * m;
  } else if (auto q = ExactQuotient(a.base, m)) {
    quotient.base = *q;
  } else {
    remainder.base = a.base;
  }
  for (size_t d = 0; d < a.coef.size(); ++d) {
    auto q = ExactQuotient(a.coef[d], m);
    (q ? quotient : remainder).coef[d] = q ? *q : a.coef[d];
  }
  for (const auto& [i, factor] : a.dynamic) {
    auto q = ExactQuotient(factor, m);
    if (!q) return std::nullopt;
    quotient.dynamic.push_back({i, *q});
  }
  const auto [low, high] = Bounds(remainder);
  if (!low || !high || draft_.ranges.AlwaysLessOrEqual(0, *low) != true ||
      draft_.ranges.AlwaysLessOrEqual(*high, m - 1) != true) {
    return std::nullopt;
  }
  return std::make_pair(quotient, remainder);
}

std::optional<std::pair<int, std::vector<Expr>>> Builder::PartsFor(const Affine& a, const Expr& m) const {
  for (size_t d = 0; d < a.coef.size(); ++d) {
    if (a.coef[d] == Expr(0) || ExactQuotient(a.coef[d], m)) continue;
    const auto inner = ExactQuotient(m, a.coef[d]);
    // A reversed dim (flip) is not part of the loop.
    if (!inner || *inner == Expr(1) || draft_.ranges.LessOrEqual(1, *inner) != true) continue;
    const auto outer = ExactQuotient(draft_.sizes[d], *inner);
    if (!outer || *outer == Expr(1) || *outer == Expr(0)) continue;
    return std::make_pair(static_cast<int>(d), std::vector<Expr>{*outer, *inner});
  }
  return std::nullopt;
}

std::pair<std::optional<Expr>, std::optional<Expr>> Builder::Bounds(const Affine& a) const {
  if (!a.dynamic.empty()) return {};
  Expr low = a.base, high = a.base;
  for (size_t d = 0; d < a.coef.size(); ++d) {
    if (a.coef[d] == Expr(0)) continue;
    const SymbolRanges::Range r = draft_.ranges.Of(a.coef[d]);
    if (r.min >= 0) {
      high = high + a.coef[d] * (draft_.sizes[d] - 1);
    } else if (r.max <= 0) {
      low = low + a.coef[d] * (draft_.sizes[d] - 1);
    } else {
      return {};
    }
  }
  return {low, high};
}

int Builder::IndexValue(const Affine& a) {
  int v = -1;
  bool any = a.base != Expr(0);
  for (const Expr& c : a.coef) any = any || c != Expr(0);
  if (any || a.dynamic.empty()) {
    Ins in;
    in.is_affine = true;
    in.type = DType::kInt64;
    for (size_t i = 0; i < draft_.linears.size() && in.affine < 0; ++i) {
      if (draft_.linears[i].base == a.base && draft_.linears[i].coef == a.coef) in.affine = static_cast<int>(i);
    }
    if (in.affine < 0) {
      in.affine = static_cast<int>(draft_.linears.size());
      draft_.linears.push_back({a.base, a.coef});
    }
    v = Share(std::move(in));
  }
  for (const auto& [i, f] : a.dynamic) {
    int term = i;
    if (f == Expr(-1)) {
      term = v >= 0 ? term : Op(ScalarOp::kNeg, DType::kInt64, term);
      v = v >= 0 ? Op(ScalarOp::kSub, DType::kInt64, v, term) : term;
      continue;
    }
    if (f != Expr(1)) term = Op(ScalarOp::kMul, DType::kInt64, term, ExprParam(f));
    v = v < 0 ? term : Op(ScalarOp::kAdd, DType::kInt64, v, term);
  }
  return v;
}

std::pair<Affine, Affine> Builder::ApartFromDim(const Affine& a) const {
  int dim = -1;
  for (int d = 0; d < rank(); ++d) {
    // In a window it is the point that the window slides with.
    if (a.coef[d] == Expr(1) && (dim < 0 || d < draft_.parallel || dim >= draft_.parallel)) dim = d;
    // Dims that could be one loop all stay on one side.
    if (a.coef[d] != Expr(0) && a.coef[d] != Expr(1) && a.coef[d] != Expr(-1)) return {a, Zero()};
  }
  if (dim < 0 || !a.dynamic.empty()) return {a, Zero()};
  return {Dim(dim), Add(a, Scale(Dim(dim), Expr(-1)))};
}

int Builder::LimitValue(const Affine& a) {
  const bool constant =
      a.dynamic.empty() && std::all_of(a.coef.begin(), a.coef.end(), [](const Expr& c) { return c == Expr(0); });
  return constant ? ExprParam(a.base) : IndexValue(a);
}

// --- instructions ---

void Builder::Derive(Ins& in) const {
  for (int o : in.operands) {
    const Ins& x = draft_.ins[o];
    in.inner = in.inner || x.inner;
    in.depth = std::max(in.depth, x.depth + (x.op == KernelOp::kReduce ? 1 : 0));
  }
  if (in.access >= 0) in.inner = in.inner || draft_.ReductionCoef(draft_.accesses[in.access].coef);
  if (in.is_affine) in.inner = in.inner || draft_.ReductionCoef(draft_.linears[in.affine].coef);
  if (in.op == KernelOp::kIndex) in.inner = in.dim >= draft_.parallel;
  if (in.op == KernelOp::kScan) in.inner = true;
  if (in.each && rank() > draft_.parallel) in.inner = true;
  // The loop has written the value that is added to, though its place may be the same for all of the loop.
  if (in.op == KernelOp::kLoad && draft_.accesses[in.access].is_output && rank() > draft_.parallel) in.inner = true;
  if (in.op == KernelOp::kReduce) in.inner = false;
}

int Builder::Append(Ins in) {
  Derive(in);
  draft_.ins.push_back(std::move(in));
  return static_cast<int>(draft_.ins.size()) - 1;
}

std::string Builder::KeyOf(const Ins& in) const {
  std::string s;
  AppendInt(s, static_cast<int>(in.op) | static_cast<int>(in.type) << 8 | static_cast<int>(in.scalar) << 16 |
                   static_cast<int>(in.reduce) << 24);
  AppendInt(s, in.imm.i);
  int64_t bits;
  std::memcpy(&bits, &in.imm.f, sizeof bits);
  AppendInt(s, bits);
  AppendInt(s, in.access);
  AppendInt(s, in.scalar_param);
  AppendInt(s, in.dim);
  AppendInt(s, in.affine);
  AppendInt(s, in.has_offset | in.has_guard << 1 | in.is_affine << 2 | in.each << 3);
  for (int o : in.operands) AppendInt(s, o);
  return s;
}

int Builder::Share(Ins in) {
  auto [it, fresh] = shared_.try_emplace(KeyOf(in), -1);
  if (fresh) it->second = Append(std::move(in));
  return it->second;
}

int Builder::AddAgain(Ins in) {
  in.inner = false;
  in.depth = 0;
  if (in.op == KernelOp::kStore) {
    draft_.stores.push_back(Append(std::move(in)));
    return draft_.stores.back();
  }
  if (in.op == KernelOp::kScalarParam) return Append(std::move(in));
  if (draft_.Commutes(in) && draft_.IsToBeSwapped(in, in.operands[0] > in.operands[1]))
    std::swap(in.operands[0], in.operands[1]);
  return Share(std::move(in));
}

int Builder::Const(DType t, double v) {
  Ins in;
  in.type = t;
  in.imm.f = v;
  return Share(std::move(in));
}
int Builder::ConstInt(DType t, int64_t v) {
  Ins in;
  in.type = t;
  in.imm.i = v;
  return Share(std::move(in));
}

int Builder::Op(ScalarOp op, DType t, int a, int b, int c) {
  // Without NaN, and without a sign bit of its own, this is the plain operation.
  if (!IsFloating(draft_.ins[a].type)) {
    if (op == ScalarOp::kFMin) op = ScalarOp::kMin;
    if (op == ScalarOp::kFMax) op = ScalarOp::kMax;
    if (op == ScalarOp::kSignbit) return Op(ScalarOp::kLt, DType::kBool, a, ConstInt(draft_.ins[a].type, 0));
  }
  Ins in;
  in.scalar = op;
  in.type = t;
  for (int x : {a, b, c}) {
    if (x >= 0) in.operands.push_back(x);
  }
  if (draft_.Commutes(in) && draft_.IsToBeSwapped(in, in.operands[0] > in.operands[1]))
    std::swap(in.operands[0], in.operands[1]);
  return Share(std::move(in));
}

int Builder::Cast(int a, DType t) {
  if (draft_.ins[a].type == t) return a;
  return Op(ScalarOp::kCast, t, a);
}

std::vector<int> Builder::Inline(const ScalarFn& fn, const std::vector<int>& args) {
  std::vector<int> at(fn.instrs.size(), -1);
  for (size_t i = 0; i < fn.instrs.size(); ++i) {
    const ScalarInstr& s = fn.instrs[i];
    if (s.op == ScalarOp::kArg) {
      at[i] = args[s.imm.i];
      continue;
    }
    if (s.op == ScalarOp::kConst) {
      Ins in;
      in.type = s.type;
      in.imm = s.imm;
      at[i] = Share(std::move(in));
      continue;
    }
    auto operand = [&](int k) { return s.operands[k] < 0 ? -1 : at[s.operands[k]]; };
    if (s.op == ScalarOp::kCast) {
      at[i] = Cast(operand(0), s.type);
      continue;
    }
    at[i] = Op(s.op, s.type, operand(0), operand(1), operand(2));
  }
  std::vector<int> out;
  for (int r : fn.results) out.push_back(at[r]);
  return out;
}

int Builder::ScalarParam(DType t, LoweredKernel::Scalar s) {
  Ins in;
  in.op = KernelOp::kScalarParam;
  in.type = t;
  in.scalar_param = static_cast<int>(draft_.scalars.size());
  draft_.scalars.push_back(std::move(s));
  draft_.scalar_types.push_back(t);
  return Append(std::move(in));
}

int Builder::ExprParam(const Expr& e) {
  if (e == Expr(0)) return ConstInt(DType::kInt64, 0);
  LoweredKernel::Scalar s;
  s.is_expr = true;
  s.expr = e;
  return ScalarParam(DType::kInt64, std::move(s));
}

std::pair<int, int> Builder::Address(ValueId value, bool is_output, int output, const SymbolicGeometry& layout,
                                     const Index& index) {
  SMELT_CHECK_EQ(index.size(), layout.strides.size());
  Affine a = Zero();
  a.base = layout.offset;
  for (size_t k = 0; k < index.size(); ++k) a = Add(a, Scale(index[k], layout.strides[k]));
  Affine dynamic = Zero();
  dynamic.dynamic = std::move(a.dynamic);
  const int offset = dynamic.dynamic.empty() ? -1 : IndexValue(dynamic);
  for (size_t i = 0; i < draft_.accesses.size(); ++i) {
    const Access& x = draft_.accesses[i];
    if (x.value == value && x.is_output == is_output && x.output == output && x.dtype == layout.dtype &&
        x.offset == a.base && x.coef == a.coef) {
      return {static_cast<int>(i), offset};
    }
  }
  // It is one element, and an element of the layout: a read that its guard never allows may be at any place.
  bool is_there = offset < 0;
  for (size_t k = 0; is_there && k < index.size(); ++k) {
    is_there = draft_.ranges.AlwaysLessOrEqual(1, layout.sizes[k]) == true;
    if (IsZero(layout.strides[k])) continue;
    is_there = is_there && std::all_of(index[k].coef.begin(), index[k].coef.end(), IsZero) &&
               draft_.ranges.AlwaysLessOrEqual(0, index[k].base) == true &&
               draft_.ranges.AlwaysLessOrEqual(index[k].base + 1, layout.sizes[k]) == true;
  }
  draft_.accesses.push_back({value, is_output, output, layout.dtype, a.base, a.coef, is_there});
  return {static_cast<int>(draft_.accesses.size()) - 1, offset};
}

int Builder::Load(int access, int offset, int guard) {
  if (draft_.accesses[access].is_there) guard = -1;
  Ins in;
  in.op = KernelOp::kLoad;
  in.type = draft_.accesses[access].dtype;
  in.access = access;
  if (offset >= 0) in.operands.push_back(offset);
  if (guard >= 0) in.operands.push_back(guard);
  in.has_offset = offset >= 0;
  in.has_guard = guard >= 0;
  if (in.has_guard) {
    // A value that is read everywhere is read here.
    Ins everywhere = in;
    everywhere.operands.pop_back();
    everywhere.has_guard = false;
    if (const auto it = shared_.find(KeyOf(everywhere)); it != shared_.end()) return it->second;
  }
  return Share(std::move(in));
}

void Builder::Store(int access, int value, int offset, int guard) {
  Ins in;
  in.op = KernelOp::kStore;
  in.type = draft_.accesses[access].dtype;
  in.access = access;
  in.operands.push_back(value);
  if (offset >= 0) in.operands.push_back(offset);
  if (guard >= 0) in.operands.push_back(guard);
  in.has_offset = offset >= 0;
  in.has_guard = guard >= 0;
  in.each = each_;
  draft_.stores.push_back(Append(std::move(in)));
}

int Builder::Reduce(ReduceKind kind, int value, int index, bool scan) {
  Ins in;
  in.op = scan ? KernelOp::kScan : KernelOp::kReduce;
  in.type = draft_.ins[value].type;
  in.reduce = kind;
  in.operands.push_back(value);
  if (index >= 0) {
    in.operands.push_back(index);
    in.type = DType::kInt64;
  }
  return Share(std::move(in));
}

int Builder::CheckIndex(int index, int size) {
  Ins in;
  in.op = KernelOp::kCheckIndex;
  in.type = DType::kInt64;
  in.operands = {index, size};
  in.each = each_;
  return Share(std::move(in));
}

std::vector<Builder::Ins> Builder::TakeInstructions() {
  std::vector<Ins> old = std::move(draft_.ins);
  draft_.ins.clear();
  draft_.stores.clear();
  shared_.clear();
  return old;
}

LoweredKernel Builder::Finish(bool ordered) {
  PutInCanonicalForm(*this, ordered);
  return EmitKernel(*this, ordered);
}

}  // namespace smelt::kernel

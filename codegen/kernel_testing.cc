#include "smelt/codegen/kernel_testing.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "smelt/codegen/cpu_features.h"
#include "smelt/core/base/check.h"
#include "smelt/core/op/scalar_memory.h"
#include "smelt/fuser/kernel_interpreter.h"

namespace smelt {

KernelSpec ParseOrDie(absl::string_view text) {
  absl::StatusOr<KernelSpec> spec = ParseKernelSpec(text);
  SMELT_CHECK_OK(spec.status());
  return *std::move(spec);
}

namespace {

constexpr DType kTypes[] = {DType::kBool,  DType::kUInt8,   DType::kInt8,     DType::kInt16,   DType::kInt32,
                            DType::kInt64, DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};

void PutElement(DType t, double v, uint8_t* at) {
  ScalarValue value;
  if (IsFloating(t)) {
    value.f = v;
  } else {
    value.i = t == DType::kBool ? v != 0 : static_cast<int64_t>(v);
  }
  StoreScalar(t, value, at);
}

class CaseMaker {
 public:
  explicit CaseMaker(std::mt19937_64& rng) : rng_(rng) {}

  RandomCase Make() {
    KernelSpec& s = c_.spec;
    s.parallel_rank = Pick({0, 1, 1, 2, 2, 3});
    s.reduction_rank = Pick({0, 0, 1, 1, 2});
    if (s.rank() == 0) s.parallel_rank = 1;
    const int p = s.parallel_rank, q = s.reduction_rank;
    std::vector<int> dims = {-1};
    for (int k = 0; k < 4; ++k) {
      if (p) dims.push_back(p - 1);
      if (q) dims.push_back(p + q - 1);
    }
    s.vector_dim = dims[Below(dims.size())];
    s.sequential = Below(12) == 0;
    for (int d = 0; d < s.rank(); ++d) {
      const bool large = d == s.vector_dim;
      c_.launch.sizes.push_back(large ? Pick({0, 1, 3, 7, 16, 31, 64, 100, 133, 257, 700})
                                      : Pick({0, 1, 2, 3, 4, 5, 7, 17}));
      if (c_.launch.sizes.back() == 0 && Below(3)) c_.launch.sizes.back() = 5;
      // Occasionally large enough for tiles of transposed operands and for reductions over many rows.
      if (!large && Below(10) == 0 && d + 1 != s.parallel_rank - 1)
        c_.launch.sizes.back() = Pick({33, 64, 70, 150, 209});
    }
    // The interpreter visits every point.
    int64_t points = 1;
    for (int64_t& n : c_.launch.sizes) {
      if (points * n > 200000) n = 5;
      points *= std::max<int64_t>(n, 1);
    }
    const int scalars = Below(3);
    for (int k = 0; k < scalars; ++k) {
      s.scalars.push_back(kTypes[Below(std::size(kTypes))]);
      double v = static_cast<double>(Below(9)) - 4;
      int64_t word = static_cast<int64_t>(v);
      if (IsFloating(s.scalars.back())) std::memcpy(&word, &v, 8);
      c_.launch.scalars.push_back(word);
    }
    // Phases: sometimes an outer one, inner ones with reductions if there are reduction dims, a last one that stores.
    if (q == 0) {
      Phase(false, true);
    } else {
      if (Below(2)) Phase(false, false);
      const int inner = 1 + static_cast<int>(Below(2));
      for (int k = 0; k < inner; ++k) Phase(true, Below(3) == 0);
      if (Below(2)) {
        Phase(true, true);
      } else {
        Phase(false, true);
      }
    }
    return std::move(c_);
  }

 private:
  uint64_t Below(uint64_t n) { return rng_() % n; }
  int Pick(std::initializer_list<int> list) { return list.begin()[Below(list.size())]; }

  int Add(KernelInstr in) {
    c_.spec.instrs.push_back(std::move(in));
    const int i = static_cast<int>(c_.spec.instrs.size()) - 1;
    c_.spec.phases.back().instrs.push_back(i);
    return i;
  }
  int Scalar(ScalarOp op, DType t, std::vector<int> operands) {
    KernelInstr in;
    in.op = KernelOp::kScalar;
    in.scalar = op;
    in.type = t;
    in.operands = std::move(operands);
    if (op == ScalarOp::kMin || op == ScalarOp::kMax || op == ScalarOp::kFMin || op == ScalarOp::kFMax) {
      c_.zeros_may_differ = true;
    }
    return Add(std::move(in));
  }
  DType TypeOf(int i) const { return c_.spec.instrs[i].type; }
  int Const(DType t, double v) {
    KernelInstr in;
    in.op = KernelOp::kScalar;
    in.scalar = ScalarOp::kConst;
    in.type = t;
    if (IsFloating(t)) {
      in.imm.f = v;
    } else {
      in.imm.i = static_cast<int64_t>(v);
      if (t == DType::kBool) in.imm.i = v != 0;
      if (t == DType::kUInt8) in.imm.i = static_cast<uint8_t>(in.imm.i);
    }
    return Add(std::move(in));
  }

  // A param over the dims that `uses` names; returns its number.
  int Param(DType t, bool written, bool outer_only, bool cut_one) {
    const KernelSpec& s = c_.spec;
    const int rank = s.rank();
    KernelParam p;
    p.dtype = t;
    p.is_read = !written;
    p.is_written = written;
    p.strides.assign(rank, StrideClass::kZero);
    std::vector<int64_t> strides(rank, 0);
    std::vector<int> order;
    for (int d = 0; d < (outer_only ? s.parallel_rank : rank); ++d) {
      if (written || Below(5)) order.push_back(d);
    }
    // Outputs must not have two elements at the same address; any order of dims.
    if (Below(2)) std::shuffle(order.begin(), order.end(), rng_);
    int64_t span = 1;
    const bool unit = Below(4) != 0;
    for (size_t k = order.size(); k-- > 0;) {
      const int d = order[k];
      const int64_t n = std::max<int64_t>(c_.launch.sizes[d], 1);
      int64_t stride = span;
      if (k + 1 == order.size() && !unit) stride = 2 + Below(3);
      if (k + 1 != order.size() && Below(3) == 0) stride += Below(4);
      p.strides[d] = stride == 1 && k + 1 == order.size() && unit ? StrideClass::kUnit : StrideClass::kAny;
      for (StrideClass c : {StrideClass::kTwo, StrideClass::kThree, StrideClass::kFour}) {
        if (stride == ElementsApart(c) && d == s.vector_dim && Below(2)) p.strides[d] = c;
      }
      if (!written && p.strides[d] == StrideClass::kAny && Below(8) == 0) stride = 0;
      strides[d] = stride;
      span = std::max<int64_t>(span, stride * (n - 1) + span);
    }
    int64_t origin = 0;
    int64_t last = 0;
    bool empty = false;
    for (int d = 0; d < rank; ++d) {
      int64_t n = c_.launch.sizes[d];
      if (n == 0 && (d < s.parallel_rank || !outer_only)) empty = true;
      if (cut_one && d == s.vector_dim) n = std::max<int64_t>(n - 1, 0);
      if (n == 0 && strides[d]) empty = true;
      // Occasionally a reversed dim.
      const bool may_turn = p.strides[d] == StrideClass::kAny ||
                            (p.strides[d] == StrideClass::kUnit && d == s.vector_dim && !written && n > 1);
      if (may_turn && strides[d] && !cut_one && Below(8) == 0 && n) {
        if (p.strides[d] == StrideClass::kUnit) p.strides[d] = StrideClass::kBackward;
        origin += strides[d] * (n - 1);
        last += strides[d] * (n - 1);
        strides[d] = -strides[d];
        continue;
      }
      last += std::max<int64_t>(strides[d], 0) * std::max<int64_t>(n - 1, 0);
    }
    p.alias_class = Below(2) ? -1 : static_cast<int>(s.params.size());
    c_.spec.params.push_back(p);
    c_.launch.strides.push_back(strides);
    c_.launch.elements.push_back(empty ? 0 : last + 1);
    c_.launch.origin.push_back(empty ? 0 : origin);
    std::vector<uint8_t> contents(c_.launch.elements.back() * ItemSize(t));
    for (int64_t i = 0; i < c_.launch.elements.back(); ++i) PutElement(t, RandomValue(t), &contents[i * ItemSize(t)]);
    c_.launch.contents.push_back(std::move(contents));
    return static_cast<int>(c_.spec.params.size()) - 1;
  }
  double RandomValue(DType t) {
    if (t == DType::kBool) return static_cast<double>(Below(2));
    if (t == DType::kUInt8) return static_cast<double>(Below(9));
    return static_cast<double>(Below(9)) - 4;
  }

  KernelInstr LoadOf(int param) {
    KernelInstr in;
    in.op = KernelOp::kLoad;
    in.type = c_.spec.params[param].dtype;
    in.param = param;
    return in;
  }
  int Index(int dim) {
    KernelInstr in;
    in.op = KernelOp::kIndex;
    in.type = DType::kInt64;
    in.dim = dim;
    return Add(std::move(in));
  }

  // Makes a value to start from: a load of some kind, an index, a scalar.
  int Leaf(bool inner) {
    const KernelSpec& s = c_.spec;
    const int dims = inner ? s.rank() : s.parallel_rank;
    const int kind = static_cast<int>(Below(10));
    if (kind == 0 && dims) return Index(static_cast<int>(Below(dims)));
    if (kind == 1 && !s.scalars.empty()) {
      KernelInstr in;
      in.op = KernelOp::kScalarParam;
      in.dim = static_cast<int>(Below(s.scalars.size()));
      in.type = s.scalars[in.dim];
      return Add(std::move(in));
    }
    const DType t = kTypes[Below(std::size(kTypes))];
    if (kind == 2 && (inner || s.vector_dim == s.parallel_rank - 1) && s.vector_dim >= 0 && dims > s.vector_dim) {
      // Guarded: the last index along the vector dim is not in memory.
      const int param = Param(t, false, !inner, /*cut_one=*/true);
      KernelInstr size;
      size.op = KernelOp::kDimSize;
      size.type = DType::kInt64;
      size.dim = s.vector_dim;
      const int n = Add(std::move(size));
      const int one = Const(DType::kInt64, 1);
      const int bound = Scalar(ScalarOp::kSub, DType::kInt64, {n, one});
      const int index = Index(s.vector_dim);
      KernelInstr in = LoadOf(param);
      in.operands = {Scalar(ScalarOp::kLt, DType::kBool, {index, bound})};
      in.has_guard = true;
      return Add(std::move(in));
    }
    if (kind == 3 || kind == 4) {
      // Loads through an index tensor, with some indices out of range and sometimes with a guard.
      const int index_param = Param(DType::kInt64, false, !inner, false);
      const int raw = Add(LoadOf(index_param));
      const int bound = Const(DType::kInt64, Below(4) ? 4 : 3);  // values are in [-4, 4]
      KernelInstr check;
      check.op = KernelOp::kCheckIndex;
      check.type = DType::kInt64;
      check.operands = {raw, bound};
      const int index = Add(std::move(check));
      KernelParam p;
      p.dtype = t;
      p.is_read = true;
      p.strides.assign(s.rank(), StrideClass::kZero);
      p.alias_class = -1;
      c_.spec.params.push_back(p);
      c_.launch.strides.emplace_back(s.rank(), 0);
      c_.launch.elements.push_back(4);
      c_.launch.origin.push_back(0);
      std::vector<uint8_t> contents(4 * ItemSize(t));
      for (int i = 0; i < 4; ++i) PutElement(t, RandomValue(t), &contents[i * ItemSize(t)]);
      c_.launch.contents.push_back(std::move(contents));
      KernelInstr in = LoadOf(static_cast<int>(c_.spec.params.size()) - 1);
      in.operands = {index};
      in.has_offset = true;
      if (Below(2)) {
        const int two = Const(DType::kInt64, 2);
        in.operands.push_back(Scalar(ScalarOp::kLt, DType::kBool, {index, two}));
        in.has_guard = true;
      }
      return Add(std::move(in));
    }
    return Add(LoadOf(Param(t, false, !inner, false)));
  }

  int Cast(int v, DType t) { return TypeOf(v) == t ? v : Scalar(ScalarOp::kCast, t, {v}); }

  void Phase(bool inner, bool stores) {
    c_.spec.phases.emplace_back();
    c_.spec.phases.back().inner = inner;
    // Scratch values of earlier inner phases are gone.
    std::vector<int> values = carried_;
    const int leaves = 1 + static_cast<int>(Below(3));
    for (int k = 0; k < leaves; ++k) values.push_back(Leaf(inner));
    const int ops = static_cast<int>(Below(6));
    for (int k = 0; k < ops; ++k) values.push_back(RandomOp(values));
    if (inner) {
      const int reductions = static_cast<int>(Below(3)) + (stores ? 0 : 1);
      for (int k = 0; k < reductions; ++k) {
        const bool scan = Below(5) == 0;
        const int r = Reduction(values, scan);
        (scan ? values : carried_).push_back(r);
      }
    } else {
      carried_ = values;
    }
    if (stores) {
      const int count = 1 + static_cast<int>(Below(2));
      for (int k = 0; k < count; ++k) Store(values, inner);
    }
  }

  int Reduction(const std::vector<int>& values, bool scan) {
    int v = values[Below(values.size())];
    KernelInstr in;
    in.op = scan ? KernelOp::kScan : KernelOp::kReduce;
    if (IsHalf(TypeOf(v))) v = Cast(v, DType::kFloat32);
    if (TypeOf(v) == DType::kBool) {
      in.reduce = Below(2) ? ReduceKind::kAnd : ReduceKind::kOr;
    } else {
      in.reduce = static_cast<ReduceKind>(Below(6));
    }
    if (IsFloating(TypeOf(v)) && (in.reduce == ReduceKind::kSum || in.reduce == ReduceKind::kProd)) {
      // Small integers, so that any order is exact; a product only of signs.
      v = Cast(Cast(v, DType::kInt8), TypeOf(v));
      if (in.reduce == ReduceKind::kProd) {
        const int zero = Const(TypeOf(v), 0), one = Const(TypeOf(v), 1), minus = Const(TypeOf(v), -1);
        const int less = Scalar(ScalarOp::kLt, DType::kBool, {v, zero});
        v = Scalar(ScalarOp::kSelect, TypeOf(v), {less, minus, one});
      }
    }
    in.type = TypeOf(v);
    in.operands = {v};
    if (in.reduce == ReduceKind::kArgMin || in.reduce == ReduceKind::kArgMax) {
      in.operands.push_back(Index(c_.spec.rank() - 1));
      in.type = DType::kInt64;
    }
    if (in.reduce >= ReduceKind::kMin && in.reduce <= ReduceKind::kMax) c_.zeros_may_differ = true;
    return Add(std::move(in));
  }

  void Store(const std::vector<int>& values, bool inner) {
    int v = values[Below(values.size())];
    const DType t = kTypes[Below(std::size(kTypes))];
    v = Cast(v, t);
    const int param = Param(t, true, !inner, false);
    KernelInstr in;
    in.op = KernelOp::kStore;
    in.type = t;
    in.param = param;
    in.operands = {v};
    if (Below(5) == 0) {
      in.operands.push_back(Const(DType::kInt64, 0));
      in.has_offset = true;
    }
    if (Below(5) == 0) {
      const int truth = Cast(values[Below(values.size())], DType::kBool);
      in.operands.push_back(truth);
      in.has_guard = true;
    }
    Add(std::move(in));
    if (Below(4) == 0) {
      // In place: the previous value becomes part of the stored value.
      KernelInstr& last = c_.spec.instrs.back();
      if (!last.has_offset && !IsHalf(t) && t != DType::kBool) {
        c_.spec.params[param].is_read = true;
        KernelInstr store = last;
        c_.spec.instrs.pop_back();
        c_.spec.phases.back().instrs.pop_back();
        const int old = Add(LoadOf(param));
        store.operands[0] = Scalar(ScalarOp::kAdd, t, {old, store.operands[0]});
        Add(std::move(store));
      }
    }
  }

  int RandomOp(const std::vector<int>& values) {
    auto any = [&] { return values[Below(values.size())]; };
    int a = any();
    if (IsHalf(TypeOf(a))) a = Cast(a, DType::kFloat32);
    const DType t = TypeOf(a);
    if (Below(4) == 0) return Cast(a, kTypes[Below(std::size(kTypes))]);
    int b = Cast(any(), t);
    if (t == DType::kBool) {
      static constexpr ScalarOp kOps[] = {ScalarOp::kAnd, ScalarOp::kOr,  ScalarOp::kXor, ScalarOp::kEq,
                                          ScalarOp::kNe,  ScalarOp::kMin, ScalarOp::kMax, ScalarOp::kLt,
                                          ScalarOp::kAdd, ScalarOp::kMul};
      if (Below(6) == 0) return Scalar(ScalarOp::kNot, t, {a});
      return Scalar(kOps[Below(std::size(kOps))], t, {a, b});
    }
    if (Below(5) == 0) {
      const int c = Cast(any(), DType::kBool);
      return Scalar(ScalarOp::kSelect, t, {c, a, b});
    }
    if (Below(6) == 0) {
      const int op = static_cast<int>(ScalarOp::kEq) + static_cast<int>(Below(6));
      return Scalar(static_cast<ScalarOp>(op), DType::kBool, {a, b});
    }
    if (IsFloating(t)) {
      static constexpr ScalarOp kUnary[] = {ScalarOp::kNeg,   ScalarOp::kAbs,   ScalarOp::kFloor, ScalarOp::kCeil,
                                            ScalarOp::kTrunc, ScalarOp::kRound, ScalarOp::kSqrt};
      static constexpr ScalarOp kTests[] = {ScalarOp::kIsNan, ScalarOp::kIsInf, ScalarOp::kSignbit};
      static constexpr ScalarOp kBinary[] = {ScalarOp::kAdd,      ScalarOp::kSub,      ScalarOp::kMul,
                                             ScalarOp::kDiv,      ScalarOp::kMin,      ScalarOp::kMax,
                                             ScalarOp::kFMin,     ScalarOp::kFMax,     ScalarOp::kCopysign,
                                             ScalarOp::kRemTrunc, ScalarOp::kRemFloor, ScalarOp::kNextAfter};
      const int kind = static_cast<int>(Below(8));
      if (kind == 0) {
        // The sign of a NaN is undefined.
        const ScalarOp op = kTests[Below(3)];
        if (op != ScalarOp::kSignbit) return Scalar(op, DType::kBool, {a});
        const int nan = Scalar(ScalarOp::kIsNan, DType::kBool, {a});
        const int one = Const(t, 1);
        return Scalar(op, DType::kBool, {Scalar(ScalarOp::kSelect, t, {nan, one, a})});
      }
      if (kind < 3) return Scalar(kUnary[Below(std::size(kUnary))], t, {a});
      const ScalarOp op = kBinary[Below(std::size(kBinary))];
      if (op == ScalarOp::kCopysign) {
        const int nan = Scalar(ScalarOp::kIsNan, DType::kBool, {b});
        b = Scalar(ScalarOp::kSelect, t, {nan, a, b});
        return Scalar(op, t, {Scalar(ScalarOp::kSelect, t, {nan, b, a}), Const(t, 1)});
      }
      return Scalar(op, t, {a, b});
    }
    static constexpr ScalarOp kBinary[] = {
        ScalarOp::kAdd,      ScalarOp::kSub,      ScalarOp::kMul, ScalarOp::kDivTrunc, ScalarOp::kDivFloor,
        ScalarOp::kRemTrunc, ScalarOp::kRemFloor, ScalarOp::kMin, ScalarOp::kMax,      ScalarOp::kAnd,
        ScalarOp::kOr,       ScalarOp::kXor,      ScalarOp::kShl, ScalarOp::kShr,      ScalarOp::kPow};
    static constexpr ScalarOp kUnary[] = {ScalarOp::kNeg, ScalarOp::kAbs, ScalarOp::kNot};
    if (Below(5) == 0) return Scalar(kUnary[Below(3)], t, {a});
    return Scalar(kBinary[Below(std::size(kBinary))], t, {a, b});
  }

  std::mt19937_64& rng_;
  RandomCase c_;
  std::vector<int> carried_;
};

}  // namespace

RandomCase MakeRandomCase(std::mt19937_64& rng) { return CaseMaker(rng).Make(); }

std::vector<std::shared_ptr<Storage>> MakeBuffers(const KernelSpec& spec, const Launch& launch, Guard guard) {
  std::vector<std::shared_ptr<Storage>> buffers;
  for (size_t p = 0; p < spec.params.size(); ++p) {
    auto storage = GuardedStorage(static_cast<int64_t>(launch.contents[p].size()), guard);
    SMELT_CHECK(storage.ok()) << storage.status();
    buffers.push_back(*std::move(storage));
    if (!launch.contents[p].empty()) {
      std::memcpy(buffers.back()->data(), launch.contents[p].data(), launch.contents[p].size());
    }
  }
  return buffers;
}

std::vector<int64_t> MakeWords(const KernelSpec& spec, const Launch& launch,
                               const std::vector<std::shared_ptr<Storage>>& buffers) {
  std::vector<int64_t> words = launch.sizes;
  for (size_t p = 0; p < spec.params.size(); ++p) {
    words.push_back(reinterpret_cast<int64_t>(buffers[p]->data()) + launch.origin[p] * ItemSize(spec.params[p].dtype));
    for (int d = 0; d < spec.rank(); ++d) {
      if (spec.params[p].strides[d] == StrideClass::kAny) words.push_back(launch.strides[p][d]);
    }
  }
  words.insert(words.end(), launch.scalars.begin(), launch.scalars.end());
  SMELT_CHECK_EQ(static_cast<int64_t>(words.size()), spec.num_words());
  return words;
}

namespace {

double ReadDouble(DType t, const char* at) {
  auto as = [&](auto x) {
    std::memcpy(&x, at, sizeof x);
    return x;
  };
  switch (t) {
    case DType::kFloat16: {
      const uint16_t h = as(uint16_t{});
      if ((h & 0x7c00) == 0x7c00) return h & 0x3ff ? NAN : h & 0x8000 ? -INFINITY : INFINITY;
      return h & 0x7fff ? h : (h & 0x8000 ? -0.0 : 0.0);  // bits do, but for NaN and 0
    }
    case DType::kBFloat16: {
      const uint32_t bits = static_cast<uint32_t>(as(uint16_t{})) << 16;
      float f;
      std::memcpy(&f, &bits, 4);
      return f;
    }
    case DType::kFloat32:
      return as(float{});
    case DType::kFloat64:
      return as(double{});
    default:
      return 0;
  }
}

std::string CompareHinted(const RandomCase& c, KernelEntry entry, Guard guard, int parts, int64_t hints) {
  auto expected = MakeBuffers(c.spec, c.launch, guard);
  auto actual = MakeBuffers(c.spec, c.launch, guard);
  std::vector<int64_t> expected_words = MakeWords(c.spec, c.launch, expected);
  std::vector<int64_t> words = MakeWords(c.spec, c.launch, actual);
  const int64_t tiles = NumTiles(c.spec, words.data());
  int64_t expected_status = 0, status[2] = {0, hints};
  SMELT_CHECK_OK(InterpretKernel(c.spec, expected_words.data(), 0, tiles, &expected_status));
  if (c.spec.sequential) parts = 1;
  for (int k = 0; k < parts; ++k) entry(words.data(), tiles * k / parts, tiles * (k + 1) / parts, status);
  if ((status[0] != 0) != (expected_status != 0)) {
    return absl::StrCat("status ", status[0], ", expected ", expected_status);
  }
  for (size_t p = 0; p < c.spec.params.size(); ++p) {
    const DType t = c.spec.params[p].dtype;
    const int item = ItemSize(t);
    for (int64_t i = 0; i < c.launch.elements[p]; ++i) {
      const char* want = expected[p]->data() + i * item;
      const char* have = actual[p]->data() + i * item;
      if (std::memcmp(want, have, item) == 0) continue;
      if (IsFloating(t)) {
        const double w = ReadDouble(t, want), h = ReadDouble(t, have);
        if (std::isnan(w) && std::isnan(h)) continue;
        if (c.zeros_may_differ && w == 0 && h == 0) continue;
        return absl::StrCat("param ", p, " element ", i, ": ", h, ", expected ", w);
      }
      int64_t w = 0, h = 0;
      std::memcpy(&w, want, item);
      std::memcpy(&h, have, item);
      return absl::StrCat("param ", p, " element ", i, ": ", h, ", expected ", w);
    }
  }
  return "";
}

}  // namespace

std::string CompareWithInterpreter(const RandomCase& c, KernelEntry entry, Guard guard, int parts) {
  std::string difference = CompareHinted(c, entry, guard, parts, 0);
  if (!difference.empty()) return difference;
  // Past a cache of 1 KiB go results of few elements.
  constexpr int64_t kSmallCache = int64_t{1} << kLastCacheShift;
  return CompareHinted(c, entry, guard, parts, kGathersWell | kAskAhead | kReadsAlone | kSmallCache);
}

Launch DenseLaunch(const KernelSpec& spec, std::vector<int64_t> sizes, std::mt19937_64& rng) {
  Launch launch;
  launch.sizes = std::move(sizes);
  std::uniform_real_distribution<double> uniform(-4, 4);
  for (const KernelParam& p : spec.params) {
    std::vector<int64_t> strides(spec.rank(), 0);
    int64_t n = 1, origin = 0;
    // The dims that a class determines are innermost, and the others keep their order.
    for (int pass : {0, 1}) {
      for (int d = spec.rank() - 1; d >= 0; --d) {
        const int64_t apart = ElementsApart(p.strides[d]);
        if (apart == 0 || (apart == kAnyApart) != (pass == 1)) continue;
        strides[d] = pass ? n : apart;
        if (!pass) n *= std::abs(apart);
        if (apart < 0 && !pass) origin += std::max<int64_t>(launch.sizes[d] - 1, 0);
        n *= launch.sizes[d];
      }
    }
    // Up to the last element, after which there may be no memory.
    for (int d = 0; d < spec.rank(); ++d) {
      if (ElementsApart(p.strides[d]) >= 2 && n > 0) n -= strides[d] - 1;
    }
    launch.strides.push_back(strides);
    launch.elements.push_back(n);
    launch.origin.push_back(n > 0 ? origin : 0);
    std::vector<uint8_t> contents(n * ItemSize(p.dtype));
    for (int64_t i = 0; i < n; ++i) PutElement(p.dtype, uniform(rng), &contents[i * ItemSize(p.dtype)]);
    launch.contents.push_back(std::move(contents));
  }
  for (DType t : spec.scalars) {
    const double v = 1;
    int64_t word = 1;
    if (IsFloating(t)) std::memcpy(&word, &v, 8);
    launch.scalars.push_back(word);
  }
  return launch;
}

}  // namespace smelt

#include "smelt/runtime/eager_views.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/tensor/decide.h"
#include "smelt/core/tensor/view_op.h"
#include "smelt/core/tensor/view_rules.h"
#include "smelt/runtime/memory_limit.h"
#include "smelt/runtime/strided.h"

namespace smelt {
namespace {

// No program means so many. Products of sizes stay far from overflow.
constexpr int64_t kMaxElements = int64_t{1} << 40;

class Arguments : public ViewArguments<ConcreteDecide> {
 public:
  explicit Arguments(absl::Span<const PythonValue> args) : args_(args) {}

  bool IsNone(size_t i) const override { return i >= args_.size() || args_[i].IsNone(); }
  bool IsList(size_t i) const override { return i < args_.size() && args_[i].IsList(); }
  absl::StatusOr<int64_t> Int(size_t i) const override { return Number(i); }
  absl::StatusOr<std::vector<int64_t>> Ints(size_t i) const override { return Numbers(i); }
  absl::StatusOr<int64_t> Number(size_t i) const override {
    SMELT_RETURN_IF_ERROR(Check(i));
    return args_[i].AsInt();
  }
  absl::StatusOr<std::vector<int64_t>> Numbers(size_t i) const override {
    SMELT_RETURN_IF_ERROR(Check(i));
    return args_[i].AsInts();
  }
  absl::StatusOr<std::vector<int64_t>> SizesOfTensor(size_t i) const override {
    SMELT_RETURN_IF_ERROR(Check(i));
    SMELT_ASSIGN_OR_RETURN(const Tensor t, args_[i].AsTensor());
    return std::vector<int64_t>(t.sizes().begin(), t.sizes().end());
  }
  absl::StatusOr<DType> AsDType(size_t i) const override {
    SMELT_ASSIGN_OR_RETURN(const int64_t code, Number(i));
    const std::optional<DType> dtype = DTypeFromScalarType(code);
    if (!dtype) return absl::UnimplementedError(absl::StrCat("a view of scalar type ", code));
    return *dtype;
  }

  absl::StatusOr<Tensor> TensorAt(size_t i) const {
    SMELT_RETURN_IF_ERROR(Check(i));
    return args_[i].AsTensor();
  }

 private:
  absl::Status Check(size_t i) const {
    return i < args_.size() ? absl::OkStatus()
                            : absl::FailedPreconditionError(absl::StrCat("argument ", i, " is missing"));
  }

  absl::Span<const PythonValue> args_;
};

// Returns a view of the base's storage, which must hold it.
absl::StatusOr<Tensor> Over(const Tensor& base, Geometry made, DType dtype) {
  int64_t elements = 1;
  for (int64_t n : made.sizes) {
    if (n < 0 || __builtin_mul_overflow(elements, std::max<int64_t>(n, 1), &elements) || elements > kMaxElements) {
      return absl::ResourceExhaustedError(absl::StrCat("a view of ", made.ToString(), " has too many elements"));
    }
  }
  Tensor t = base.ViewAs(dtype, std::move(made));
  if (!t.InBounds()) {
    return absl::FailedPreconditionError(absl::StrCat("setStorage: the view ", t.geometry().ToString(), " of ",
                                                      Name(t.dtype()), " is out of bounds for storage of size ",
                                                      base.storage()->bytes()));
  }
  return t;
}

absl::StatusOr<Tensor> Copied(const Tensor& from, const std::vector<int64_t>& strides) {
  SMELT_RETURN_IF_ERROR(CheckMemoryFor(from.NumElements(), ItemSize(from.dtype())));
  Tensor to = Tensor::EmptyStrided(from.dtype(), from.sizes(), strides);
  if (from.NumElements() > 0) {
    CopyStrided(static_cast<char*>(to.data()), to.strides(), static_cast<const char*>(from.data()), from.strides(),
                from.sizes(), ItemSize(from.dtype()));
  }
  return to;
}

// as_strided_scatter(self, src, size, stride, offset): places count from the first element of self's storage, so the
// copy has one like it, up to the last element that self reaches.
absl::StatusOr<PythonValue> AsStridedScatter(const Arguments& args, const Tensor& self) {
  SMELT_ASSIGN_OR_RETURN(Tensor src, args.TensorAt(1));
  SMELT_ASSIGN_OR_RETURN(auto sizes, args.Ints(2));
  SMELT_ASSIGN_OR_RETURN(auto strides, args.Ints(3));
  std::optional<int64_t> offset;
  if (!args.IsNone(4)) {
    SMELT_ASSIGN_OR_RETURN(offset, args.Int(4));
  }
  if (src.sizes() != absl::MakeConstSpan(sizes)) {
    return absl::FailedPreconditionError("expected src to have a size equal to the slice of self");
  }
  if (src.dtype() != self.dtype()) return absl::UnimplementedError("as_strided_scatter of another dtype");
  const Geometry& g = self.geometry();
  int64_t reached = self.NumElements() > 0 ? g.offset + 1 : 0;
  for (int d = 0; d < self.rank(); ++d) {
    if (g.strides[d] == 0 && g.sizes[d] > 1) {
      return absl::UnimplementedError("a copy with a view of memory that several elements share");
    }
    if (reached > 0) reached += (g.sizes[d] - 1) * g.strides[d];
  }
  SMELT_ASSIGN_OR_RETURN(const Tensor copy, Copied(self.View({{reached}, {1}, 0}), {1}));
  const Tensor result = copy.View(g);
  ConcreteDecide decide;
  SMELT_ASSIGN_OR_RETURN(Geometry written, view_rules::AsStrided(decide, g, sizes, strides, offset));
  SMELT_RETURN_IF_ERROR(decide.status());
  SMELT_ASSIGN_OR_RETURN(const Tensor to, Over(result, std::move(written), result.dtype()));
  if (to.NumElements() > 0) {
    CopyStrided(static_cast<char*>(to.data()), to.strides(), static_cast<const char*>(src.data()), src.strides(),
                src.sizes(), ItemSize(src.dtype()));
  }
  return PythonValue(result);
}

// cat(tensors, dim) and stack(tensors, dim) of a list that only the call knows.
absl::StatusOr<PythonValue> Join(const std::string& op, absl::Span<const PythonValue> args) {
  const bool stack = op == op::kStack;
  const std::string name = stack ? "stack" : "torch.cat()";
  if (!args[0].IsList() || args[0].elements().empty())
    return absl::FailedPreconditionError(absl::StrCat(name, ": expected a non-empty list of Tensors"));
  std::vector<Tensor> parts;
  for (const PythonValue& e : args[0].elements()) {
    SMELT_ASSIGN_OR_RETURN(Tensor t, e.AsTensor());
    if (!parts.empty() && t.dtype() != parts[0].dtype())
      return absl::UnimplementedError(
          absl::StrCat(name, ": a list of tensors of several dtypes, which only the call knows"));
    // cat ignores what is empty and of one dim.
    if (stack || t.rank() != 1 || t.NumElements() > 0) parts.push_back(std::move(t));
  }
  if (parts.empty()) return args[0].elements().front();
  const std::vector<int64_t> first(parts[0].sizes().begin(), parts[0].sizes().end());
  const int rank = static_cast<int>(first.size()) + (stack ? 1 : 0);
  int64_t dim = 0;
  if (args.size() > 1 && !args[1].IsNone()) {
    SMELT_ASSIGN_OR_RETURN(dim, args[1].AsInt());
  }
  if (rank == 0) return absl::FailedPreconditionError("zero-dimensional tensor (at position 0) cannot be concatenated");
  SMELT_ASSIGN_OR_RETURN(const int at, view_rules::WrapDim(dim, rank));
  int64_t length = 0;
  for (Tensor& t : parts) {
    // A result with four dims may be channels-last.
    if (rank >= 4 && !t.geometry().IsContiguous())
      return absl::UnimplementedError(absl::StrCat(name, ": how a list that only the call knows is laid out"));
    std::vector<int64_t> sizes(t.sizes().begin(), t.sizes().end()), expected = first;
    if (!stack && sizes.size() == expected.size()) expected[at] = sizes[at];
    if (sizes != expected) {
      return absl::FailedPreconditionError(
          stack ? "stack expects each tensor to be equal size"
                : "Sizes of tensors must match except in the dimension that is concatenated");
    }
    length += stack ? 1 : sizes[at];
  }
  std::vector<int64_t> sizes = first;
  if (stack) sizes.insert(sizes.begin() + at, length);
  sizes[at] = length;
  const Geometry whole = Geometry::Contiguous(sizes);
  SMELT_RETURN_IF_ERROR(CheckMemoryFor(whole.NumElements(), ItemSize(parts[0].dtype())));
  Tensor out = Tensor::EmptyStrided(parts[0].dtype(), whole.sizes, whole.strides);
  const int item = ItemSize(out.dtype());
  int64_t begin = 0;
  for (const Tensor& t : parts) {
    std::vector<int64_t> strides = whole.strides;
    if (stack) strides.erase(strides.begin() + at);
    if (t.NumElements() > 0) {
      CopyStrided(static_cast<char*>(out.data()) + begin * whole.strides[at] * item, strides,
                  static_cast<const char*>(t.data()), t.strides(), t.sizes(), item);
    }
    begin += stack ? 1 : t.sizes()[at];
  }
  return PythonValue(std::move(out));
}

}  // namespace

absl::StatusOr<PythonValue> EagerView(const std::string& op, absl::Span<const PythonValue> args) {
  if ((op == op::kCat || op == op::kStack) && !args.empty()) return Join(op, args);
  const ViewOp* view = FindViewOp(op);
  const bool scatters = op == op::kAsStridedScatter;
  if (!scatters && (view == nullptr || view->concrete == nullptr))
    return absl::UnimplementedError(absl::StrCat(op, " is no view operator of this runtime"));
  if (args.empty()) return absl::FailedPreconditionError("a view of nothing");
  SMELT_ASSIGN_OR_RETURN(Tensor base, args[0].AsTensor());
  const Arguments arguments(args);
  if (scatters) return AsStridedScatter(arguments, base);
  ConcreteDecide decide;
  SMELT_ASSIGN_OR_RETURN(ViewResult<ConcreteDecide> made,
                         ApplyView(*view, arguments, base.geometry(), base.dtype(), decide));
  if (made.is_operand) return args[0];
  if (made.copy_strides) {
    SMELT_ASSIGN_OR_RETURN(base, Copied(base, *made.copy_strides));
  }
  std::vector<PythonValue> parts;
  for (auto& part : made.parts) {
    SMELT_ASSIGN_OR_RETURN(Tensor t, Over(base, std::move(part.geometry), part.dtype));
    parts.push_back(PythonValue(std::move(t)));
  }
  return made.is_list ? PythonValue::List(std::move(parts)) : std::move(parts[0]);
}

}  // namespace smelt

// Types of the results of composites that a decomposition would lose, or for which a decomposition is not needed.
#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/infer_rules.h"
#include "smelt/core/op/schema.h"

namespace smelt::op_internal {
namespace {

// Contiguous with the sizes of the input, in the requested dtype.
absl::Status Softmax(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType x, TensorArgument(c, 0));
  SMELT_ASSIGN_OR_RETURN(int64_t to_float, c.call.GetIntOr("half_to_float", 0));
  c.Add(to_float != 0 ? DType::kFloat32 : DTypeOr(c, *x.dtype), *x.sizes);
  return absl::OkStatus();
}

// The gradients of queries, keys and values [batch, heads, length, depth]; in memory the heads come after the length.
absl::Status AttentionBackward(Ctx& c) {
  for (int k = 1; k <= 3; ++k) {
    SMELT_ASSIGN_OR_RETURN(TensorType x, TensorArgument(c, k));
    if (x.rank() != 4) return c.call.Error("operands of 4 dims are expected");
    const std::vector<Expr>& s = *x.sizes;
    c.AddStrided(*x.dtype, s, {s[1] * s[2] * s[3], s[3], s[1] * s[3], Expr(1)});
  }
  return absl::OkStatus();
}

absl::Status NativeLayerNorm(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType x, TensorArgument(c, 0));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> shape, c.call.GetExprs("normalized_shape"));
  if (static_cast<int>(shape.size()) > x.rank()) return c.call.Error("normalized_shape has more dims than the input");
  std::vector<Expr> stats = *x.sizes;
  for (size_t i = stats.size() - shape.size(); i < stats.size(); ++i) {
    if (!c.decide.Equal(stats[i], shape[i - (stats.size() - shape.size())])) {
      return c.call.Error("the last dims of the input are not normalized_shape");
    }
    stats[i] = 1;
  }
  c.Add(*x.dtype, *x.sizes);
  if (c.call.op().name() == "aten::layer_norm") return absl::OkStatus();
  // Parameters in float32 with a half input: statistics in float32.
  DType t = *x.dtype;
  for (const char* n : {"weight", "bias"}) {
    const OpArg* a = c.call.Find(n);
    if (a != nullptr && a->IsTensor() && a->tensor.dtype) t = *a->tensor.dtype;
  }
  c.Add(t, stats);
  c.Add(t, stats);
  return absl::OkStatus();
}

absl::Status BatchNorm(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType x, TensorArgument(c, 0));
  const std::string& n = c.call.op().name();
  if (x.rank() < 2 && n != "aten::instance_norm")
    return c.call.Error(absl::StrCat("expected at least a 2-d input, got ", x.rank(), "-d"));
  // An instance norm makes its operand contiguous first. Others look at the operand's format, or at the suggested one
  // if its memory has gaps.
  const Geo g = GeoOf(c.decide, x);
  const bool contiguous = n == "aten::instance_norm" || view_rules::IsContiguous(c.decide, g);
  const bool last = !contiguous && view_rules::IsChannelsLast(c.decide, g);
  const Format dense = x.rank() == 5 ? Format::kChannelsLast3d : Format::kChannelsLast;
  c.Add(*x.dtype, *x.sizes, contiguous ? Format::kContiguous : last ? dense : Suggest(c, x));
  if (n == "aten::batch_norm" || n == "aten::instance_norm") return absl::OkStatus();
  bool training = n == "aten::_batch_norm_with_update" || n == "aten::_batch_norm_with_update_functional";
  if (c.call.IndexOf("training") >= 0) {
    SMELT_ASSIGN_OR_RETURN(training, c.call.GetBool("training"));
  }
  // Statistics are in the parameters' dtype: float32 for half inputs with float32 parameters.
  DType t = *x.dtype;
  for (const char* name : {"weight", "running_mean"}) {
    const OpArg* a = c.call.Find(name);
    if (a != nullptr && a->IsTensor() && a->tensor.dtype) t = *a->tensor.dtype;
  }
  const Expr channels = training ? (*x.sizes)[1] : Expr(0);
  c.Add(t, {channels});
  c.Add(t, {channels});
  if (absl::StrContains(n, "_update")) c.Add(DType::kUInt8, {Expr(0)});
  if (absl::EndsWith(n, "_functional")) {
    for (const char* name : {"running_mean", "running_var"}) {
      SMELT_ASSIGN_OR_RETURN(TensorType stat, c.call.GetTensor(name));
      c.Add(*stat.dtype, *stat.sizes);
    }
  }
  return absl::OkStatus();
}

// The result of the view operator of the same name, as a dense copy.
absl::Status ViewCopy(Ctx& c) {
  const std::string name(c.call.op().name().substr(0, c.call.op().name().size() - 5));
  const OpName view =
      OpName::Get(c.call.op().overload().empty() ? name : absl::StrCat(name, ".", c.call.op().overload()));
  if (name == "aten::view" && c.call.op().overload().empty()) {
    SMELT_ASSIGN_OR_RETURN(TensorType x, TensorArgument(c, 0));
    SMELT_ASSIGN_OR_RETURN(std::vector<Expr> sizes, c.call.GetExprs("size"));
    auto r = view_rules::InferSizes(c.decide, *x.sizes, sizes);
    if (!r.ok()) return ErrorIn(c.call, r.status());
    c.Add(*x.dtype, *r);
    return absl::OkStatus();
  }
  const OpCall call(view, c.call.args());
  Ctx v{call, c.decide, {}};
  SMELT_RETURN_IF_ERROR(InferView(v));
  for (InferredOutput& o : v.out) {
    if (o.type.IsTensor()) {
      c.Add(*o.type.tensor().dtype, *o.type.tensor().sizes);
    } else {
      for (Type& e : o.elements) {
        const std::vector<Expr> sizes = *e.tensor().sizes;
        e = Type::Tensor(*e.tensor().dtype, sizes, view_rules::ContiguousStrides(c.decide, sizes));
      }
      c.out.push_back(o);
    }
  }
  return absl::OkStatus();
}

absl::Status AddReshaped(Ctx& c, const TensorType& x, const std::vector<Expr>& sizes) {
  auto r = view_rules::Reshape(c.decide, GeoOf(c.decide, x), sizes);
  if (!r.ok()) return ErrorIn(c.call, r.status());
  c.AddStrided(*x.dtype, r->geometry.sizes, r->geometry.strides);
  return absl::OkStatus();
}

absl::Status Reshape(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType x, TensorArgument(c, 0));
  std::vector<Expr> sizes;
  const std::string& n = c.call.op().name();
  if (n == "aten::reshape_as") {
    SMELT_ASSIGN_OR_RETURN(TensorType other, c.call.GetTensor("other"));
    sizes = *other.sizes;
  } else if (n == "aten::ravel") {
    sizes = {Expr(-1)};
  } else if (n == "aten::flatten") {
    SMELT_ASSIGN_OR_RETURN(int64_t start, c.call.GetIntOr("start_dim", 0));
    SMELT_ASSIGN_OR_RETURN(int64_t end, c.call.GetIntOr("end_dim", -1));
    auto f = view_rules::FlattenedSizes(c.decide, *x.sizes, start, end);
    if (!f.ok()) return ErrorIn(c.call, f.status());
    sizes = *f;
    if (sizes == *x.sizes) {
      const Geo g = GeoOf(c.decide, x);
      c.AddStrided(*x.dtype, g.sizes, g.strides);
      return absl::OkStatus();
    }
  } else {
    SMELT_ASSIGN_OR_RETURN(sizes, c.call.GetExprs("shape"));
  }
  return AddReshaped(c, x, sizes);
}

// Each tensor of a list is expanded to the common sizes.
absl::Status BroadcastTensors(Ctx& c) {
  std::vector<std::vector<Expr>> shapes;
  for (const OpArg& a : c.call.arg(0).elements) {
    if (!a.IsTensor() || !a.tensor.IsComplete()) return c.call.Unsupported("a list of tensors that are not known");
    shapes.push_back(*a.tensor.sizes);
  }
  const auto sizes = view_rules::BroadcastSizes(c.decide, shapes);
  if (!sizes.ok()) return ErrorIn(c.call, sizes.status());
  InferredOutput list;
  list.type = Type::List(Type::Tensor());
  for (const OpArg& a : c.call.arg(0).elements) {
    SMELT_ASSIGN_OR_RETURN(Geo g, view_rules::Expand(c.decide, GeoOf(c.decide, a.tensor), *sizes));
    list.elements.push_back(Type::Tensor(*a.tensor.dtype, g.sizes, g.strides));
  }
  c.out.push_back(std::move(list));
  return absl::OkStatus();
}

// New dims come first, except the third. A list is handled element by element.
absl::Status Atleast(Ctx& c) {
  const std::string& name = c.call.op().name();
  const int want = name == "aten::atleast_1d" ? 1 : name == "aten::atleast_2d" ? 2 : 3;
  const auto widened = [&](const TensorType& t) -> absl::StatusOr<Type> {
    Geo g = GeoOf(c.decide, t);
    for (int rank = t.rank(); rank < want; ++rank) {
      SMELT_ASSIGN_OR_RETURN(g, view_rules::Unsqueeze(c.decide, g, rank == 2 ? -1 : 0));
    }
    return Type::Tensor(*t.dtype, g.sizes, g.strides);
  };
  if (c.call.arg(0).IsTensor()) {
    SMELT_ASSIGN_OR_RETURN(TensorType x, TensorArgument(c, 0));
    SMELT_ASSIGN_OR_RETURN(Type t, widened(x));
    c.out.push_back({std::move(t), std::nullopt, {}});
    return absl::OkStatus();
  }
  InferredOutput list;
  list.type = Type::List(Type::Tensor());
  for (const OpArg& a : c.call.arg(0).elements) {
    if (!a.IsTensor() || !a.tensor.IsComplete()) return c.call.Unsupported("a list of tensors that are not known");
    SMELT_ASSIGN_OR_RETURN(Type t, widened(a.tensor));
    list.elements.push_back(std::move(t));
  }
  c.out.push_back(std::move(list));
  return absl::OkStatus();
}

// Returns the given dims, or all dims.
absl::StatusOr<std::vector<int64_t>> GradientDims(Ctx& c, int rank, size_t count) {
  std::vector<int64_t> dims;
  if (!c.call.IsNone("dim")) {
    SMELT_ASSIGN_OR_RETURN(dims, c.call.GetInts("dim"));
  }
  for (size_t d = dims.size(); d < count; ++d) dims.push_back(static_cast<int64_t>(d));
  for (int64_t& d : dims) {
    SMELT_ASSIGN_OR_RETURN(d, view_rules::WrapDim(d, rank));
  }
  return dims;
}

// One tensor per dim.
absl::Status Gradient(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType x, TensorArgument(c, 0));
  size_t dims = static_cast<size_t>(x.rank());
  if (!c.call.IsNone("dim")) {
    SMELT_ASSIGN_OR_RETURN(std::vector<Expr> given, c.call.GetExprs("dim"));
    if (!given.empty()) dims = given.size();
  }
  const DType t = IsFloating(*x.dtype) || IsComplex(*x.dtype) ? *x.dtype : DType::kFloat32;
  InferredOutput list;
  list.type = Type::List(Type::Tensor());
  SMELT_ASSIGN_OR_RETURN(const std::vector<int64_t> along, GradientDims(c, x.rank(), dims));
  for (int64_t d : along) {
    // It is joined from both ends and the part between them; without the latter they have no common format.
    Ctx of{c.call, c.decide, {}};
    const bool has_between = x.rank() > 0 && c.decide.Less(Expr(2), (*x.sizes)[d]);
    of.Add(t, *x.sizes, has_between ? Suggest(c, x) : Format::kContiguous);
    list.elements.push_back(of.out[0].type);
  }
  c.out.push_back(std::move(list));
  return absl::OkStatus();
}

// The tensor itself if it already has the requested format, else a copy.
absl::Status Contiguous(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType x, TensorArgument(c, 0));
  SMELT_ASSIGN_OR_RETURN(Format f, FormatArg(c, Format::kContiguous));
  const Geo g = GeoOf(c.decide, x);
  const bool already =
      f == Format::kContiguous ? view_rules::IsContiguous(c.decide, g) : view_rules::IsChannelsLast(c.decide, g);
  if (already) {
    c.AddStrided(*x.dtype, g.sizes, g.strides);
  } else {
    c.Add(*x.dtype, *x.sizes, f);
  }
  return absl::OkStatus();
}

absl::Status To(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType x, TensorArgument(c, 0));
  DType t = DTypeOr(c, *x.dtype);
  const OpArg* other = c.call.Find("other");
  if (other != nullptr && other->IsTensor() && other->tensor.dtype) t = *other->tensor.dtype;
  SMELT_ASSIGN_OR_RETURN(bool copy, c.call.GetBoolOr("copy", false));
  SMELT_ASSIGN_OR_RETURN(Format f, FormatArg(c, Format::kPreserve));
  const Geo g = GeoOf(c.decide, x);
  bool same = t == *x.dtype && !copy;
  if (same && f == Format::kContiguous) same = view_rules::IsContiguous(c.decide, g);
  if (same && f == Format::kChannelsLast) same = view_rules::IsChannelsLast(c.decide, g);
  if (same) {
    c.AddStrided(t, g.sizes, g.strides);
  } else {
    AddLike(c, t, x, f);
  }
  return absl::OkStatus();
}

// Where the mode is known only at a call, the type is what both modes give, if that is one.
absl::Status Dropout(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType x, TensorArgument(c, 0));
  const absl::StatusOr<bool> train = c.call.GetBoolOr("train", false);
  const Geo g = GeoOf(c.decide, x);
  if (train.ok() && !*train) {
    c.AddStrided(*x.dtype, g.sizes, g.strides);
    return absl::OkStatus();
  }
  AddLike(c, *x.dtype, x, Format::kPreserve);
  if (train.ok() || c.out.back().type.tensor().strides == g.strides) return absl::OkStatus();
  c.out.clear();
  return train.status();
}

absl::Status RRelu(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType x, TensorArgument(c, 0));
  AddLike(c, *x.dtype, x, Format::kContiguous);
  return absl::OkStatus();
}

absl::Status AdaptiveAvgPool(Ctx& c) {
  const int n = c.call.op().name() == "aten::adaptive_avg_pool1d"   ? 1
                : c.call.op().name() == "aten::adaptive_avg_pool2d" ? 2
                                                                    : 3;
  return AdaptivePool(n, false)(c);
}

absl::Status Rot90(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType x, TensorArgument(c, 0));
  SMELT_ASSIGN_OR_RETURN(int64_t k, c.call.GetIntOr("k", 1));
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> dims, c.call.GetInts("dims"));
  if (dims.size() != 2) return c.call.Error("expected total rotation dims == 2");
  SMELT_ASSIGN_OR_RETURN(int a, view_rules::WrapDim(dims[0], x.rank()));
  SMELT_ASSIGN_OR_RETURN(int b, view_rules::WrapDim(dims[1], x.rank()));
  const Geo g = GeoOf(c.decide, x);
  if ((k % 4 + 4) % 4 == 0) {
    c.Add(*x.dtype, g.sizes);
    return absl::OkStatus();
  }
  AddLike(c, *x.dtype, x, Format::kPreserve);  // flip
  if (k % 2 == 0) return absl::OkStatus();
  TensorType t = c.out[0].type.tensor();
  std::vector<Expr> sizes = *t.sizes, strides = *t.strides;
  std::swap(sizes[a], sizes[b]);
  std::swap(strides[a], strides[b]);
  c.out[0].type = Type::Tensor(*x.dtype, sizes, strides);
  return absl::OkStatus();
}

}  // namespace

void AddCompositeRules(RuleTable& r) {
  AddRule(r, "_scaled_dot_product_flash_attention_for_cpu_backward", AttentionBackward);
  AddRule(r, "softmax _softmax _safe_softmax log_softmax _log_softmax", Softmax);
  AddRule(r, "layer_norm native_layer_norm", NativeLayerNorm);
  AddRule(r,
          "batch_norm native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training "
          "_native_batch_norm_legit_functional _batch_norm_with_update _batch_norm_with_update_functional "
          "_batch_norm_no_update "
          "instance_norm",
          BatchNorm);
  AddRule(
      r,
      "expand_copy permute_copy transpose_copy t_copy squeeze_copy unsqueeze_copy slice_copy select_copy split_copy "
      "split_with_sizes_copy unbind_copy unfold_copy diagonal_copy as_strided_copy view_as_real_copy view_copy",
      ViewCopy);
  AddRule(r, "reshape reshape_as flatten ravel", Reshape);
  AddRule(r, "atleast_1d atleast_2d atleast_3d", Atleast);
  AddRule(r, "broadcast_tensors", BroadcastTensors);
  AddRule(r, "gradient", Gradient);
  AddRule(r, "contiguous", Contiguous);
  AddRule(r, "to type_as", To);
  AddRule(r, "rrelu", RRelu);
  AddRule(r, "dropout feature_dropout alpha_dropout feature_alpha_dropout", Dropout);
  AddRule(r, "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d", AdaptiveAvgPool);
  AddRule(r, "rot90", Rot90);
  AddRule(r, "renorm", [](Ctx& c) -> absl::Status {
    SMELT_ASSIGN_OR_RETURN(TensorType self, TensorArgument(c, 0));
    c.Add(*self.dtype, *self.sizes);
    return absl::OkStatus();
  });
}

}  // namespace smelt::op_internal

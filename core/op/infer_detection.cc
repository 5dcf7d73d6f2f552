// Types of torchvision's detection operators.
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/infer_rules.h"

namespace smelt::op_internal {
namespace {

absl::Status CheckFloats(Ctx& c, DType t) {
  if (t == DType::kFloat32 || t == DType::kFloat64) return absl::OkStatus();
  return c.call.Unsupported(absl::StrCat("operands of ", Name(t), ", not float32 or float64"));
}

absl::StatusOr<TensorType> Boxes(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType dets, TensorArgument(c, 0));
  SMELT_ASSIGN_OR_RETURN(TensorType scores, TensorArgument(c, 1));
  if (dets.rank() != 2) return c.call.Error(absl::StrCat("boxes should be a 2d tensor, got ", dets.rank(), "D"));
  if ((*dets.sizes)[1] != Expr(4)) {
    return c.call.Error(absl::StrCat("boxes should have 4 elements in dimension 1, got ", (*dets.sizes)[1].ToString()));
  }
  if (scores.rank() != 1) return c.call.Error(absl::StrCat("scores should be a 1d tensor, got ", scores.rank(), "D"));
  const std::optional<int64_t> boxes = (*dets.sizes)[0].Constant(), scored = (*scores.sizes)[0].Constant();
  if (boxes && scored && *boxes != *scored) {
    return c.call.Error(absl::StrCat("boxes and scores should have same number of elements in dimension 0, got ",
                                     *boxes, " and ", *scored));
  }
  if (dets.dtype != scores.dtype) return c.call.Error("dets should have the same type as scores");
  SMELT_RETURN_IF_ERROR(CheckFloats(c, *dets.dtype));
  return dets;
}

absl::Status Nms(Ctx& c) {
  SMELT_RETURN_IF_ERROR(Boxes(c).status());
  TensorType kept;
  kept.dtype = DType::kInt64;
  c.AddUnknown(kept);
  return absl::OkStatus();
}

absl::Status NmsOrder(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(const TensorType dets, Boxes(c));
  c.Add(DType::kInt64, {(*dets.sizes)[0]});
  c.Add(DType::kBool, {(*dets.sizes)[0]});
  return absl::OkStatus();
}

// roi_align, roi_pool, ps_roi_align(input, rois, spatial_scale, pooled_height, pooled_width, ...): [rois, channels,
// pooled_height, pooled_width]. The last two also tell which elements they took, as int32.
absl::Status RegionsOfInterest(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(const TensorType input, TensorArgument(c, 0));
  SMELT_ASSIGN_OR_RETURN(const TensorType rois, TensorArgument(c, 1));
  if (input.rank() != 4) return c.call.Error(absl::StrCat("input must have 4 dims, got ", input.rank()));
  if (rois.rank() != 2 || (*rois.sizes)[1] != Expr(5)) return c.call.Error("rois must have shape as Tensor[K, 5]");
  if (input.dtype != rois.dtype) return c.call.Error("input and rois must have the same dtype");
  SMELT_RETURN_IF_ERROR(CheckFloats(c, *input.dtype));
  SMELT_ASSIGN_OR_RETURN(const Expr height, c.call.GetExpr("pooled_height"));
  SMELT_ASSIGN_OR_RETURN(const Expr width, c.call.GetExpr("pooled_width"));
  Expr channels = (*input.sizes)[1];
  const std::string& name = c.call.op().name();
  if (name == "torchvision::ps_roi_align") {
    const std::optional<int64_t> all = channels.Constant(), bins = (height * width).Constant();
    if (!all || !bins) return c.call.Unsupported("a number of channels or of bins that only the call knows");
    if (*bins < 1 || *all % *bins != 0)
      return c.call.Error("input channels must be a multiple of pooling height * pooling width");
    channels = Expr(*all / *bins);
  }
  const std::vector<Expr> sizes = {(*rois.sizes)[0], channels, height, width};
  c.Add(*input.dtype, sizes);
  if (name != "torchvision::roi_align") c.Add(DType::kInt32, sizes);
  return absl::OkStatus();
}

// The elements of the image that each weight of a deformed convolution meets: [channels * kernel, images, positions].
absl::Status DeformedColumns(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(const TensorType input, TensorArgument(c, 0));
  SMELT_ASSIGN_OR_RETURN(const TensorType offset, TensorArgument(c, 1));
  if (input.rank() != 4 || offset.rank() != 4) return c.call.Error("input and offset must have 4 dims");
  SMELT_RETURN_IF_ERROR(CheckFloats(c, *input.dtype));
  SMELT_ASSIGN_OR_RETURN(const Expr kernel_h, c.call.GetExpr("kernel_h"));
  SMELT_ASSIGN_OR_RETURN(const Expr kernel_w, c.call.GetExpr("kernel_w"));
  c.Add(*input.dtype,
        {(*input.sizes)[1] * kernel_h * kernel_w, (*input.sizes)[0], (*offset.sizes)[2] * (*offset.sizes)[3]});
  return absl::OkStatus();
}

}  // namespace

void AddDetectionTypeRules(RuleTable& r) {
  r["torchvision::nms"] = Nms;
  r["smelt::nms_order"] = NmsOrder;
  r["torchvision::roi_align"] = r["torchvision::roi_pool"] = r["torchvision::ps_roi_align"] = RegionsOfInterest;
  r["smelt::deformed_columns"] = DeformedColumns;
}

}  // namespace smelt::op_internal

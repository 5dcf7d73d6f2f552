// Decomposes torchvision's deform_conv2d into the elements that the weights meet, and a product.
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/decompose_rules.h"

namespace smelt {
namespace {

using Values = absl::StatusOr<std::vector<ValueId>>;

// deform_conv2d(input, weight, offset, mask, bias, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups,
// offset_groups, use_mask): each weight meets an element at its place plus an offset of its own, interpolated.
Values DeformConv2d(Emit& e, const OpCall& call) {
  const ValueId input = TensorArg(call, "input"), weight = TensorArg(call, "weight"),
                offset = TensorArg(call, "offset"), mask = TensorArg(call, "mask"), bias = TensorArg(call, "bias");
  for (const auto& [v, rank, name] : {std::tuple(input, 4, "input"), std::tuple(weight, 4, "weight"),
                                      std::tuple(offset, 4, "offset"), std::tuple(bias, 1, "bias")}) {
    if (!v.valid() || e.Rank(v) != rank) return call.Error(absl::StrCat(name, " must have ", rank, " dims"));
    if (e.DTypeOf(v) != e.DTypeOf(input)) return call.Error(absl::StrCat(name, " must have the dtype of input"));
  }
  if (!mask.valid()) return call.Error("mask must be a tensor");
  SMELT_ASSIGN_OR_RETURN(const int64_t groups, call.GetInt("groups"));
  SMELT_ASSIGN_OR_RETURN(const int64_t offset_groups, call.GetInt("offset_groups"));
  SMELT_ASSIGN_OR_RETURN(const bool use_mask, call.GetBool("use_mask"));
  const std::vector<Expr> images = e.Sizes(input), kernel = e.Sizes(weight), places = e.Sizes(offset);
  const std::optional<int64_t> channels = images[1].Constant(), out_channels = kernel[0].Constant(),
                               height = kernel[2].Constant(), width = kernel[3].Constant();
  if (!channels || !out_channels || !height || !width)
    return call.Unsupported("a number of channels, or a size of the kernel, that only the call knows");
  if (groups < 1 || *out_channels % groups != 0 || kernel[1] * groups != images[1])
    return call.Error("the channels of input and weight do not fit the number of groups");
  if (offset_groups < 1 || *channels % offset_groups != 0)
    return call.Error("the channels of input do not fit the number of offset groups");
  const int64_t taps = *height * *width;
  if (places[1] != Expr(2 * offset_groups * taps))
    return call.Error(absl::StrCat("offset.shape[1] is not valid: got ", places[1].ToString(), ", expected ",
                                   2 * offset_groups * taps));
  if (use_mask &&
      (e.Rank(mask) != 4 || e.DTypeOf(mask) != e.DTypeOf(input) || e.Sizes(mask)[1] != Expr(offset_groups * taps)))
    return call.Error(absl::StrCat("mask must have ", offset_groups * taps, " channels, and the dtype of input"));
  if (e.Sizes(bias)[0] != kernel[0]) return call.Error("the bias does not fit the output channels");

  std::vector<ValueId> args = {input, offset, mask, e.Const(*height), e.Const(*width)};
  for (const char* name : {"stride_h", "stride_w", "pad_h", "pad_w", "dilation_h", "dilation_w", "offset_groups"}) {
    SMELT_ASSIGN_OR_RETURN(const int64_t number, call.GetInt(name));
    args.push_back(e.Const(number));
  }
  args.push_back(e.Const(use_mask));
  const ValueId columns = e.Op("smelt::deformed_columns", std::move(args));
  // A product with as many columns as all images have positions reads each weight once.
  const Expr positions = places[2] * places[3], rows(*channels / groups * taps), per_group(*out_channels / groups);
  ValueId out;
  if (groups == 1) {
    const ValueId flat = e.Reshape(weight, {kernel[0], rows});
    out = e.Mm(flat, e.View(columns, {rows, images[0] * positions}));
  } else {
    out = e.Op("aten::bmm", {e.Reshape(weight, {Expr(groups), per_group, rows}),
                             e.View(columns, {Expr(groups), rows, images[0] * positions})});
  }
  out = e.Transpose(e.View(out, {kernel[0], images[0], places[2], places[3]}), 0, 1);
  out = e.Contiguous(out);
  out = e.Add(out, e.View(bias, {Expr(1), kernel[0], Expr(1), Expr(1)}));
  return std::vector<ValueId>{out};
}

}  // namespace

void AddDetectionRules(DecompositionTable& t) { t["torchvision::deform_conv2d"] = DeformConv2d; }

}  // namespace smelt

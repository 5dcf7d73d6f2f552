#include "smelt/runtime/library/dnnl_util.h"

#include "absl/strings/str_cat.h"

namespace smelt {

std::string LayoutName(const dnnl::memory::desc& layout) {
  const dnnl_memory_desc_t& d = layout.data;
  std::string name = absl::StrCat(static_cast<int>(d.data_type), "/", static_cast<int>(d.format_kind), "/", d.offset0);
  const auto list = [&](const dnnl_dim_t* values, int count) {
    for (int i = 0; i < count; ++i) absl::StrAppend(&name, i == 0 ? "/" : ",", values[i]);
  };
  list(d.dims, d.ndims);
  list(d.padded_dims, d.ndims);
  list(d.padded_offsets, d.ndims);
  // A layout that is not blocks is described by bytes.
  if (d.format_kind != dnnl_blocked) {
    return absl::StrCat(name, absl::string_view(reinterpret_cast<const char*>(&d.format_desc), sizeof d.format_desc));
  }
  const dnnl_blocking_desc_t& b = d.format_desc.blocking;
  list(b.strides, d.ndims);
  list(b.inner_blks, b.inner_nblks);
  list(b.inner_idxs, b.inner_nblks);
  const auto& extra = d.extra;
  return absl::StrCat(name, "/", extra.flags, ",", extra.compensation_mask, ",", extra.scale_adjust, ",",
                      extra.asymm_compensation_mask);
}

}  // namespace smelt

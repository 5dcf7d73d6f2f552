#include "smelt/runtime/library/relayout.h"

#include <utility>
#include <vector>

#include "smelt/runtime/library/transpose.h"

namespace smelt {
namespace {

using dnnl::memory;

// The step from one place of an image to the next, if all its places [dim 2, dim 3...] are evenly spaced.
std::optional<int64_t> PlaceStep(const dnnl_memory_desc_t& d) {
  int64_t step = 0, next = 0;
  for (int i = d.ndims - 1; i >= 2; --i) {
    if (d.dims[i] == 1) continue;
    const int64_t stride = d.format_desc.blocking.strides[i];
    if (step == 0) step = next = stride;
    if (stride != next) return std::nullopt;
    next *= d.dims[i];
  }
  return step == 0 ? 1 : step;
}

bool IsStrided(const dnnl_memory_desc_t& d) {
  if (d.format_kind != dnnl_blocked || d.format_desc.blocking.inner_nblks != 0 || d.offset0 != 0) return false;
  for (int i = 0; i < d.ndims; ++i) {
    if (d.padded_dims[i] != d.dims[i] || d.padded_offsets[i] != 0) return false;
  }
  return true;
}

}  // namespace

std::optional<Relayout::Images> Relayout::AsTransposes(const memory::desc& from, const memory::desc& to) {
  const dnnl_memory_desc_t &f = from.data, &t = to.data;
  if (f.data_type != dnnl_f32 || t.data_type != dnnl_f32 || f.ndims < 3 || !IsStrided(f) || !IsStrided(t)) {
    return std::nullopt;
  }
  int64_t places = 1;
  for (int i = 2; i < f.ndims; ++i) places *= f.dims[i];
  const int64_t channels = f.dims[1];
  const auto from_place = PlaceStep(f), to_place = PlaceStep(t);
  if (!from_place || !to_place) return std::nullopt;
  const int64_t *fs = f.format_desc.blocking.strides, *ts = t.format_desc.blocking.strides;
  // Few rows or columns: blocks would be mostly empty.
  if (channels < 8 || places < 8) return std::nullopt;
  if (*from_place == 1 && ts[1] == 1) return Images{f.dims[0], channels, places, fs[0], fs[1], ts[0], *to_place};
  if (fs[1] == 1 && *to_place == 1) return Images{f.dims[0], places, channels, fs[0], *from_place, ts[0], ts[1]};
  return std::nullopt;
}

std::unique_ptr<Relayout> Relayout::Make(const memory::desc& from, const memory::desc& to) {
  if (from == to) return nullptr;
  auto made = std::make_unique<Relayout>();
  made->from_bytes_ = static_cast<int64_t>(from.get_size());
  made->to_bytes_ = static_cast<int64_t>(to.get_size());
  made->images_ = AsTransposes(from, to);
  if (!made->images_) {
    const dnnl::reorder::primitive_desc pd(CpuEngine(), from, CpuEngine(), to, UserScratchpad());
    made->reorder_ = std::make_unique<DnnlExec>(
        dnnl::reorder(pd), std::vector<DnnlExec::Arg>{{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}, pd.scratchpad_desc());
  }
  return made;
}

bool Relayout::Run(const void* from, void* to) const {
  if (!images_) {
    void* handles[] = {const_cast<void*>(from), to};
    return reorder_->Run(handles);
  }
  for (int64_t i = 0; i < images_->count; ++i) {
    Transpose4ByteElements(images_->rows, images_->columns, static_cast<const float*>(from) + i * images_->from_image,
                           images_->from_row, static_cast<float*>(to) + i * images_->to_image, images_->to_column);
  }
  return true;
}

}  // namespace smelt

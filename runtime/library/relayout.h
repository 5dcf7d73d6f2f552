// Converts a tensor from one of oneDNN's layouts to another.
#ifndef SMELT_RUNTIME_LIBRARY_RELAYOUT_H_
#define SMELT_RUNTIME_LIBRARY_RELAYOUT_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "smelt/runtime/library/dnnl_exec.h"

namespace smelt {

class Relayout {
 public:
  // Returns null if the layouts agree. Throws as oneDNN does.
  static std::unique_ptr<Relayout> Make(const dnnl::memory::desc& from, const dnnl::memory::desc& to);

  // Several threads may run it. Returns false if oneDNN refused (out of memory).
  bool Run(const void* from, void* to) const;

  int64_t from_bytes() const { return from_bytes_; }
  int64_t to_bytes() const { return to_bytes_; }

 private:
  // Between channels-first and channels-last: each image is the transpose of a matrix. All fields count elements.
  struct Images {
    int64_t count, rows, columns, from_image, from_row, to_image, to_column;
  };
  static std::optional<Images> AsTransposes(const dnnl::memory::desc& from, const dnnl::memory::desc& to);

  std::optional<Images> images_;
  std::unique_ptr<DnnlExec> reorder_;
  int64_t from_bytes_ = 0, to_bytes_ = 0;
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_LIBRARY_RELAYOUT_H_

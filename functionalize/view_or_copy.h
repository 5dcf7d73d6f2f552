// Decides whether PyTorch takes a view of a tensor or copies it. Internal to open_composites.h.
#ifndef SMELT_FUNCTIONALIZE_VIEW_OR_COPY_H_
#define SMELT_FUNCTIONALIZE_VIEW_OR_COPY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// Returns whether the tensor lies in that memory format (0: contiguous); nullopt if that depends on unknown sizes.
std::optional<bool> HasFormat(const Graph& g, const TensorType& t, int64_t memory_format);

// PyTorch's computeStride: returns whether a view of `sizes` over these strides exists for all values of the symbols.
bool IsViewable(const Graph& g, const TensorType& from, const std::vector<Expr>& sizes);
// Returns whether a view of `sizes` over these strides exists for some values of the symbols.
bool MayBeViewable(const Graph& g, const TensorType& from, const std::vector<Expr>& sizes);

// Returns whether PyTorch gives a tensor of this type the sizes `to` without a copy.
using Aliases = absl::FunctionRef<bool(const TensorType& from, const std::vector<Expr>& to)>;
// Returns the symbols that may be 1 in a call which then makes no copy, in order.
std::vector<std::string> AliasesAtOne(const Graph& g, const TensorType& from, const std::vector<Expr>& to,
                                      Aliases aliases);

}  // namespace smelt

#endif  // SMELT_FUNCTIONALIZE_VIEW_OR_COPY_H_

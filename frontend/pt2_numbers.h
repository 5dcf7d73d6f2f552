// Integers that an archive computes from bools, or states although only the data gives them.
#ifndef SMELT_FRONTEND_PT2_NUMBERS_H_
#define SMELT_FRONTEND_PT2_NUMBERS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "smelt/core/ir/graph.h"
#include "smelt/frontend/checked_json.h"
#include "smelt/frontend/pt2_parts.h"

namespace smelt {
namespace pt2_internal {

class Pt2Numbers {
 public:
  // The parts must outlive this.
  explicit Pt2Numbers(Pt2Parts& parts) : p_(parts) {}

  // Reads an aten::item of an integer for which the archive states a value (4, or a size) because assertions after it
  // require that value. Uses the stated value and checks that the tensor holds it.
  absl::Status ReadStatedItem(ValueId tensor, const OutputDecl& stated, NodeId anchor, Scope& scope);
  // Reads torch.sym_ite(b, t, f) of integers, which an export writes for each bool that it reads from a tensor.
  absl::Status ReadSymIte(const Json& inputs, const Json& outputs, NodeId anchor, Scope& scope);

 private:
  // Returns 1 if `b`, a bool, holds, else 0.
  absl::StatusOr<ValueId> OneIf(ValueId b, NodeId anchor);

  Pt2Parts& p_;
  int num_bools_read_ = 0;  // each as the symbol of a number, "u_bool0"
};

}  // namespace pt2_internal
}  // namespace smelt

#endif  // SMELT_FRONTEND_PT2_NUMBERS_H_
